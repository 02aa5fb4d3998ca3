"""Restore a backup."""

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from analytics.storage import StorageError
from analytics.storage_identity import change_storage_identity, is_storage_private
from authzconsole.backup.archive import DATABASE, BackupError, extract_files, read_head, verified_manifest
from authzconsole.backup.databases import DatabaseState, check_state, is_database_empty, replace_database
from authzconsole.backup.keys import (
    ConsoleKeys,
    decrypted_keys,
    has_generated_keys,
    read_passphrase,
    store_keys,
)
from authzconsole.backup.reports import is_safe_name, store_reports
from grants.errors import GrantError
from grants.journal import Author


class Command(BaseCommand):
    help = (
        "Restore a backup into an empty console that is stopped, upgrade its tables, and verify the journal. The backup is "
        "verified before anything is changed."
    )

    def add_arguments(self, parser):
        parser.add_argument("file", type=Path)
        parser.add_argument("--passphrase-file", type=Path, help="the passphrase of the keys in the backup")
        parser.add_argument(
            "--extract-keys",
            type=Path,
            metavar="FOLDER",
            help="only write the keys into this folder, for the settings SECRET_KEY_FILE, JOURNAL_KEYS_FILE and "
            "MFA_KEYS_FILE",
        )
        parser.add_argument(
            "--force", action="store_true", help="replace the data of a console that is not empty"
        )
        parser.add_argument(
            "--replace-original",
            action="store_true",
            help="the console of the backup no longer exists, so this one takes over its folders in a shared "
            "storage of reports",
        )

    def handle(self, *, file, passphrase_file, extract_keys, force, replace_original, **options):
        path = file.absolute()
        try:
            manifest, key_data = read_head(path)
            keys = self._keys(path, key_data, passphrase_file)
            if extract_keys:
                return self._extract_keys(path, keys, extract_keys)
            # decided before the keys change
            is_key_owner = has_generated_keys()
            self._use_keys(keys, is_key_owner)
            contents = verified_manifest(path, manifest)
            with (
                _stopped_console(),
                tempfile.TemporaryDirectory(prefix="restore-", dir=settings.STATE_DIR) as folder,
            ):
                files = self._verified_files(path, contents, Path(folder), force)
                # first, because files of reports without their database change nothing
                reports = store_reports(files)
                replace_database(files[DATABASE], Path(folder))
            if keys and is_key_owner:
                store_keys(keys, Path(settings.STATE_DIR))
        except (BackupError, StorageError, OSError) as error:
            raise CommandError(f"nothing was restored: {error}") from None
        self._finish(contents, reports, replace_original)

    def _keys(self, path: Path, data: bytes, passphrase_file: Path | None) -> ConsoleKeys | None:
        if passphrase_file is None:
            return None
        if not data:
            raise BackupError(
                f"{path} contains no keys: set JOURNAL_KEYS to the keys of the console, and omit --passphrase-file"
            )
        return decrypted_keys(data, read_passphrase(passphrase_file))

    def _extract_keys(self, path: Path, keys: ConsoleKeys | None, folder: Path) -> None:
        if keys is None:
            raise BackupError("--extract-keys needs --passphrase-file")
        store_keys(keys, folder)
        self.stdout.write(f"The keys of {path} are in {folder}. Nothing was restored.")

    def _use_keys(self, keys: ConsoleKeys | None, is_key_owner: bool) -> None:
        """Use the keys of the backup in this process. Raise BackupError if the environment has others."""
        if keys is None:
            return
        if not is_key_owner and not set(keys.journal_keys) <= set(settings.JOURNAL_KEYS):
            raise BackupError(
                "JOURNAL_KEYS does not contain the keys of the backup: write them into files with --extract-keys, "
                "and set JOURNAL_KEYS_FILE and SECRET_KEY_FILE"
            )
        # these keys are never generated
        if not set(keys.mfa_keys) <= set(settings.MFA_KEYS):
            raise BackupError(
                "MFA_KEYS does not contain the keys of the backup, so no second factor would work: write them into "
                "files with --extract-keys, and set MFA_KEYS_FILE"
            )
        settings.JOURNAL_KEYS = [
            *keys.journal_keys,
            *(key for key in settings.JOURNAL_KEYS if key not in keys.journal_keys),
        ]

    def _verified_files(
        self, path: Path, contents: dict[str, Any], folder: Path, force: bool
    ) -> dict[str, Path]:
        """Extract the backup and verify every file.

        Raise BackupError if it is damaged or cannot be restored here.
        """
        check_state(DatabaseState(**contents["database"]))
        if not force and not is_database_empty():
            raise BackupError(
                "this console is not empty: restore into a new database, or replace its data with --force"
            )
        if unsafe := [name for name in contents["files"] if not is_safe_name(name)]:
            raise BackupError(f"{path} contains a file with the name {unsafe[0]}")
        return extract_files(path, contents, folder)

    def _finish(self, contents: dict[str, Any], reports: int, replace_original: bool) -> None:
        self.stdout.write(
            f"The database of {contents['created']} (version {contents['version']}, revision "
            f"{contents['database']['revision']:,}) and {reports:,} files of reports are restored."
        )
        call_command("migrate", interactive=False, verbosity=0)
        if not (replace_original or is_storage_private()):
            try:
                change_storage_identity(
                    author=Author("restore", reason=f"restored the backup of {contents['created']}")
                )
            except GrantError as error:
                raise CommandError(f"The storage identity was not changed: {error}") from None
            self.stdout.write(
                "It has a new storage identity, so that it does not delete the reports of the original console."
            )
        call_command("verify_journal", stdout=self.stdout)


@contextmanager
def _stopped_console() -> Iterator[None]:
    """Hold the lock of `make run`. Raise BackupError if a console runs in this state folder."""
    path = Path(settings.STATE_DIR) / "run" / "console.lock"
    if not path.exists():
        yield
        return
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(f"a console runs in {settings.STATE_DIR}: stop it first") from None
        yield
