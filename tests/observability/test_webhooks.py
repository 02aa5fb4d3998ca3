"""Webhooks deliver journal lines to real HTTP servers, in order and signed, and do not reach internal
systems.
"""

import base64
import hashlib
import hmac
import json
import socket
import struct
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from authzconsole.common.webhooks import delivery, transport
from authzconsole.common.webhooks.delivery import secret_of
from authzconsole.common.webhooks.services import (
    WebhookError,
    create_webhook,
    enable_webhook,
    replay_dead_letters,
)
from authzconsole.models import DeadLetter, SecurityEvent, Webhook
from grants.jobs import run_job
from grants.journal import current_revision
from grants.models import Job, JobState, JournalLine
from tests.support.cast import SETUP
from tests.support.changes import add_group, add_user


class Receiver(ThreadingHTTPServer):
    """An HTTP server that answers with `statuses`, the last one again and again, and keeps the requests."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses, self.requests = [204], []
        self.url = f"http://127.0.0.1:{self.server_port}/hook?x=1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(
            (self.path, {name.title(): value for name, value in self.headers.items()}, body)
        )
        statuses = self.server.statuses
        self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
        self.send_header("Location", self.server.url)
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def receiver(settings):
    settings.WEBHOOK_ALLOW_HTTP, settings.WEBHOOK_ALLOWED_NETWORKS = True, ["127.0.0.0/8"]
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def webhook(db, receiver):
    return create_webhook(author=SETUP, url=receiver.url, actions=["group-add"])


def add_groups(*names):
    for name in names:
        add_group(name)


def subjects(receiver):
    return [json.loads(body)["subject"] for _, _, body in receiver.requests]


def deliver(webhook):
    Webhook.objects.filter(pk=webhook.pk).update(retry_at=None)
    webhook.refresh_from_db()
    result = delivery.deliver_webhook(webhook)
    webhook.refresh_from_db()
    return result


def test_lines_arrive_in_order_as_signed_cloudevents(webhook, receiver):
    add_groups("a", "b", "c")
    assert deliver(webhook) == 3 and deliver(webhook) == 0
    assert subjects(receiver) == ["group:a", "group:b", "group:c"]
    path, headers, body = receiver.requests[0]
    event, line = json.loads(body), JournalLine.objects.get(principal="group:a")
    assert path == "/hook?x=1" and headers["Content-Type"].startswith("application/cloudevents+json")
    assert (event["type"], event["specversion"]) == ("authzconsole.journal.group-add", "1.0")
    assert [event["data"][name] for name in ("revision", "hash", "actor")] == [
        line.revision,
        line.hash,
        line.actor,
    ]
    assert abs(int(headers["Webhook-Timestamp"]) - time.time()) < 60 and headers["Webhook-Id"] == event["id"]
    key = base64.b64decode(secret_of(webhook).removeprefix("whsec_"))
    signed = f"{headers['Webhook-Id']}.{headers['Webhook-Timestamp']}.".encode() + body
    assert (
        headers["Webhook-Signature"]
        == "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    )
    assert (webhook.delivered, webhook.position) == (3, current_revision())
    assert (
        f'authzconsole_webhook_deliveries{{webhook="{webhook.pk}"}} 3.0'
        in Client().get("/metrics").content.decode()
    )


def test_earlier_lines_and_other_actions_are_not_sent(webhook, receiver):

    add_user("someone")
    assert deliver(webhook) == 0 and receiver.requests == [] and webhook.position == current_revision()


def test_a_failing_line_is_repeated_in_order_with_pauses(webhook, receiver):
    receiver.statuses = [500, 500, 200]
    add_groups("a", "b")
    pauses = []
    for _ in range(2):
        assert deliver(webhook) == 0
        pauses.append((webhook.retry_at - timezone.now()).total_seconds())
        assert delivery.deliver_webhook(webhook) == 0
    assert webhook.error == "the endpoint answered 500" and 3 < pauses[0] < 6 < pauses[1] < 11
    assert deliver(webhook) == 2
    assert subjects(receiver) == ["group:a", "group:a", "group:a", "group:b"] and (
        webhook.error,
        webhook.attempts,
    ) == ("", 0)


def test_a_line_that_always_fails_becomes_a_dead_letter_and_can_be_replayed(webhook, receiver, browse):
    receiver.statuses = [500] * delivery.MAX_ATTEMPTS + [200]
    add_groups("a", "b")
    for _ in range(delivery.MAX_ATTEMPTS):
        assert deliver(webhook) == 0
    letter = DeadLetter.objects.get()
    assert letter.revision == JournalLine.objects.get(principal="group:a").revision and "500" in letter.error
    assert deliver(webhook) == 1 and subjects(receiver)[-1] == "group:b"
    page = browse("ada").get(f"/journal/webhooks/{webhook.pk}/").content.decode()
    assert "the endpoint answered 500" in page and "Send all again" in page
    browse("ada").post(f"/journal/webhooks/{webhook.pk}/change", {"verb": "replay"})
    assert deliver(webhook) == 1 and subjects(receiver)[-1] == "group:a" and not DeadLetter.objects.exists()


def test_a_replay_that_fails_again_stays_a_dead_letter_and_delays_nothing(webhook, receiver):
    add_groups("a", "b")
    DeadLetter.objects.create(
        webhook=webhook, revision=JournalLine.objects.get(principal="group:a").revision, at=timezone.now()
    )
    assert replay_dead_letters(author=SETUP, number=webhook.pk) == 1
    receiver.statuses = [500, 200]
    assert deliver(webhook) == 2 and DeadLetter.objects.get().is_replayed is False


def test_redirects_are_not_followed(webhook, receiver):
    receiver.statuses = [302, 200]
    add_groups("a")
    assert (
        deliver(webhook) == 0
        and len(receiver.requests) == 1
        and "redirects are not followed" in webhook.error
    )


@contextmanager
def silent_server(*, drips: bool):
    """Yield the URL of a server that accepts connections and never answers, or sends a byte now and then."""
    stop = threading.Event()

    def serve(server):
        connection, _ = server.accept()
        with connection:
            while not stop.wait(0.05):
                if drips:
                    try:
                        connection.sendall(b"H")
                    except OSError:
                        return

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=[server], daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        stop.set()


def test_an_endpoint_that_resets_the_connection_is_named(webhook):
    with socket.create_server(("127.0.0.1", 0)) as server:
        Webhook.objects.filter(pk=webhook.pk).update(url=f"http://127.0.0.1:{server.getsockname()[1]}/")

        def reset():
            connection, _ = server.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

        threading.Thread(target=reset, daemon=True).start()
        add_groups("a")
        deliver(webhook)
    assert "or closed the connection" in webhook.error


@pytest.mark.parametrize("drips", [False, True])
def test_an_endpoint_that_never_answers_ends_in_time(drips, db, receiver, settings):
    settings.WEBHOOK_TIMEOUT_SECONDS = 0.3
    with silent_server(drips=drips) as url:
        hanging = create_webhook(author=SETUP, url=url, actions=["group-add"])
        other = create_webhook(author=SETUP, url=receiver.url, actions=["group-add"])
        add_groups("a")
        start = time.monotonic()
        jobs = dispatched_jobs()
        assert [job.webhook for job in jobs] == [hanging, other]
        for job in jobs:
            run_job(job.pk)
        assert time.monotonic() - start < 3
    hanging.refresh_from_db()
    assert hanging.attempts == 1 and "did not answer" in hanging.error and subjects(receiver) == ["group:a"]
    assert dispatched_jobs() == []


def dispatched_jobs():
    """Start the jobs of the webhooks that are due, and return them."""
    delivery.dispatch_webhooks()
    return list(Job.objects.filter(type=delivery.DELIVERY_JOB, state=JobState.WAITING).order_by("pk"))


def test_dispatch_bounds_the_busy_threads_and_starts_no_second_job(webhook, receiver):
    for number in range(delivery.MAX_CONCURRENT + 1):
        Webhook.objects.create(url=f"https://{number}.example/", nonce="n", created_by="x")
    add_groups("a")
    jobs = dispatched_jobs()
    assert len(jobs) == delivery.MAX_CONCURRENT and jobs[0].webhook == webhook
    assert dispatched_jobs() == jobs
    run_job(jobs[0].pk)
    webhook.refresh_from_db()
    assert webhook.job.state == JobState.DONE and subjects(receiver) == ["group:a"]
    # the job of a webhook is started again for later lines
    add_groups("b")
    Job.objects.filter(pk=jobs[1].pk).update(state=JobState.DONE)
    assert webhook.job in dispatched_jobs()
    run_job(webhook.job.pk)
    assert subjects(receiver) == ["group:a", "group:b"]


def test_the_queries_of_a_delivery_do_not_grow_with_the_number_of_lines(webhook, receiver):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            dispatched_jobs()
        return len(captured)

    add_groups("a")
    few = queries()
    Job.objects.update(state=JobState.DONE)
    add_groups(*(f"group-{number}" for number in range(60)))
    assert queries() <= few
    run_job(webhook.job_id or Webhook.objects.get().job_id)
    # the next lines follow with the next job
    assert len(receiver.requests) == delivery.LINES_PER_JOB


def test_a_disabled_webhook_gets_nothing_and_continues_later(webhook, receiver):
    enable_webhook(author=SETUP, number=webhook.pk, is_enabled=False)
    add_groups("a")
    assert deliver(webhook) == 0
    enable_webhook(author=SETUP, number=webhook.pk, is_enabled=True)
    assert deliver(webhook) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "https://",
        "ftp://example.com/",
        "https://user:pw@example.com/",
        "https://example.com/#x",
        "https://example.com/a b",
        "https://exämple.com/",
        "https://example.com:99999/",
        "javascript:alert(1)",
        "https://x/\r\nA: b",
    ],
)
def test_unsuitable_urls_are_refused(url, db):
    with pytest.raises(WebhookError):
        create_webhook(author=SETUP, url=url, actions=[])


def test_public_addresses_are_allowed():
    for address in (
        "93.184.215.14",
        "8.8.8.8",
        "2606:2800:21f:cb07:6820:80da:af6b:8b2c",
        "2a00:1450:4001::1",
    ):
        assert transport._is_allowed(address), address


def test_the_attack_a_redirect_to_an_internal_address_is_not_followed(webhook, receiver):
    """A receiver that is allowed cannot send the console to one that is not, with any status of a redirect."""
    with Receiver() as internal:
        threading.Thread(target=internal.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        receiver.url = internal.url
        add_groups("a")
        for status in (301, 302, 303, 307, 308):
            receiver.statuses = [status]
            assert deliver(webhook) == 0 and "redirects are not followed" in webhook.error
        assert internal.requests == [] and len(receiver.requests) == 5
        internal.shutdown()


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "10.0.0.7",
        "192.168.1.1",
        "172.16.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "100.64.0.1",
        "224.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[fe80::1]",
        "[fd00::1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[2001::1]",
        "[2001:2::1]",
        "[2001:10::1]",
        "[2001:db8::1]",
        "[::127.0.0.1]",
        "[::ffff:0:127.0.0.1]",
        "[::8.8.8.8]",
        "[100::1]",
        "[100:0:0:1::1]",
        "[3fff::1]",
        "[5f00::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[2620:4f:8000::1]",
        "192.0.0.1",
        "192.0.0.9",
        "192.0.0.170",
        "192.0.0.192",
        "192.0.2.1",
        "192.31.196.1",
        "192.52.193.1",
        "192.88.99.1",
        "192.175.48.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "240.0.0.1",
        "255.255.255.255",
        "2130706433",
        "0x7f.1",
    ],
)
def test_internal_addresses_are_not_reached(host, settings, monkeypatch):
    connected = []
    monkeypatch.setattr(transport.socket, "create_connection", lambda *args, **kwargs: connected.append(args))
    with pytest.raises(transport.WebhookFailed, match="not public"):
        transport.post(f"https://{host}/", b"{}", {})
    assert not connected


def test_a_name_that_resolves_to_another_address_later_changes_nothing(settings, monkeypatch):
    settings.WEBHOOK_ALLOW_HTTP = True
    answers, connected = [["192.0.77.1"], ["127.0.0.1"]], []

    def resolve(host, port, **options):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answers.pop(0)]

    def connect(address, *args):
        connected.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(transport.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(transport.socket, "create_connection", connect)
    with pytest.raises(transport.WebhookFailed, match="cannot be reached"):
        transport.post("http://rebinding.example/", b"{}", {})
    assert connected == [("192.0.77.1", 80)] and answers == [["127.0.0.1"]]
    answers[:] = [["192.0.77.1", "10.0.0.1"]]
    with pytest.raises(transport.WebhookFailed, match="not public"):
        transport.post("http://mixed.example/", b"{}", {})


def test_the_pages_create_show_and_delete_a_webhook(browse, receiver):
    client = browse("ada")
    assert "No webhooks yet" in client.get("/journal/webhooks").content.decode()
    refused = client.post("/journal/webhooks/new", {"url": "ftp://x", "action": ["grant"]})
    assert refused.status_code == 400 and "must start with" in refused.content.decode()
    created = client.post(
        "/journal/webhooks/new", {"url": receiver.url, "action": ["revoke", "grant"]}
    ).content.decode()
    webhook = Webhook.objects.get()
    assert secret_of(webhook) in created and webhook.actions == "grant revoke" and webhook.created_by == "ada"
    for url in ("/journal/webhooks", f"/journal/webhooks/{webhook.pk}/"):
        page = browse("aud").get(url).content.decode()
        assert (
            receiver.url.replace("&", "&amp;") in page and "whsec_" not in page and 'name="verb"' not in page
        )
    assert secret_of(webhook) not in str(list(Webhook.objects.values()))
    client.post(f"/journal/webhooks/{webhook.pk}/change", {"verb": "disable"})
    assert not Webhook.objects.get().is_enabled
    client.post(f"/journal/webhooks/{webhook.pk}/change", {"verb": "delete"})
    assert not Webhook.objects.exists()
    assert client.post(f"/journal/webhooks/{webhook.pk}/change", {"verb": "delete"}).status_code == 404
    actions = list(
        JournalLine.objects.filter(action__startswith="webhook")
        .order_by("revision")
        .values_list("action", flat=True)
    )
    assert actions == ["webhook-add", "webhook-change", "webhook-delete"]
    assert SecurityEvent.objects.filter(kind__startswith="webhook").count() == 3


def test_a_webhook_with_too_many_dead_letters_is_disabled(webhook, receiver, monkeypatch):
    monkeypatch.setattr(delivery, "MAX_ATTEMPTS", 1)
    monkeypatch.setattr(delivery, "MAX_DEAD_LETTERS", 2)
    receiver.statuses = [500]
    add_groups("a", "b", "c")
    for _ in range(3):
        deliver(webhook)
    assert DeadLetter.objects.count() == 2 and not webhook.is_enabled
