"""Security events: every kind is recorded by the request that causes it, floods are bounded, and the page
reads the events.
"""

import json
import re
from datetime import timedelta

import pytest
from django.conf import settings as project_settings
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from analytics.models import AnalysisRun
from authzconsole.common.security_events import record
from authzconsole.common.security_events.record import EventKind, clean_security_events
from authzconsole.models import SecurityEvent
from entities.address import parse_address
from grants.journal import Author
from grants.models import JournalLine
from grants.principals.services import set_user_role
from grants.requests.approvers import set_namespace_approvers
from grants.stewards.services import add_steward, remove_steward
from tests.rest.conftest import QUESTION
from tests.support.cast import PASSWORD
from tests.support.changes import add_group, issue_token


def events(**filters):
    rows = SecurityEvent.objects.filter(**filters).order_by("pk")
    return list(rows.values_list("kind", "account", "address", "target", "detail"))


@pytest.fixture(autouse=True)
def no_waiting_events():
    record._waiting.clear()


def test_sign_in_failure_and_sign_out_are_recorded(cast):
    client = Client(REMOTE_ADDR="192.0.2.7")
    client.post("/sign-in", {"username": "ada", "password": "wrong"})
    client.post("/sign-in", {"username": "ada\x1b[2J", "password": "wrong"})
    client.post("/sign-in", {"username": "ada", "password": PASSWORD})
    client.post("/sign-out")
    recorded = events()
    assert [row[:3] for row in recorded if row[0] != "sign-in-failure"] == [
        ("sign-in", "ada", "192.0.2.7"),
        ("sign-out", "ada", "192.0.2.7"),
    ]
    failures = [row[:3] for row in recorded if row[0] == "sign-in-failure"]
    assert ("sign-in-failure", "ada", "192.0.2.7") in failures and not any(
        "\x1b" in name for _, name, _ in failures
    )
    assert "wrong" not in str(list(SecurityEvent.objects.values()))
    assert all(len(event.request_id) == 32 for event in SecurityEvent.objects.all())


def test_refused_pages_and_rest_calls_are_recorded_but_no_denied_decision(browse, cast):
    browse("dee").get("/grant/dataset:sales.orders")
    browse("aud").post("/plans/many")
    browse("dee").get("/api/v1/journal")
    token = issue_token("ada", "decide")
    headers = {"Authorization": f"Bearer {token.secret}"}
    Client().get("/api/v1/journal", headers=headers)
    question = QUESTION | {"action": {"name": "drop"}}
    denied = Client().post("/access/v1/evaluation", question, "application/json", headers=headers)
    assert denied.json()["decision"] is False
    assert [(row[1], *row[3:]) for row in events(kind="denial")] == [
        ("dee", "/grant/dataset:sales.orders", "GET"),
        ("aud", "/plans/many", "POST"),
        ("dee", "/api/v1/journal", "GET"),
        ("ada", "/api/v1/journal", "GET"),
    ]
    assert SecurityEvent.objects.filter(kind="denial").last().token == token.token.pk


def test_unknown_tokens_are_recorded_without_their_secret(db):
    for path in ("/access/v1/evaluation", "/api/v1/decisions"):
        Client().post(path, QUESTION, "application/json", headers={"Authorization": "Bearer azc_guess"})
    assert [(row[0], row[3]) for row in events()] == [
        ("token-rejected", "/access/v1/evaluation"),
        ("token-rejected", "/api/v1/decisions"),
    ]
    assert "azc_guess" not in str(list(SecurityEvent.objects.values()))


def test_impersonation_is_recorded_with_the_administrator(browse):
    client = browse("ada")
    client.post("/people/see-as", {"user": "dee"})
    client.post("/plans/many")
    client.post("/people/see-as", {"user": ""})
    assert [row[:2] + row[3:4] for row in events() if row[0] != "sign-in"] == [
        ("see-as-start", "ada", "user:dee"),
        ("denial", "ada", "/plans/many"),
        ("see-as-stop", "ada", "user:dee"),
    ]


def test_downloads_are_recorded_with_their_filters(browse):
    for url in ("/journal.csv?action=grant", "/journal/security-events.jsonl", "/plans/import/sample.csv"):
        b"".join(browse("ada").get(url))
    assert [row[3:] for row in events(kind="download")] == [
        ("/journal.csv", "action=grant"),
        ("/journal/security-events.jsonl", ""),
    ]


def test_journal_lines_about_tokens_roles_and_settings_are_events_too(browse, cast):
    revision = JournalLine.objects.count()
    set_user_role(author=Author("ada", request_id="r" * 32), name="ned", role="auditor")
    token = issue_token("ada", "decide").token
    assert [row[:1] + row[3:4] for row in events()] == [("role-set", "user:ned"), ("token-add", "user:ada")]
    assert str(token) in events(kind="token-add")[0][4]
    assert JournalLine.objects.count() == revision + 2


def test_the_events_of_data_stewards_and_approvers_name_the_namespace(cast):
    sales = parse_address("namespace:sales")
    add_group("keepers")
    for name in ("operators", "keepers"):
        set_namespace_approvers(author=Author("ada"), namespace=sales, group=name)
    add_steward(author=Author("ada"), namespace=sales, principal="group:keepers")
    remove_steward(author=Author("ada"), namespace=sales, principal="group:keepers")
    assert [row[0:1] + row[3:] for row in events()] == [
        ("approvers-set", "group:operators", "namespace:sales"),
        ("approvers-set", "group:keepers", "namespace:sales instead of group:operators"),
        ("steward-add", "group:keepers", "namespace:sales"),
        ("steward-remove", "group:keepers", "namespace:sales"),
    ]


def test_the_documentation_lists_every_kind_of_event():
    document = (project_settings.BASE_DIR / "docs" / "guides" / "observability.md").read_text()
    table = document.partition("| kind | recorded when |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`([\w-]+)`", table)) == sorted(EventKind)


def test_starting_and_cancelling_a_run_leave_journal_lines_and_events(browse):
    client = browse("ada")
    client.post("/analyses/start", {"analysis": "delete-readiness", "generation": "final"})
    run = AnalysisRun.objects.get()
    client.post(f"/analyses/{run.pk}/cancel")
    client.post(f"/analyses/{run.pk}/cancel")
    lines = (
        JournalLine.objects.filter(action__startswith="run-")
        .order_by("revision")
        .values_list("actor", "action", "detail")
    )
    detail = f"run {run.pk}: delete-readiness, generation: final"
    assert list(lines) == [("ada", "run-start", detail), ("ada", "run-cancel", detail)]
    assert [row[0] for row in events() if row[0] != "sign-in"] == ["run-start", "run-cancel"]


def test_a_flood_of_wrong_tokens_from_one_address_fills_a_bounded_number_of_rows(db, rf, monkeypatch):
    request = rf.get("/", REMOTE_ADDR="192.0.2.7")
    for _ in range(1_030):
        record.record_event(EventKind.TOKEN_REJECTED, request=request)
    counts = list(SecurityEvent.objects.order_by("pk").values_list("count", flat=True))
    assert counts == [1] * 20 + [12, 32, 64, 128, 256, 512]
    assert sum(counts) == 1_024


def test_a_flood_from_many_addresses_is_bounded_too(db, rf, monkeypatch):
    monkeypatch.setattr(record, "MAX_ROWS_PER_KIND", 50)
    for number in range(300):
        record.record_event(
            EventKind.SIGN_IN_FAILURE,
            request=rf.get("/", REMOTE_ADDR=f"192.0.{number // 256}.{number % 256}"),
        )
    assert SecurityEvent.objects.count() == 53


def test_an_event_costs_one_query_and_a_locked_database_does_not_fail_the_request(
    db, rf, monkeypatch, django_assert_num_queries
):
    request = rf.get("/", REMOTE_ADDR="192.0.2.7")
    with django_assert_num_queries(1):
        record.record_event(EventKind.DENIAL, request=request)

    def fail(*args, **kwargs):
        raise OperationalError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(SecurityEvent, "save", fail)
        record.record_event(EventKind.DENIAL, request=request, target="/waits")
    assert SecurityEvent.objects.count() == 1
    record.record_event(EventKind.DENIAL, request=request, target="/next")
    assert [row[3] for row in events()] == ["", "/waits", "/next"]


def test_stored_events_cannot_be_changed_or_deleted_by_other_code(db):
    record.record_event(EventKind.SIGN_IN, account="ada")
    for change in (
        lambda: SecurityEvent.objects.all().delete(),
        lambda: SecurityEvent.objects.update(account="eve"),
    ):
        with pytest.raises(TypeError):
            change()


def test_old_events_are_deleted(db, settings):
    now = timezone.now()
    SecurityEvent.objects.bulk_create(
        SecurityEvent(at=now - timedelta(days=days), kind="sign-in") for days in (0, 9, 10, 11)
    )
    settings.SECURITY_EVENTS_KEPT_DAYS = 0
    assert clean_security_events() == 0
    settings.SECURITY_EVENTS_KEPT_DAYS = 10
    assert clean_security_events() == 2 and SecurityEvent.objects.count() == 2


@pytest.fixture
def many_events(cast):
    now = timezone.now()
    SecurityEvent.objects.bulk_create(
        SecurityEvent(
            at=now - timedelta(hours=120 - number),
            kind=("denial", "sign-in")[number % 2],
            address="192.0.2.7",
            account=f"user {number % 3}",
            target=f"<b>{number}",
        )
        for number in range(120)
    )


def test_the_page_filters_and_pages(many_events, browse, htmx, django_assert_max_num_queries):
    client = browse("aud")
    page = client.get("/journal/security-events?kind=denial")
    assert len(page.context["page"].rows) == 50 and "&lt;b&gt;118" in page.content.decode()
    older = client.get(page.context["page"].next_url)
    assert [event.target for event in older.context["page"].rows] == [
        f"<b>{number}" for number in range(18, -1, -2)
    ]
    assert len(client.get(older.context["page"].previous_url).context["page"].rows) == 50
    of_one = client.get("/journal/security-events?kind=denial&account=user:user 1").context["page"]
    assert len(of_one.rows) == 20
    assert (
        "No matching events" in client.get("/journal/security-events?address=198.51.100.1").content.decode()
    )
    assert "is not a date" in client.get("/journal/security-events?since=yesterday").content.decode()
    with django_assert_max_num_queries(4):
        section = client.get("/journal/security-events", headers=htmx("events")).content.decode()
    assert "<html" not in section


def test_the_download_and_rest_have_the_same_events(many_events, browse):
    client = browse("aud")
    file = b"".join(client.get("/journal/security-events.jsonl?kind=denial&account=user 0")).decode()
    rows = [json.loads(line) for line in file.splitlines()]
    query = {"kind": "denial", "account": "user 0", "limit": 15}
    items = client.get("/api/v1/security-events", query).json()
    more = client.get("/api/v1/security-events", query | {"cursor": items["next"]}).json()
    assert [row["id"] for row in rows] == [item["id"] for item in items["items"] + more["items"]] and len(
        rows
    ) == 20
    csv = b"".join(client.get("/journal/security-events.csv")).decode().splitlines()
    assert csv[0].startswith("id,at,kind,account") and len(csv) > 120
