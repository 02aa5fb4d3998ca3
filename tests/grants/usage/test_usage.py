"""The use of entities: recorded from permitted decisions without a query, and imported all or nothing."""

import io
import json
import sys
from datetime import date, timedelta
from multiprocessing import get_context
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from entities.address import parse_address
from grants.journal import first_break
from grants.models import JournalLine
from grants.models.reviews import UsageDay
from grants.policies.question import Question
from grants.usage import recording
from grants.usage.recording import UsageRecorder
from grants.usage.storage import UsageRecord, add_usage, delete_old_usage

pytestmark = pytest.mark.usefixtures("cast")
ORDERS = parse_address("dataset:sales.orders")
GOOD = {"user": "dee", "entity": "dataset:sales.orders", "day": "2026-01-31"}


def usage() -> set[tuple]:
    return set(UsageDay.objects.values_list("user__username", "entity__key", "day", "count"))


def question(user: str = "dee", address=ORDERS, type_: str = "user") -> Question:
    return Question(type_, user, "read", address, "final")


def test_decisions_are_counted_without_a_query_and_written_together(django_assert_num_queries):
    recorder, today = UsageRecorder(writes_in_thread=False), timezone.now().date()
    with django_assert_num_queries(0):
        for _ in range(3):
            recorder.count(
                [question(), question("ned"), question("operators", type_="group"), question("nobody")]
            )
    assert recorder.write() == 2 and recorder.write() == 0
    assert usage() == {("dee", "sales.orders", today, 3), ("ned", "sales.orders", today, 3)}
    recorder.count([question()])
    recorder.write()
    assert ("dee", "sales.orders", today, 4) in usage()


def test_the_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(recording, "MAX_KEYS", 2)
    recorder = UsageRecorder(writes_in_thread=False)
    recorder.count([question(name) for name in ("dee", "ned", "grp", "dee")])
    recorder.write()
    assert {(user, count) for user, _, _, count in usage()} == {("dee", 2), ("ned", 1)}


def test_counts_are_kept_when_the_database_fails(monkeypatch):
    recorder = UsageRecorder(writes_in_thread=False)
    recorder.count([question()])
    with monkeypatch.context() as patch:

        def fail(records):
            raise DatabaseError("locked")

        patch.setattr(recording, "add_usage", fail)
        assert recorder.write() == 0
    recorder.count([question()])
    recorder.write()
    assert [count for *_, count in usage()] == [2]


def test_parts_that_were_written_are_not_added_again(monkeypatch):
    monkeypatch.setattr(recording, "ROWS_PER_STATEMENT", 1)
    recorder, written = UsageRecorder(writes_in_thread=False), []

    def add_one(records):
        if written:
            raise InterfaceError("the connection is closed")
        written.extend(records)
        return add_usage(records)

    recorder.count([question(), question("ned"), question("ned")])
    with monkeypatch.context() as patch:
        patch.setattr(recording, "add_usage", add_one)
        assert recorder.write() == 1
    assert recorder.write() == 1
    assert {(user, count) for user, _, _, count in usage()} == {("dee", 1), ("ned", 2)}


def test_a_process_writes_its_counts_at_its_end_and_never_those_of_its_parent(monkeypatch, tmp_path):
    def add_to_file(records):
        with (tmp_path / "written").open("a") as file:
            file.writelines(f"{record.user} {record.count}\n" for record in records)
        return len(records)

    monkeypatch.setattr(recording, "add_usage", add_to_file)
    monkeypatch.setattr(recording, "Thread", lambda **options: SimpleNamespace(start=lambda: None))
    recording.recorder.reset()
    recording.recorder.count([question("ned")])
    child = get_context("fork").Process(
        target=lambda: recording.recorder.count([question("dee"), question("dee")])
    )
    child.start()
    child.join(10)
    assert (child.exitcode, (tmp_path / "written").read_text()) == (0, "dee 2\n")
    assert recording.recorder.write() == 1
    recording.recorder.reset()


def test_a_permitted_decision_over_the_api_is_recorded_and_a_denied_or_past_one_is_not(
    client, cast, settings, monkeypatch
):
    recorder = UsageRecorder(writes_in_thread=False)
    monkeypatch.setattr(recording, "recorder", recorder)
    client.force_login(cast["ada"])

    def ask(user: str, operation: str, **context) -> None:
        body = {
            "subject": {"type": "user", "id": user},
            "action": {"name": operation},
            "resource": {"type": "dataset", "id": "sales.orders"},
            "context": context,
        }
        for sent in (body, {"evaluations": [body]}):
            answer = client.post("/api/v1/decisions", json.dumps(sent), content_type="application/json")
            assert answer.status_code == 200, answer.content

    settings.RECORD_USAGE = True
    ask("dee", "read")
    ask("dee", "write")
    ask("ned", "get-metadata", at=(timezone.now() + timedelta(days=9)).isoformat())
    settings.RECORD_USAGE = False
    ask("ned", "get-metadata")
    recorder.write()
    assert {(user, count) for user, _, _, count in usage()} == {("dee", 2)}


def lines(*records: dict) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def import_lines() -> list[JournalLine]:
    return list(JournalLine.objects.filter(action="usage-import").order_by("revision"))


def import_file(content: bytes, monkeypatch) -> str:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    call_command("import_usage", "-", stdout=output)
    return output.getvalue()


def test_records_are_imported_and_can_be_imported_again(monkeypatch):
    content = lines(
        GOOD | {"count": 7},
        {"user": "ned", "entity": "dataset:sales.orders", "at": "2026-02-01T00:30:00+01:00"},
    )
    expected = {("dee", "sales.orders", date(2026, 1, 31), 7), ("ned", "sales.orders", date(2026, 1, 31), 1)}
    for _ in range(2):
        assert import_file(content, monkeypatch) == "stored 2 days of use\n"
        assert usage() == expected
    assert [(line.actor, line.detail) for line in import_lines()] == [("import_usage", "2 days of use")] * 2
    assert first_break() is None


def test_an_import_over_rest_names_its_administrator_in_the_journal(client, cast):
    """Reviewers trust the last use, so a false record must not be anonymous."""
    client.force_login(cast["ada"])
    answer = client.post("/api/v1/usage", json.dumps({"records": [GOOD]}), content_type="application/json")
    assert answer.json() == {"stored": 1}
    assert [(line.actor, line.detail) for line in import_lines()] == [("ada", "1 day of use")]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (GOOD | {"user": "nobody"}, "user: user:nobody is not known"),
        (GOOD | {"entity": "dataset:sales.none"}, "entity: dataset:sales.none is not known"),
        (GOOD | {"entity": "orders"}, "entity: "),
        ({"user": "dee", "entity": "dataset:sales.orders"}, "day: exactly one"),
        (GOOD | {"at": "2026-01-31T00:00:00Z"}, "day: exactly one"),
        ({"user": "dee", "entity": "dataset:sales.orders", "at": "2026-01-31T00:00:00"}, "at: "),
        (GOOD | {"day": "31 January"}, "day: this must be a day"),
        (GOOD | {"day": "2999-01-01"}, "day: this is in the future"),
        (GOOD | {"count": 0}, "count: this must be"),
        (GOOD | {"colour": 1}, "colour: unknown member"),
        ([], "line: this must be an object"),
    ],
)
def test_a_bad_record_is_reported_with_its_line_and_nothing_is_stored(record, message, monkeypatch):
    with pytest.raises(CommandError, match=f"line 2: {message}"):
        import_file(lines(GOOD, record), monkeypatch)
    assert not usage() and not import_lines()


def test_text_that_is_not_json_is_reported(monkeypatch, tmp_path):
    with pytest.raises(CommandError, match="line 1: line: the line is not JSON"):
        import_file(b"{nonsense\n", monkeypatch)
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("import_usage", str(tmp_path / "missing"))


def test_old_rows_are_deleted(settings):
    settings.USAGE_KEPT_DAYS = 30
    today = timezone.now().date()
    add_usage(
        UsageRecord("dee", "dataset", "sales.orders", today - timedelta(days=days)) for days in (10, 40)
    )
    assert delete_old_usage() == 1 and {day for _, _, day, _ in usage()} == {today - timedelta(days=10)}
