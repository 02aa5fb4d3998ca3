"""Test the content of journal lines, the detection of tampering, and concurrent changes."""

import hashlib
import io
import json
import threading
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.utils import timezone

from entities.vocabulary import Privilege
from grants import journal
from grants.errors import JournalReadOnly
from grants.journal import (
    LINES_PER_BATCH,
    JournalEntry,
    append_to_journal,
    current_revision,
    first_break,
    lock_journal,
    verify_part,
)
from grants.journal_queries import journal_lines
from grants.models import JournalHead, JournalLine, User
from tests.support.authors import COMMAND, account, administrator, all_grants
from tests.support.changes import add_grant

pytestmark = pytest.mark.django_db


def append(*actions):
    with transaction.atomic():
        return append_to_journal(
            lock_journal(),
            [JournalEntry(action, detail="naïve — “quoted”\n") for action in actions],
            author=COMMAND,
        )


def test_a_journal_line_has_space_for_the_name_of_every_privilege():
    assert max(map(len, Privilege)) <= JournalLine._meta.get_field("privilege").max_length


def run(sql, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)


def verify():
    out = io.StringIO()
    call_command("verify_journal", stdout=out)
    return out.getvalue()


@pytest.fixture
def five():
    append("a", "b", "c", "d", "e")


def test_an_empty_journal_is_valid():
    assert verify() == "The journal is intact: 0 lines, revision 0.\nThe tables contain what it says.\n"


def test_revisions_have_no_gaps_across_batches(five):
    append(*["x"] * (LINES_PER_BATCH + 3))
    total = LINES_PER_BATCH + 8
    assert list(JournalLine.objects.values_list("revision", flat=True)) == list(range(1, total + 1))
    assert current_revision() == total and first_break() is None


def test_a_line_is_written_only_in_the_transaction_of_its_change(transactional_db):
    with pytest.raises(AssertionError, match="in the transaction of its change"):
        append_to_journal(JournalHead(), [JournalEntry("a")], author=COMMAND)
    assert not JournalLine.objects.exists()


CHANGED = "line 3 was changed after it was written: its hash does not match"


@pytest.mark.parametrize("column", [name for name in JournalLine.HASHED if name not in ("revision", "at")])
def test_a_change_in_any_column_is_named(five, column):
    new_value = "7" if column in ("token", "format") else "'other'"
    run(f"UPDATE grants_journalline SET {column} = {new_value} WHERE revision = 3")
    assert first_break().sentence == CHANGED and first_break().revision == 3


def test_lines_of_format_1_verify():
    line = JournalLine(revision=1, at=timezone.now(), actor="a", action="b", format=1)
    line.hash = hashlib.sha256(
        json.dumps(
            ["0" * 64, 1, line.at.isoformat(timespec="microseconds"), "a", "b", "", "", "", "", "", ""],
            separators=(",", ":"),
        ).encode()
    ).hexdigest()
    assert line.hash_after("0" * 64) == line.hash
    line.format = 2
    assert line.hash_after("0" * 64) != line.hash


@pytest.mark.parametrize(
    "tamper, line, sentence",
    [
        ("UPDATE grants_journalline SET at = '2020-01-01 00:00:00+00:00' WHERE revision = 3", 3, CHANGED),
        ("UPDATE grants_journalline SET hash = 'f' WHERE revision = 3", 3, CHANGED),
        ("DELETE FROM grants_journalline WHERE revision = 1", 1, "line 1 is missing: line 2 follows line 0"),
        ("DELETE FROM grants_journalline WHERE revision = 3", 3, "line 3 is missing: line 4 follows line 2"),
        (
            "DELETE FROM grants_journalline WHERE revision = 5",
            5,
            "line 5 is missing: the journal ends at line 4, but its head says 5",
        ),
        (
            "DELETE FROM grants_journalline",
            1,
            "line 1 is missing: the journal ends at line 0, but its head says 5",
        ),
        (
            "DELETE FROM grants_journalhead",
            1,
            "line 1 was inserted: the head says that the journal ends at line 0",
        ),
        (
            "UPDATE grants_journalhead SET revision = 4",
            5,
            "line 5 was inserted: the head says that the journal ends at line 4",
        ),
        (
            "UPDATE grants_journalhead SET revision = 9",
            6,
            "line 6 is missing: the journal ends at line 5, but its head says 9",
        ),
        (
            "UPDATE grants_journalhead SET hash = 'f'",
            5,
            "line 5 was changed after it was written: its hash is not the head's",
        ),
    ],
    ids=str,
)
def test_tampering_is_named_at_the_first_broken_line(five, tamper, line, sentence):
    run(tamper)
    assert (first_break().revision, first_break().sentence) == (line, sentence)
    with pytest.raises(CommandError) as refused:
        verify()
    assert (str(refused.value), refused.value.returncode) == (f"The journal is broken: {sentence}.", 1)


def insert(revision, previous_hash):
    """Insert a line with a correct hash, as an attacker who knows the algorithm could."""
    line = JournalLine.objects.get(revision=2)
    line.revision, line.action = revision, "forged"
    line.hash = line.hash_after(previous_hash)
    line.save(force_insert=True)
    return line


def test_a_line_inserted_at_the_end_is_named(five):
    insert(6, JournalLine.objects.get(revision=5).hash)
    assert first_break().revision == 6


@pytest.mark.parametrize("revision", [0, -7])
def test_a_line_inserted_before_the_first_is_named(five, revision):
    insert(revision, "0" * 64)
    assert first_break().sentence == f"line {revision} was inserted: the first line has the number 1"


def test_a_line_inserted_in_the_middle_is_detected(five):
    run("UPDATE grants_journalline SET revision = revision + 100 WHERE revision >= 3")
    run("UPDATE grants_journalline SET revision = revision - 99 WHERE revision >= 100")
    insert(3, JournalLine.objects.get(revision=2).hash)
    assert first_break().revision == 3


def test_a_rewritten_end_is_detected_although_its_hashes_match(five):
    line = JournalLine.objects.get(revision=5)
    line.action = "forged"
    line.hash = line.hash_after(JournalLine.objects.get(revision=4).hash)
    line.save()
    assert first_break().sentence.startswith(
        "line 5 was changed after it was written: its signature with the key "
    )


def rewrite_from(revision, **changes):
    """Change a line and recompute all later hashes and the hash of the head, as an account with database
    access can.
    """
    previous = JournalLine.objects.get(revision=revision - 1).hash
    for line in JournalLine.objects.filter(revision__gte=revision).order_by("revision"):
        for name, value in (changes if line.revision == revision else {}).items():
            setattr(line, name, value)
        line.hash = previous = line.hash_after(previous)
        line.save()
    JournalHead.objects.update(hash=previous)


@pytest.mark.parametrize(
    "signature", [{}, {"key_id": "", "mac": ""}, {"key_id": "0" * 16, "mac": "f" * 64}], ids=str
)
def test_the_attack_a_rewritten_line_with_all_hashes_recomputed_is_detected(five, signature):
    rewrite_from(3, actor="somebody else", **signature)
    assert first_break().revision == 3
    assert verify_part().chain_break.revision == 3
    with pytest.raises(JournalReadOnly, match="was changed outside the console"):
        append("x")


def test_the_attack_rewriting_without_any_signature_is_detected(five):
    rewrite_from(2, action="forged")
    JournalLine.objects.update(key_id="", mac="")
    JournalHead.objects.update(key_id="", mac="")
    assert first_break().sentence == "line 1 is not signed"
    with pytest.raises(JournalReadOnly, match="not signed"):
        append("x")


def test_the_attack_lines_removed_at_the_end_with_a_matching_head_is_detected(five):
    JournalLine.objects.filter(revision__gt=3).delete()
    last = JournalLine.objects.get(revision=3)
    JournalHead.objects.update(revision=3, hash=last.hash, mac=last.mac)
    assert "the head of the journal was changed outside the console" in first_break().sentence
    with pytest.raises(JournalReadOnly):
        append("x")


def test_a_rotated_key_signs_and_the_old_key_verifies(five, settings):
    old = settings.JOURNAL_KEYS
    settings.JOURNAL_KEYS = ["n" * 40, *old]
    append("x")
    assert first_break() is None
    assert len(set(JournalLine.objects.values_list("key_id", flat=True))) == 2
    settings.JOURNAL_KEYS = ["n" * 40]
    assert "line 1 is signed with the key" in first_break().sentence
    settings.JOURNAL_KEYS = old
    with pytest.raises(JournalReadOnly, match="which is not in JOURNAL_KEYS"):
        append("y")


def test_without_the_key_changes_are_refused_with_its_id_and_reads_work(five, settings, client):
    User.objects.create(username="ada", role="administrator", is_principal=False)
    client.force_login(account("ada"))
    key_id = JournalHead.objects.get().key_id
    settings.JOURNAL_KEYS = ["w" * 40]
    answer = client.post("/people/add", {"type": "group", "name": "g"})
    assert answer.status_code == 503 and key_id in answer.content.decode()
    answer = client.post("/api/v1/groups", {"name": "g"}, content_type="application/json")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:authzconsole:problem:read-only")
    assert (
        client.get("/journal/").status_code == 200 and key_id in client.get("/journal/proof").content.decode()
    )
    assert (
        client.get("/api/v1/journal/proof")
        .json()["read_only_reason"]
        .startswith(f"the journal was signed with the key {key_id}, which is not in JOURNAL_KEYS")
    )
    assert current_revision() == 5


def test_a_lost_key_is_replaced_by_a_seal(five, settings):
    key_id = JournalHead.objects.get().key_id
    with pytest.raises(CommandError, match="nothing to seal"):
        call_command("seal_journal", reason="no need")
    settings.JOURNAL_KEYS = ["w" * 40]
    run("UPDATE grants_journalline SET reason = 'x' WHERE revision = 3")
    with pytest.raises(CommandError, match="a seal would hide it: line 3"):
        call_command("seal_journal", reason="lost")
    run("UPDATE grants_journalline SET reason = 'because' WHERE revision = 3")
    call_command("seal_journal", reason="lost", stdout=io.StringIO())
    line = JournalLine.objects.get(revision=6)
    assert (line.action, line.actor, line.reason, key_id in line.detail) == (
        "seal",
        "seal_journal",
        "lost",
        True,
    )
    assert first_break() is None and append("x") == 7
    rewrite_from(3, action="forged")
    # the signature of the seal is no longer valid, so it does not cover line 1
    assert first_break().revision == 1


def test_the_console_starts_read_only_without_the_key(five, settings):
    settings.JOURNAL_KEYS = ["w" * 40]
    errors = io.StringIO()
    call_command("bootstrap", stderr=errors, stdout=io.StringIO())
    assert errors.getvalue().startswith("The console starts read-only: the journal was signed with the key ")


def test_a_part_of_the_journal_is_verified_at_a_time(five):
    first = verify_part(max_lines=3)
    assert (first.chain_break, first.verified_to, first.is_complete) == (None, 3, False)
    second = verify_part(after=3, max_lines=3)
    assert (second.chain_break, second.verified_to, second.is_complete) == (None, 5, True)
    assert verify_part(after=9).chain_break.sentence == "line 9 is missing"
    run("UPDATE grants_journalline SET reason = 'x' WHERE revision = 5")
    assert (
        verify_part(max_lines=3).chain_break is None
        and verify_part(after=3, max_lines=3).chain_break.revision == 5
    )


def test_a_line_written_during_the_verification_is_not_reported(five, monkeypatch):
    read, written = journal.current_head, []

    def head_then_write():
        head = read()
        if len(written) < 3:
            written.append(append("meanwhile"))
        return head

    monkeypatch.setattr(journal, "current_head", head_then_write)
    assert first_break() is None
    assert written == [6, 7, 8]


def test_verification_keeps_one_batch_in_memory_and_reads_it_once(five, django_assert_max_num_queries):
    with django_assert_max_num_queries(5):
        first_break()


def test_lines_are_filtered_by_their_fields(five):
    User.objects.create(username="alice")
    author = administrator()
    add_grant("user:alice", "dataset:sales.orders", Privilege.READ, author=author)
    assert [line.revision for line in journal_lines()] == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert [line.action for line in journal_lines(actor=author.name)] == ["grant", "plan", "plan", "plan"]
    assert [line.action for line in journal_lines(entity="dataset:sales.orders")] == ["grant", "plan"]
    assert [line.action for line in journal_lines(principal="user:alice")] == ["grant"]
    assert [line.revision for line in journal_lines(action="b")] == [2]
    moment = JournalLine.objects.get(revision=6).at
    assert [line.revision for line in journal_lines(until=moment)] == [5, 4, 3, 2, 1]
    assert [line.revision for line in journal_lines(since=moment, action="plan")] == [8, 7, 6]


def in_threads(*jobs):
    """Run each job in a thread with a separate connection, all starting together. Return the exceptions."""
    start, raised = threading.Barrier(len(jobs)), []

    def work(job):
        try:
            start.wait()
            job()
        except Exception as error:
            raised.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=[job]) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


@pytest.mark.django_db(transaction=True)
def test_concurrent_changes_form_one_chain_without_gaps():
    names = [f"user {n}" for n in range(4)]
    User.objects.bulk_create(User(username=name) for name in names)

    def job(name):
        def grants():
            for number in range(15):
                # All threads plan the same new addresses: without the lock, two would insert one.
                add_grant(f"user:{name}", f"dataset:shared.{number}", Privilege.READ)

        return grants

    assert in_threads(*map(job, names)) == []
    assert len(all_grants()) == 60
    planned = JournalLine.objects.filter(action="plan").values_list("entity", flat=True)
    assert len(planned) == len(set(planned)) == 17
    assert current_revision() == 77 and first_break() is None


@pytest.mark.django_db(transaction=True)
def test_one_of_two_identical_concurrent_grants_changes_nothing():
    User.objects.create(username="alice")
    outcomes = []

    def job():
        outcomes.append(add_grant("user:alice", "dataset:a.b", Privilege.READ))

    assert in_threads(job, job, job) == []
    assert sorted(outcome.has_changed for outcome in outcomes) == [False, False, True]
    assert len(all_grants()) == 1 and first_break() is None


def test_a_clock_that_is_set_back_does_not_reorder_the_lines(monkeypatch):
    append("a")
    before = JournalLine.objects.latest("revision")
    monkeypatch.setattr("grants.journal.timezone.now", lambda: before.at - timedelta(days=1))
    append("b")
    after = JournalLine.objects.latest("revision")
    assert after.revision > before.revision and after.at == before.at
    assert first_break() is None
