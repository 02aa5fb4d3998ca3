"""Evidence is requested on a page, written by the worker, downloaded, and verified without a database."""

import csv
import io
import json
import zipfile
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django.asserts import assertContains, assertNotContains

from authzconsole.evidence import services
from authzconsole.evidence.execution import execute_evidence
from authzconsole.evidence.services import MAX_ATTEMPTS, claim_evidence, sweep_evidence
from authzconsole.models import Evidence, SecurityEvent
from entities.address import parse_address
from grants.changes.services import change_grants
from grants.evidence.signing import public_key
from grants.journal import Author, current_head, current_revision
from grants.principals.services import add_group, add_member, add_user, remove_member

pytestmark = pytest.mark.django_db

URL = "/journal/evidence"
ORDERS = "dataset:sales.orders"
OWNER = Author("ada", reason="quarter end")


@pytest.fixture
def sent(monkeypatch):
    """Collect the numbers that are sent to the worker."""
    numbers = []
    monkeypatch.setattr("authzconsole.evidence.services.send_to_worker", lambda task, row: numbers.append(row.pk) or True)
    return numbers


@pytest.fixture
def history(cast):
    """Give eve access through a group, and take it back; max keeps his. Return the revisions before and after.

    The services write all journal lines, which the rows of the cast do not have.
    """
    for name in ("eve", "max"):
        add_user(author=OWNER, name=name)
    add_group(author=OWNER, name="readers")
    change_grants(author=OWNER, grant=[("user:max", parse_address(ORDERS), "WRITE")])
    start = current_revision()
    change_grants(author=OWNER, grant=[("group:readers", parse_address(ORDERS), "READ")])
    add_member(author=OWNER, user="eve", group="readers")
    remove_member(author=OWNER, user="eve", group="readers")
    return start, current_revision()


def request(client, capture, **values):
    with capture(execute=True):
        return client.post(URL, {"entity": ORDERS, "since": "1", "until": "", **values})


@pytest.fixture
def bundle(browse, history, sent, django_capture_on_commit_callbacks, tmp_path):
    """A finished bundle about the history, as a file."""
    answer = request(browse("aud"), django_capture_on_commit_callbacks, since=str(history[0]), until=str(history[1]))
    assert answer.status_code == 303, answer.content.decode()
    execute_evidence(number=sent[0])
    response = browse("aud").get(f"{URL}/{sent[0]}.zip")
    assert response.status_code == 200 and response["Content-Type"] == "application/zip"
    path = tmp_path / "evidence.zip"
    path.write_bytes(b"".join(response.streaming_content))
    return path


def test_a_bundle_says_who_had_access_when_through_what_and_why(bundle, history):
    with zipfile.ZipFile(bundle) as archive:
        rows = list(csv.DictReader(io.StringIO(archive.read("access.csv").decode())))
        content, manifest = json.loads(archive.read("access.json")), json.loads(archive.read("manifest.json"))
        page = archive.read("report.html").decode()
    of_eve = [row for row in rows if row["user"] == "user:eve" and row["operation"] == "read"]
    assert len(of_eve) == 1
    row = of_eve[0]
    assert (row["through"], row["granted_on"], row["privilege"]) == ("group:readers", ORDERS, "READ")
    assert (row["from_revision"], row["to_revision"]) == (str(history[0] + 2), str(history[1]))
    assert row["granted_by"] == row["member_added_by"] == row["member_removed_by"] == "ada"
    assert row["grant_reason"] == "quarter end" and row["revoked_at"] == ""
    of_max = [row for row in rows if row["user"] == "user:max" and row["operation"] == "write"]
    assert [(row["to_revision"], row["member_since"]) for row in of_max] == [("", "")]
    assert {row["user"] for row in rows} == {"user:eve", "user:max"}
    paths = [row["paths"] for row in content["rows"] if row["user"] == "user:eve" and row["operation"] == "read"]
    assert [(path["principal"], path["privilege"]) for path in paths[0]] == [("group:readers", "READ")]
    assert manifest["figures"]["users"] == content["figures"]["users"] == 2
    head = current_head()
    assert manifest["journal_head"]["revision"] == head.revision and manifest["journal_head"]["hash"] == head.hash
    assert "quarter end" in page and "user:eve" in page and "<script" not in page


def test_the_command_verifies_a_bundle_and_names_a_changed_file(bundle, capsys, settings):
    call_command("verify_evidence", str(bundle))
    assert "The bundle is valid: access to dataset:sales.orders" in capsys.readouterr().out
    key = public_key()
    settings.JOURNAL_KEYS = []
    with pytest.raises(CommandError, match="--public-key"):
        call_command("verify_evidence", str(bundle))
    call_command("verify_evidence", str(bundle), public_key=key)
    with pytest.raises(CommandError, match="unknown key"):
        call_command("verify_evidence", str(bundle), public_key="0" * 64)
    with zipfile.ZipFile(bundle) as archive:
        start = archive.getinfo("access.csv").header_offset + 30 + len("access.csv") + 40
    data = bytearray(bundle.read_bytes())
    data[start] ^= 1
    bundle.write_bytes(data)
    with pytest.raises(CommandError, match=r"access\.csv was changed"):
        call_command("verify_evidence", str(bundle), public_key=key)


def test_the_page_shows_the_state_and_the_download(bundle, browse, htmx):
    number = Evidence.objects.get().pk
    assertContains(browse("aud").get(f"{URL}/{number}/"), "Download bundle")
    assertContains(browse("aud").get(f"{URL}/{number}/", headers=htmx("evidence")), "2 users with access")
    assertContains(browse("aud").get(URL), f"Evidence {number}")
    assertContains(browse("aud").get(URL), public_key())
    assert SecurityEvent.objects.filter(kind="download", account="aud").count() == 1
    for url in (URL, f"{URL}/{number}/", f"{URL}/{number}.zip"):
        assert browse("ned").get(url).status_code == 404
    assert browse("ned").post(URL, {"entity": ORDERS, "since": "1"}).status_code == 404


@pytest.mark.parametrize(("field", "value", "fault"), [
    ("entity", "orders", "is not an address"),
    ("since", "", "Enter the start"),
    ("since", "yesterday", "Enter a date"),
    ("since", "99999", "does not exist"),
    ("since", "1999-01-01", "before the first journal line"),
    ("until", "2199-01-01", "in the future"),
])
def test_a_wrong_field_is_named_and_nothing_is_lost(browse, sent, field, value, fault):
    values = {"entity": ORDERS, "since": "1", "until": ""} | {field: value}
    answer = browse("aud").post(URL, values)
    assertContains(answer, fault, status_code=400)
    assertContains(answer, 'aria-invalid="true"', status_code=400)
    assert all(text in answer.content.decode() for text in values.values())
    assert not sent and not Evidence.objects.exists()


def test_a_period_that_ends_before_it_starts_is_refused(browse, history, sent, django_capture_on_commit_callbacks):
    answer = request(browse("aud"), django_capture_on_commit_callbacks, since=str(history[1]), until=str(history[0]))
    assertContains(answer, "ends before it starts", status_code=400)


def test_an_unregistered_address_gives_a_bundle_without_rows(browse, history, sent, django_capture_on_commit_callbacks):
    request(browse("ada"), django_capture_on_commit_callbacks, entity="dataset:nowhere.nothing")
    execute_evidence(number=sent[0])
    assert Evidence.objects.get().figures["rows"] == 0


def test_a_request_is_executed_once_and_repeated_after_its_worker_died(browse, history, sent, django_capture_on_commit_callbacks,
                                                                       monkeypatch):
    request(browse("aud"), django_capture_on_commit_callbacks)
    number = sent[0]
    for attempt in range(1, MAX_ATTEMPTS + 1):
        assert claim_evidence(number) is not None
        assert claim_evidence(number) is None
        Evidence.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
        sweep_evidence()
        evidence = Evidence.objects.get()
        assert (evidence.state, evidence.attempt) == ("failed" if attempt == MAX_ATTEMPTS else "waiting", attempt)
    assert sent == [number] * MAX_ATTEMPTS
    assertContains(browse("aud").get(f"{URL}/{number}/"), "The worker ended 3 times")


def test_an_attempt_that_lost_its_request_stores_nothing(browse, history, sent, django_capture_on_commit_callbacks):
    request(browse("aud"), django_capture_on_commit_callbacks)
    lost = claim_evidence(sent[0])
    Evidence.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
    sweep_evidence()
    execute_evidence(number=sent[0])
    assert not services.update_claimed(lost, state="failed")
    assert Evidence.objects.get().state == "done"


def test_files_are_deleted_after_their_retention(bundle, browse, settings):
    Evidence.objects.update(finished_at=timezone.now() - timedelta(days=settings.EVIDENCE_KEPT_DAYS, hours=1))
    sweep_evidence()
    evidence = Evidence.objects.get()
    assert evidence.path == "" and browse("aud").get(f"{URL}/{evidence.pk}.zip").status_code == 404
    page = browse("aud").get(f"{URL}/{evidence.pk}/")
    assertContains(page, "deleted after its retention period")
    assertNotContains(page, "Download bundle")


def test_a_full_storage_is_named(browse, history, sent, django_capture_on_commit_callbacks, settings, tmp_path):
    request(browse("aud"), django_capture_on_commit_callbacks)
    (tmp_path / "file").write_text("")
    settings.SNAPSHOT_URI = str(tmp_path / "file")
    execute_evidence(number=sent[0])
    evidence = Evidence.objects.get()
    assert evidence.state == "failed" and str(tmp_path / "file") in evidence.error
