"""Evidence is requested on a page, written by the worker, downloaded, and verified without a database."""

import contextlib
import csv
import io
import json
import re
import subprocess
import sys
import zipfile
from datetime import datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django.asserts import assertContains, assertNotContains

from authzconsole.evidence import verify as verify_script
from authzconsole.evidence.files import changes_in_period
from authzconsole.evidence.services import delete_old_evidence
from authzconsole.models import Evidence, SecurityEvent
from authzconsole.web.journal.evidence import quarters
from entities.address import parse_address
from grants.evidence.access_rows import access_periods
from grants.evidence.bundle import BundleError, contents_of, verify_bundle
from grants.evidence.signing import public_key, sign
from grants.journal import Author, current_head, current_revision
from grants.models import Job, JournalLine
from grants.validity import Validity, format_time
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    add_user,
    change_grants,
    delete_entity,
    register_entity,
    remove_member,
    set_user_active,
)
from tests.support.jobs import execute_evidence
from tests.support.pages import page_html

pytestmark = pytest.mark.django_db

URL = "/journal/evidence"
ORDERS = "dataset:sales.orders"
OWNER = Author("ada", reason="quarter end")


@pytest.fixture
def sent_numbers(monkeypatch):
    """Collect the numbers that are sent to the worker."""
    numbers = []
    monkeypatch.setattr("grants.jobs.lifecycle.send_job", lambda job: numbers.append(job.evidence.pk))
    return numbers


def test_an_entity_leads_to_its_evidence_in_the_menu_and_creates_that_of_the_quarter(
    browse, sent_numbers, cast
):
    add_grant("user:out", ORDERS, "READ")
    auditor = browse("aud")
    page = page_html(auditor.get("/entities/namespace:sales"))
    link = f"{URL}?entity=namespace%3Asales&amp;contents=yes"
    assert f'href="{link}">Evidence for an auditor' in page
    form = auditor.get(link.replace("&amp;", "&")).context["form"]
    assert form["period"].value() == next(iter(quarters())) and form["contents"].value()
    history = page_html(auditor.get(f"/entities/{ORDERS}?tab=history"))
    fields = dict(re.findall(r'type="hidden" name="(entity|since|until)" value="([^"]*)"', history))
    assert fields["since"] == "1", "the journal begins in this quarter"
    assert auditor.post(URL, fields).status_code == 303
    evidence = Evidence.objects.get()
    assert (str(evidence.entity), evidence.to_revision) == (ORDERS, current_revision())
    assert "Evidence for an auditor" not in page_html(browse("ned").get(f"/entities/{ORDERS}"))


def test_a_period_and_entered_dates_are_not_mixed(browse, sent_numbers, cast):
    form = {"entity": ORDERS, "period": next(iter(quarters())), "since": "1"}
    assertContains(browse("aud").post(URL, form), "not both", status_code=400)
    assert not Evidence.objects.exists() and not sent_numbers


def test_evidence_that_waits_says_why(browse, sent_numbers, cast):
    auditor = browse("aud")
    url = auditor.post(URL, {"entity": ORDERS, "since": "1"}).headers["Location"]
    assert re.search(r"Waiting\. (No worker is running|Redis)", page_html(auditor.get(url)))


@pytest.fixture
def history(cast):
    """Give eve and max access through a group, and revoke that of eve. Return the revisions before and after.

    The services write all journal lines, which the rows of the cast do not have.
    """
    for name in ("eve", "max"):
        add_user(name, author=OWNER)
    add_group("readers", author=OWNER)
    add_grant("user:max", ORDERS, "WRITE", author=OWNER)
    start = current_revision()
    add_grant("group:readers", ORDERS, "READ", author=OWNER)
    add_member("eve", "readers", author=OWNER)
    remove_member("eve", "readers", author=OWNER)
    return start, current_revision()


def request(client, capture, **values):
    with capture(execute=True):
        return client.post(URL, {"entity": ORDERS, "since": "1", "until": "", **values})


@pytest.fixture
def bundle(browse, history, sent_numbers, django_capture_on_commit_callbacks, tmp_path):
    """A finished bundle about the history, as a file."""
    answer = request(
        browse("aud"), django_capture_on_commit_callbacks, since=str(history[0]), until=str(history[1])
    )
    assert answer.status_code == 303, page_html(answer)
    execute_evidence(number=sent_numbers[0])
    response = browse("aud").get(f"{URL}/{sent_numbers[0]}.zip")
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
    assert [(row["began_before_period"], row["from_revision"]) for row in of_max] == [
        ("yes", str(history[0]))
    ]
    assert row["began_before_period"] == "no" and page.count("before the period") == sum(
        row["began_before_period"] for row in content["rows"]
    )
    assert {row["user"] for row in rows} == {"user:eve", "user:max"}
    paths = [
        row["paths"] for row in content["rows"] if row["user"] == "user:eve" and row["operation"] == "read"
    ]
    assert [(path["principal"], path["privilege"]) for path in paths[0]] == [("group:readers", "READ")]
    assert manifest["figures"]["users"] == content["figures"]["users"] == 2
    head = current_head()
    assert (
        manifest["journal_head"]["revision"] == head.revision
        and manifest["journal_head"]["hash"] == head.hash
    )
    assert "quarter end" in page and "user:eve" in page and "<script" not in page


def test_a_bundle_shows_the_validity_of_grants_and_memberships(
    browse, history, sent_numbers, tmp_path, django_capture_on_commit_callbacks
):
    now = timezone.now().replace(microsecond=0)
    grant, member = (Validity(now - timedelta(hours=2), now + timedelta(hours=hours)) for hours in (1, 2))
    change_grants(
        author=OWNER,
        grant=[
            ("user:eve", ORDERS, "EXECUTE", grant),
            ("group:readers", ORDERS, "READ", grant),
        ],
    )
    add_member("eve", "readers", member, author=OWNER)
    request(browse("aud"), django_capture_on_commit_callbacks, since=str(current_revision()))
    execute_evidence(number=sent_numbers[0])
    content = read_bundle(browse, Evidence.objects.get(), tmp_path, heading="user:eve")
    paths = {
        path["principal"]: path
        for row in content["rows"]
        if row["user"] == "user:eve"
        for path in row["paths"]
    }
    direct, through = paths["user:eve"], paths["group:readers"]
    of_grant = [format_time(grant.valid_from), format_time(grant.valid_until)]
    of_member = [format_time(member.valid_from), format_time(member.valid_until)]
    assert (
        [direct["valid_from"], direct["valid_until"]]
        == [through["valid_from"], through["valid_until"]]
        == of_grant
    )
    assert [through["member_valid_from"], through["member_valid_until"]] == of_member
    with zipfile.ZipFile(tmp_path / "evidence.zip") as archive:
        rows = list(csv.DictReader(io.StringIO(archive.read("access.csv").decode())))
        page = archive.read("report.html").decode()
    assert [row["member_valid_until"] for row in rows if row["through"] == "group:readers"][0] == of_member[1]
    assert {
        row["valid_until"] for row in rows if row["user"] == "user:max" and row["through"] == "user:max"
    } == {""}
    assert "(grant valid from {} until {})".format(*of_grant) in page
    assert "(membership valid from {} until {})".format(*of_member) in page


@pytest.mark.parametrize("url", ["/journal/evidence/{}.zip", "/api/v1/evidence/{}/file"])
def test_a_bundle_is_downloaded_as_chunks_because_servers_cannot_send_its_file(bundle, browse, url):
    # Django's WSGI handler assigns `close` of such a file, and files of PyArrow refuse that
    number = Evidence.objects.get().pk
    response = browse("aud").get(url.format(number))
    assert (
        not hasattr(response, "file_to_stream")
        and b"".join(response.streaming_content) == bundle.read_bytes()
    )
    assert response["Content-Disposition"] == f'attachment; filename="evidence-{number}.zip"'


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


def test_the_verifier_in_a_bundle_needs_only_python(bundle, tmp_path):
    folder = tmp_path / "files"
    with zipfile.ZipFile(bundle) as content:
        content.extractall(folder)
    verifier = tmp_path / "verify.py"
    verifier.write_bytes((folder / "verify.py").read_bytes())
    again = tmp_path / "again.zip"

    def verify(path, key=None) -> tuple[int, str]:
        command = [sys.executable, "-I", "-S", str(verifier), str(path), key or public_key()]
        result = subprocess.run(command, capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr

    def pack_again():
        with zipfile.ZipFile(again, "w", zipfile.ZIP_STORED) as packed:
            for file in sorted(folder.iterdir()):
                packed.write(file, file.name)
        return again

    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    assert lines
    for path in (bundle, folder, pack_again()):
        status, output = verify(path)
        assert status == 0 and output.startswith("Valid: 8 files are unchanged"), output
        assert f"hashes of {len(lines)} lines" in output and current_head().hash in output
    assert verify(bundle, "0" * 64)[0] == verify(bundle, "ab")[0] == 1
    with pytest.raises(BundleError, match="packed again"):
        verify_bundle(again, {public_key()})
    (folder / "access.csv").write_text("user\n")
    assert verify(pack_again()) == (1, "Not valid: access.csv was changed.\n")
    lines[0]["values"][3] = "revoke"
    (folder / "journal.jsonl").write_text(json.dumps(lines[0]) + "\n")
    with pytest.raises(verify_script.Fault, match="does not follow from its content"):
        verify_script.verify_lines(verify_script.Files(folder))


@pytest.mark.parametrize("position", [0, 31, 32, 63])
def test_the_verifier_refuses_a_changed_signature_or_key(position):
    data, key = b"manifest", bytes.fromhex(public_key())
    signature = sign(data)
    assert verify_script.is_signed(key, signature, data)
    changed = bytearray(signature)
    changed[position] ^= 1
    with contextlib.suppress(verify_script.Fault):
        assert not verify_script.is_signed(key, bytes(changed), data)
    assert not verify_script.is_signed(key, signature, data + b".")


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


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("entity", "orders", "is not an address"),
        ("since", "", "Enter the start"),
        ("since", "yesterday", "Enter a date"),
        ("since", "99999", "does not exist"),
        ("since", "1999-01-01", "before the first journal line"),
        ("until", "2199-01-01", "in the future"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_lost(browse, sent_numbers, field, value, fault):
    values = {"entity": ORDERS, "since": "1", "until": ""} | {field: value}
    answer = browse("aud").post(URL, values)
    assertContains(answer, fault, status_code=400)
    assertContains(answer, 'aria-invalid="true"', status_code=400)
    assert all(text in page_html(answer) for text in values.values())
    assert not sent_numbers and not Evidence.objects.exists()


def test_a_period_that_ends_before_it_starts_is_refused(
    browse, history, sent_numbers, django_capture_on_commit_callbacks
):
    answer = request(
        browse("aud"), django_capture_on_commit_callbacks, since=str(history[1]), until=str(history[0])
    )
    assertContains(answer, "ends before it starts", status_code=400)


def test_evidence_of_a_quarter_needs_no_dates(
    browse, history, sent_numbers, django_capture_on_commit_callbacks
):
    client = browse("aud")
    periods = [label for label, _ in client.get(URL).context["form"].fields["period"].choices[1:]]
    assert len(periods) == 1, "the journal begins in this quarter"
    answer = request(client, django_capture_on_commit_callbacks, since="", until="", period=periods[0])
    assert answer.status_code == 303, page_html(answer)
    evidence = Evidence.objects.get()
    assert (evidence.from_revision, evidence.to_revision) == (1, current_revision())
    refused = client.post(URL, {"entity": ORDERS, "since": "", "until": "", "period": "next year"})
    assert refused.status_code == 400


@pytest.mark.parametrize(
    ("today", "first_line", "expected"),
    [
        ("2026-11-28", "2026-08-05", {4: ("2026-10-01", "2026-11-28"), 3: ("1", "2026-09-30")}),
        ("2026-01-01", "2025-12-31", {1: ("2026-01-01", "2026-01-01"), 4: ("1", "2025-12-31")}),
        ("2026-05-31", "2026-04-01", {2: ("1", "2026-05-31")}),
    ],
)
def test_quarters_start_with_the_journal_and_end_today(db, monkeypatch, today, first_line, expected):
    noon = {text: datetime.fromisoformat(f"{text}T12:00:00+00:00") for text in (today, first_line)}
    JournalLine.objects.create(revision=1, at=noon[first_line], actor="ada", action="grant", hash="")
    monkeypatch.setattr("authzconsole.web.journal.evidence.localtime", lambda: noon[today])
    assert {int(label.split()[1]): texts for label, texts in quarters().items()} == expected


def test_an_unregistered_address_gives_a_bundle_without_rows(
    browse, history, sent_numbers, django_capture_on_commit_callbacks
):
    request(browse("ada"), django_capture_on_commit_callbacks, entity="dataset:nowhere.nothing")
    execute_evidence(number=sent_numbers[0])
    assert Evidence.objects.get().job.summary["rows"] == 0


def test_files_are_deleted_after_their_retention(bundle, browse, settings):
    Job.objects.update(finished_at=timezone.now() - timedelta(days=settings.EVIDENCE_KEPT_DAYS, hours=1))
    delete_old_evidence()
    evidence = Evidence.objects.get()
    assert evidence.job.result_path == "" and browse("aud").get(f"{URL}/{evidence.pk}.zip").status_code == 404
    page = browse("aud").get(f"{URL}/{evidence.pk}/")
    assertContains(page, "deleted after its retention period")
    assertNotContains(page, "Download bundle")


def test_a_full_storage_is_named(
    browse, history, sent_numbers, django_capture_on_commit_callbacks, settings, tmp_path
):
    request(browse("aud"), django_capture_on_commit_callbacks)
    (tmp_path / "file").write_text("")
    settings.SNAPSHOT_URI = str(tmp_path / "file")
    execute_evidence(number=sent_numbers[0])
    evidence = Evidence.objects.get()
    assert evidence.job.state == "failed" and str(tmp_path / "file") in evidence.job.error


SALES = "namespace:sales"


def test_evidence_of_a_namespace_has_the_rows_of_every_entity_inside_it(
    browse, history, sent_numbers, tmp_path, capsys, django_capture_on_commit_callbacks
):
    form = {"since": "1", "until": str(history[1])}
    register_entity("dataset:sales.late", author=OWNER)
    add_grant("user:max", "dataset:sales.late", "READ", author=OWNER)
    delete_entity("dataset:sales.late", author=OWNER)
    form["until"] = str(current_revision())
    request(browse("aud"), django_capture_on_commit_callbacks, entity=SALES, contents="yes", **form)
    request(
        browse("aud"),
        django_capture_on_commit_callbacks,
        entity=SALES,
        contents="yes",
        kind="dataset",
        **form,
    )
    execute_evidence(number=sent_numbers[0])
    execute_evidence(number=sent_numbers[1])
    whole, datasets = Evidence.objects.order_by("pk")
    assert (
        whole.job.state == datasets.job.state == "done"
        and whole.job.steps_done == whole.job.steps_total == whole.job.summary["entities_checked"]
    )
    content = read_bundle(browse, whole, tmp_path)
    bounds = (whole.from_revision, whole.to_revision + 1)
    addresses = list(contents_of(parse_address(SALES), "", bounds))
    assert addresses[0] == parse_address(SALES) and parse_address("dataset:sales.late") in addresses
    expected = [
        (row.user, row.operation, str(of_entity.entity), row.range[0])
        for of_entity in access_periods(addresses, bounds, "final")
        for rows in of_entity.rows_by_user()
        for row in rows
    ]
    assert [
        (row["user"], row["operation"], row["entity"], row["from_revision"]) for row in content["rows"]
    ] == expected
    assert {"dataset:sales.late", ORDERS, SALES} <= {entity for _, _, entity, _ in expected}
    only = read_bundle(browse, datasets, tmp_path)
    assert (
        only["rows"] == [row for row in content["rows"] if row["entity"].startswith("dataset:")]
        and only["kind"] == "dataset"
    )
    call_command("verify_evidence", str(tmp_path / "evidence.zip"))
    assert (
        "access to namespace:sales with its contents, only dataset, from revision" in capsys.readouterr().out
    )
    assertContains(browse("aud").get(f"{URL}/{whole.pk}/"), "with its contents")


def read_bundle(browse, evidence, folder, heading=ORDERS):
    """Download a bundle as evidence.zip. Return the content of access.json."""
    path = folder / "evidence.zip"
    path.write_bytes(b"".join(browse("aud").get(f"{URL}/{evidence.pk}.zip").streaming_content))
    with zipfile.ZipFile(path) as archive:
        assert f"<code>{heading}</code></h2>" in archive.read("report.html").decode()
        return json.loads(archive.read("access.json"))


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"entity": ORDERS, "contents": "yes", "kind": "dataset"}, "with the contents"),
        ({"entity": SALES, "kind": "dataset"}, "with the contents"),
        ({"entity": SALES, "contents": "yes", "kind": "instance"}, "contains no instance"),
        ({"entity": "application:sales.shop", "contents": "yes", "kind": "dataset"}, "contains no dataset"),
    ],
)
def test_contents_that_do_not_exist_are_refused(browse, history, sent_numbers, values, fault):
    assertContains(browse("aud").post(URL, {"since": "1", **values}), fault, status_code=400)
    assert not sent_numbers


def test_the_page_of_a_namespace_leads_to_evidence_with_its_contents(browse, history):
    assertContains(
        browse("aud").get("/entities/namespace:sales?tab=history"),
        "entity=namespace%3Asales&amp;contents=yes",
    )
    assertContains(
        browse("aud").get(f"{URL}?entity=namespace:sales&contents=yes&kind=dataset"), 'value="yes" checked'
    )


def test_a_bundle_lists_the_changes_in_its_period(
    browse, history, sent_numbers, tmp_path, django_capture_on_commit_callbacks
):
    start = current_revision()
    add_grant("user:max", ORDERS, "ADMIN", author=OWNER)
    add_grant("user:max", "stream:sales.clicks", "READ", author=OWNER)
    end = current_revision()
    add_grant("user:eve", ORDERS, "WRITE", author=OWNER)
    kinds = ({}, {"entity": SALES, "contents": "yes"}, {"entity": SALES, "contents": "yes", "kind": "stream"})
    expected = ([ORDERS], [ORDERS, "stream:sales.clicks"], ["stream:sales.clicks"])
    for number, (of, entities) in enumerate(zip(kinds, expected, strict=True)):
        request(
            browse("aud"), django_capture_on_commit_callbacks, **{"since": str(start), "until": str(end)} | of
        )
        execute_evidence(number=sent_numbers[number])
        evidence = Evidence.objects.get(pk=sent_numbers[number])
        path = tmp_path / f"{number}.zip"
        path.write_bytes(b"".join(browse("aud").get(f"{URL}/{evidence.pk}.zip").streaming_content))
        with zipfile.ZipFile(path) as archive:
            rows = list(csv.DictReader(io.StringIO(archive.read("changes.csv").decode())))
            lines = list(csv.reader(io.StringIO(archive.read("access.csv").decode())))
            page = archive.read("report.html").decode()
        changes = [row for row in rows if row["action"] == "grant"]
        assert [row["entity"] for row in changes] == entities
        assert {row["reason"] for row in changes} == {"quarter end"}
        assert all(start < int(row["revision"]) <= end for row in rows)
        figures = evidence.job.summary
        assert (figures["changes"], figures["lines"]) == (len(rows), len(lines) - 1)
        assert "Changes in the period" in page and page.count("<td>Granted ") == len(entities)
        text = page_html(browse("aud").get(f"{URL}/{evidence.pk}/"))
        assert f"{figures['lines']} lines in access.csv" in text


def test_evidence_reads_its_changes_with_one_query(history, django_assert_num_queries, browse, sent_numbers):
    evidence = Evidence(entity=SALES, contents=True, from_revision=1, to_revision=current_revision())
    with django_assert_num_queries(1):
        assert list(changes_in_period(evidence))


def test_a_bundle_names_the_deactivation_that_ended_access(
    browse, history, sent_numbers, tmp_path, django_capture_on_commit_callbacks
):
    add_member("eve", "readers", author=OWNER)
    add_user("lea", role="auditor", author=OWNER)
    start = current_revision()
    set_user_active("max", active=False, author=OWNER)
    deactivated = current_revision()
    remove_member("eve", "readers", author=OWNER)
    left = current_revision()
    add_user("new", author=OWNER)
    request(browse("aud"), django_capture_on_commit_callbacks, entity=SALES, contents="yes", since=str(start))
    execute_evidence(number=sent_numbers[0])
    content = read_bundle(browse, Evidence.objects.get(), tmp_path)
    with zipfile.ZipFile(tmp_path / "evidence.zip") as archive:
        changes = list(csv.DictReader(io.StringIO(archive.read("changes.csv").decode())))
        rows = list(csv.DictReader(io.StringIO(archive.read("access.csv").decode())))
        accounts = list(csv.DictReader(io.StringIO(archive.read("accounts.csv").decode())))
        page = archive.read("report.html").decode()
    columns = ("from_revision", "to_revision", "active", "console_role", "began_before_period")
    of_user = {
        user: [tuple(row[name] for name in columns) for row in accounts if row["user"] == f"user:{user}"]
        for user in ("max", "lea", "new")
    }
    assert of_user["max"] == [
        (str(start), str(deactivated), "yes", "ordinary", "yes"),
        (str(deactivated), "", "no", "ordinary", "no"),
    ]
    assert [row[2:] for row in of_user["lea"]] == [("yes", "auditor", "yes")]
    # every user may delete all streams of a namespace without streams
    assert [row[2:] for row in of_user["new"]] == [("yes", "ordinary", "no")]
    assert content["figures"]["accounts"] == len({row["user"] for row in accounts})
    assert [(line["revision"], line["action"], line["principal"]) for line in changes] == [
        (str(deactivated), "user-deactivate", "user:max"),
        (str(left), "member-remove", "user:eve"),
    ]
    assert content["figures"]["changes"] == 2
    causes = {
        (row["user"], row["to_revision"], row["ended_action"], row["ended_by"])
        for row in rows
        if row["to_revision"]
    }
    assert causes == {
        ("user:max", str(deactivated), "user-deactivate", "ada"),
        ("user:eve", str(left), "member-remove", "ada"),
    }
    assert f'<code>user:max</code> <span class="note">User deactivated (revision {deactivated})' in page


@pytest.mark.parametrize(
    ("query", "has_contents"),
    [("", True), ("?entity=namespace:sales", True), ("?entity=namespace:sales&since=1", False)],
)
def test_the_form_includes_contents_unless_a_link_with_a_period_leaves_them_out(
    query, has_contents, browse, cast
):
    form = browse("aud").get(f"/journal/evidence{query}").context["form"]
    assert bool(form["contents"].value()) is has_contents


def test_evidence_of_an_entity_without_contents_ignores_the_box(browse, history, sent_numbers):
    browse("aud").post(URL, {"entity": ORDERS, "contents": "yes", "since": "1"})
    assert not Evidence.objects.get().contents
