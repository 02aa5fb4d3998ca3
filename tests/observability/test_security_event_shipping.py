"""Security events arrive at real sockets and files, in order, also after a target was down, and OCSF has all
required members.
"""

import json
import re
import socket
import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.utils import timezone

from authzconsole.common.security_events import shipping
from authzconsole.common.security_events.record import EventKind
from authzconsole.common.security_events.shipping import ocsf_event, syslog_message
from authzconsole.models import SecurityEvent, SecurityEventTarget
from grants.jobs import run_job
from grants.models import Job, JobState

LINE = re.compile(
    r"<8[45]>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z \S+ authzconsole \d+ [a-z-]{1,32} "
    r'\[authzconsole@32473(?: \w+="(?:[^"\\\]]|\\["\\\]])*")+\] \ufeff.+',
    re.ASCII | re.DOTALL,
)
BASE = {"activity_id", "category_uid", "class_uid", "metadata", "severity_id", "time", "type_uid"}
# required attributes and the alternatives of the constraint `at_least_one`, by class, of OCSF 1.3.0
CLASSES = {
    3001: ({"user"}, set()),
    3002: ({"user"}, {"service", "dst_endpoint"}),
    3003: ({"user"}, {"privileges", "group"}),
    3004: ({"entity"}, set()),
    3005: ({"user", "privileges"}, set()),
    6003: ({"actor", "api", "src_endpoint"}, set()),
}


def add_events(*kinds, **values):
    defaults = {"account": 'ada "]\\', "address": "192.0.2.7", "target": "user:dee", "detail": "x"}
    return SecurityEvent.objects.bulk_create(
        SecurityEvent(at=timezone.now() - timedelta(minutes=1), kind=kind, **defaults | values)
        for kind in kinds
    )


@contextmanager
def tcp_server():
    """Yield the port of a TCP server and the list of the data of each connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        received, done = [], threading.Event()

        def serve():
            connection, _ = server.accept()
            with connection:
                received.append(b"".join(iter(lambda: connection.recv(65536), b"")))
            done.set()

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], received
        assert done.wait(5)
        thread.join()


def ship():
    """Start the jobs that are due and execute them. Return the number of shipped events."""
    shipping.start_shipping()
    waiting = list(Job.objects.filter(type=shipping.SHIPPING_JOB, state=JobState.WAITING))
    for job in waiting:
        run_job(job.pk)
    return sum(Job.objects.get(pk=job.pk).summary["shipped"] for job in waiting)


@pytest.mark.django_db
@pytest.mark.parametrize("protocol", ["udp", "unix"])
def test_events_arrive_at_a_datagram_socket(protocol, settings, tmp_path):
    family = socket.AF_INET if protocol == "udp" else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_DGRAM) as server:
        server.settimeout(5)
        server.bind(("127.0.0.1", 0) if protocol == "udp" else str(tmp_path / "log"))
        address = f"127.0.0.1:{server.getsockname()[1]}" if protocol == "udp" else str(tmp_path / "log")
        settings.SECURITY_EVENTS_SYSLOG = f"{protocol}:{address}"
        add_events("sign-in", "denial")
        assert ship() == 2 and ship() == 0
        messages = [server.recv(65536).decode() for _ in range(2)]
    assert all(LINE.fullmatch(message) for message in messages), messages
    assert (
        messages[0].endswith('\ufeffSigned in by ada "]\\ from 192.0.2.7 user:dee x')
        and 'kind="denial"' in messages[1]
    )


@pytest.mark.django_db
def test_events_arrive_over_tcp_after_the_server_was_down(settings):
    add_events("sign-in", "sign-out", "download")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    settings.SECURITY_EVENTS_SYSLOG, settings.SECURITY_EVENTS_FORMAT = f"tcp:127.0.0.1:{port}", "ocsf"
    assert ship() == 0
    target = SecurityEventTarget.objects.get()
    assert (target.shipped_to, target.failures) == (0, 1) and "refused" in target.error
    with tcp_server() as (port, received):
        SecurityEventTarget.objects.update(name=f"syslog tcp:127.0.0.1:{port}")
        settings.SECURITY_EVENTS_SYSLOG = f"tcp:127.0.0.1:{port}"
        assert ship() == 3
    data, codes = received[0], []
    while data:
        length, _, rest = data.partition(b" ")
        message, data = rest[: int(length)].decode(), rest[int(length) :]
        assert LINE.fullmatch(message)
        codes.append(json.loads(message.split("\ufeff")[1])["metadata"]["event_code"])
    assert codes == ["sign-in", "sign-out", "download"]
    assert SecurityEventTarget.objects.get().failures == 0


@pytest.mark.django_db
def test_a_file_receives_each_event_once_and_young_events_later(settings, tmp_path, monkeypatch):
    settings.SECURITY_EVENTS_FILE = str(tmp_path / "events.jsonl")
    monkeypatch.setattr(shipping, "EVENTS_PER_BATCH", 2)
    add_events(*["sign-in"] * 5)
    (young,) = SecurityEvent.objects.bulk_create([SecurityEvent(at=timezone.now(), kind="sign-out")])
    assert ship() == 5
    monkeypatch.setattr(shipping, "SETTLE_SECONDS", 0)
    assert ship() == 1
    rows = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == sorted(SecurityEvent.objects.values_list("pk", flat=True))
    assert rows[-1] | {"at": ""} == {
        "id": young.pk,
        "at": "",
        "kind": "sign-out",
        "account": "",
        "address": "",
        "target": "",
        "detail": "",
        "request_id": "",
        "token": None,
        "count": 1,
    }
    assert (tmp_path / "events.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.django_db
def test_a_target_whose_job_is_running_is_left_alone(settings, tmp_path):
    settings.SECURITY_EVENTS_FILE = str(tmp_path / "events.jsonl")
    add_events("sign-in")
    shipping.start_shipping()
    target = SecurityEventTarget.objects.get()
    Job.objects.update(state=JobState.RUNNING)
    shipping.start_shipping()
    assert Job.objects.get() == target.job and not (tmp_path / "events.jsonl").exists()
    Job.objects.update(state=JobState.DONE)
    assert ship() == 1


@pytest.mark.parametrize("kind", list(EventKind))
@pytest.mark.parametrize("values", [{}, {"account": "", "address": "", "target": "", "detail": ""}])
def test_every_kind_is_a_valid_ocsf_event(kind, values):
    defaults = {
        "account": "ada",
        "address": "192.0.2.7",
        "target": "user:dee",
        "detail": "from ordinary to auditor",
    }
    event = SecurityEvent(pk=7, at=timezone.now(), kind=kind, request_id="r", **defaults | values)
    written = ocsf_event(event)
    required, alternatives = CLASSES[written["class_uid"]]
    assert BASE | required <= written.keys() and (not alternatives or alternatives & written.keys())
    assert written["type_uid"] == written["class_uid"] * 100 + written["activity_id"]
    assert written["category_uid"] == written["class_uid"] // 1_000 and isinstance(written["time"], int)
    assert written["metadata"]["version"] and written["metadata"]["product"]["vendor_name"]
    for user in (written.get("user"), written.get("actor", {}).get("user")):
        assert user is None or user["name"]
    assert written.get("entity", {"name": 1})["name"] and written.get("api", {"operation": 1})["operation"]
    assert (
        written.get("privileges", [1])
        and "ip" in (written.get("src_endpoint") or {"ip": 1})
        or not values.get("address", "x")
    )
    assert LINE.fullmatch(syslog_message(event, "text").decode())
    json.dumps(written)
