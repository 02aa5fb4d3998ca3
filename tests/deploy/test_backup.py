"""A backup is restored into an empty console, on the database system of the test run."""

import io
import json
import os
import stat
import subprocess
import sys
import tarfile
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from analytics.models import AnalysisRun
from analytics.signatures import signed_manifest
from authzconsole.backup import databases
from authzconsole.backup.archive import PURPOSE
from entities.models import Entity
from grants.journal import Author, current_revision
from grants.principals.services import add_user
from tests.deploy.conftest import ROOT, clean_environment
from tests.support.reports import create_report

pytestmark = pytest.mark.django_db(transaction=True)
QUESTIONS = [
    {
        "subject": {"type": "user", "id": name},
        "action": {"name": action},
        "resource": {"type": kind, "id": key},
    }
    for name in ("sofia.lindqvist", "unknown")
    for action, kind, key in (
        ("delete", "namespace", "logistics"),
        ("get", "namespace", "logistics"),
        ("read", "dataset", "sales.orders"),
    )
]
KEY = "journal-key-of-the-tests-0123456789-abcdef"
PASSPHRASE = "correct horse battery staple"


def command(name, *arguments):
    output = io.StringIO()
    call_command(name, *map(str, arguments), stdout=output)
    return output.getvalue()


@pytest.fixture
def console(tmp_path, settings):
    """The demo tenant with a report, in the test database."""
    settings.SNAPSHOT_URI = str(tmp_path / "snapshots")
    settings.JOURNAL_KEYS = [KEY]
    command("import_tenant", ROOT / "authzconsole" / "demo" / "tenant.jsonl")
    create_report(tmp_path / "snapshots", {"rows": []})
    return tmp_path


@pytest.fixture
def passphrase(tmp_path):
    path = tmp_path / "passphrase"
    path.write_text(PASSPHRASE + "\n")
    return path


@pytest.fixture
def empty_database(tmp_path):
    """Yield the URL of a new database next to the test database."""
    if connection.vendor == "sqlite":
        yield f"sqlite:///{tmp_path / 'restored' / 'console.sqlite3'}"
        return
    name = "console_restored"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name}")
    yield urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def run_restored(url, folder, *arguments, **variables):
    """Run manage.py in the restored console, which has its own state folder."""
    (folder / "restored").mkdir(mode=0o700, exist_ok=True)
    environment = (
        clean_environment()
        | {"DATABASE_URL": url, "STATE_DIR": str(folder / "restored"), "SECRET_KEY": "restored" * 8}
        | variables
    )
    return subprocess.run(
        [sys.executable, "manage.py", *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )


def decisions(folder, run):
    path = folder / "questions.jsonl"
    path.write_text("".join(f"{json.dumps(question)}\n" for question in QUESTIONS))
    return [json.loads(line)["decision"] for line in run("decide", path).splitlines()]


def test_a_backup_is_restored_into_an_empty_console(console, empty_database, passphrase):
    expected = decisions(console, command)
    assert True in expected and False in expected
    backup = console / "console.backup"
    message = command("backup", backup, "--passphrase-file", passphrase)
    assert f"revision {current_revision():,}" in message and stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert [path.name for path in console.iterdir() if path.name.startswith(".")] == []

    def run(*arguments):
        done = run_restored(empty_database, console, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    # the generated keys of the new console are replaced by those of the backup
    restored = run("restore", backup, "--passphrase-file", passphrase)
    assert "The tables contain what it says." in restored and "files of reports are restored" in restored
    assert (console / "restored" / "journal_keys").read_text() == KEY
    assert stat.S_IMODE((console / "restored" / "journal_keys").stat().st_mode) == 0o600
    assert decisions(console, run) == expected
    originals = {
        path.relative_to(console / "snapshots"): path.read_bytes()
        for path in (console / "snapshots").rglob("*")
        if path.is_file()
    }
    copies = console / "restored" / "snapshots"
    restored_files = {
        path.relative_to(copies): path.read_bytes() for path in copies.rglob("*") if path.is_file()
    }
    assert originals and restored_files == originals

    # a second restoration replaces the data, and gets its own identity in a shared storage
    again = run_restored(
        empty_database, console, "restore", backup, "--force", SNAPSHOT_URI=str(console / "shared")
    )
    assert again.returncode == 0, again.stderr
    assert "a new storage identity" in again.stdout and "The tables contain what it says." in again.stdout


def test_a_console_with_data_is_not_replaced(console):
    backup = console / "console.backup"
    command("backup", backup, "--without-keys", "--without-reports")
    with pytest.raises(CommandError, match="nothing was restored: this console is not empty"):
        command("restore", backup)


def assert_refused(path, message, *arguments):
    """Restore over the data of the test, which must stay as it is."""
    before = current_revision(), Entity.objects.count(), AnalysisRun.objects.count()
    with pytest.raises(CommandError, match="nothing was restored") as refusal:
        command("restore", path, "--force", *arguments)
    assert message in str(refusal.value)
    assert (current_revision(), Entity.objects.count(), AnalysisRun.objects.count()) == before


def rewrite(source, target, change):
    """Copy a backup with changed members."""
    with tarfile.open(source) as archive:
        members = [(member.name, archive.extractfile(member).read()) for member in archive]
    with tarfile.open(target, "w:gz") as archive:
        for name, content in change(members):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return target


def sign_again(members, **changes):
    """Replace members of the manifest, and sign it again."""
    contents = json.loads(members[0][1].partition(b"\n")[2]) | changes
    return [("manifest", signed_manifest(PURPOSE, contents)), *members[1:]]


def test_damaged_and_forged_backups_change_nothing(console, passphrase, settings):
    backup, other = console / "console.backup", console / "other.backup"
    command("backup", backup, "--passphrase-file", passphrase)
    content = backup.read_bytes()
    for length in (0, 100, len(content) // 2, len(content) - 20):
        other.write_bytes(content[:length])
        assert_refused(other, "damaged")
    other.write_bytes(b"PK\x03\x04 something else")
    assert_refused(other, "is not a backup")
    assert_refused(console / "missing.backup", "does not exist")

    def with_member(index, content):
        return lambda members: [
            (name, content if position == index else data) for position, (name, data) in enumerate(members)
        ]

    # another database, with the manifest of the first one and with a matching manifest that is not signed
    assert_refused(
        rewrite(backup, other, with_member(2, b"SQLite format 3\x00")), "database differs from the manifest"
    )
    manifest = rewrite(
        backup,
        other,
        lambda members: [
            (name, data.replace(b'"revision":', b'"revision":1') if name == "manifest" else data)
            for name, data in members
        ],
    )
    assert_refused(manifest, "signature with the key")
    assert_refused(rewrite(backup, other, lambda members: members[:-1]), "is missing")
    assert_refused(
        rewrite(backup, other, lambda members: [*members, ("reports/../../x", b"")]), "is not in its manifest"
    )
    assert_refused(rewrite(backup, other, lambda members: [*members, members[-1]]), "is not in its manifest")
    # other versions and database systems
    state = {
        "vendor": connection.vendor,
        # the former scheduler of tasks is no newer version
        "migrations": [["django_celery_beat", "0001_initial"], ["grants", "0999_from_the_future"]],
        "revision": 1,
    }
    newer = rewrite(backup, other, lambda members: sign_again(members, database=state))
    assert_refused(
        newer,
        "newer version of the console: this version does not have its migrations grants.0999_from_the_future",
    )
    elsewhere = rewrite(
        backup, other, lambda members: sign_again(members, database=state | {"vendor": "oracle"})
    )
    assert_refused(elsewhere, "contains a oracle database")
    assert_refused(rewrite(backup, other, lambda members: sign_again(members, format=2)), "has the format 2")
    # wrong keys
    wrong = console / "wrong"
    wrong.write_text("another passphrase")
    assert_refused(backup, "the passphrase is wrong", "--passphrase-file", wrong)
    settings.JOURNAL_KEYS = ["another-key-of-the-tests-0123456789-abcdef"]
    assert_refused(backup, "which is not in JOURNAL_KEYS")
    assert_refused(
        backup, "JOURNAL_KEYS does not contain the keys of the backup", "--passphrase-file", passphrase
    )
    command("restore", backup, "--passphrase-file", passphrase, "--extract-keys", console / "keys")
    assert (console / "keys" / "journal_keys").read_text() == KEY


def test_a_backup_with_other_keys_of_second_factors_is_refused(console, settings, passphrase):
    settings.MFA_KEYS = ["factor-key-of-the-tests-0123456789"]
    backup = console / "console.backup"
    command("backup", backup, "--passphrase-file", passphrase)
    settings.MFA_KEYS = []
    assert_refused(
        backup, "MFA_KEYS does not contain the keys of the backup", "--passphrase-file", passphrase
    )
    command("restore", backup, "--passphrase-file", passphrase, "--extract-keys", console / "keys")
    assert (console / "keys" / "mfa_keys").read_text() == "factor-key-of-the-tests-0123456789"


def test_a_backup_that_fails_leaves_no_file(console, settings, monkeypatch):
    backup = console / "console.backup"
    for arguments, message in (
        ([console / "no" / "x", "--without-keys"], "is not a folder"),
        ([console / "passphrase", "--without-keys"], "exists; name a new file"),
        ([backup, "--passphrase-file", console / "passphrase"], "at least 16 characters"),
    ):
        (console / "passphrase").write_text("short")
        with pytest.raises(CommandError, match=message):
            command("backup", *arguments)
    with pytest.raises(
        CommandError, match="one of the arguments --without-keys --passphrase-file is required"
    ):
        command("backup", backup)

    def fail(target):
        target.write_bytes(b"partial")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("authzconsole.backup.management.commands.backup.dump_database", fail)
    with pytest.raises(CommandError, match="no backup was written.*No space left"):
        command("backup", backup, "--without-keys")
    assert sorted(path.name for path in console.iterdir()) == ["passphrase", "snapshots"]


def test_a_backup_of_a_running_console_is_consistent(console):
    """Changes during the backup are in the copy completely or not at all."""
    target = console / "copy"
    state = databases.dump_database(target)
    add_user(author=Author("the tests"), name="after-the-backup")
    assert state.revision == current_revision() - 1
    assert target.stat().st_size > 0
