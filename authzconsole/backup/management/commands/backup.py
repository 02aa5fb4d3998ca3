"""Write a backup."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from django.core.management.base import CommandError

from analytics.storage import StorageError
from authzconsole import VERSION
from authzconsole.backup.archive import DATABASE, KEYS, BackupError, write_archive
from authzconsole.backup.databases import dump_database
from authzconsole.backup.keys import encrypted_keys, read_passphrase
from authzconsole.backup.reports import copy_reports
from authzconsole.common.monitoring.maintenance import record_maintenance
from authzconsole.models import MaintenanceTask
from grants.management.console_command import ConsoleCommand


class Command(ConsoleCommand):
    help = (
        "Write the database, the reports and the keys of the console into one file, while the console runs. The file is "
        "signed with a journal key, and only you can read it."
    )

    def add_arguments(self, parser):
        parser.add_argument("file", type=Path, help="the new file; it must not exist")
        keys = parser.add_mutually_exclusive_group(required=True)
        keys.add_argument(
            "--without-keys", action="store_true", help="the keys are stored elsewhere, such as in a vault"
        )
        keys.add_argument(
            "--passphrase-file",
            type=Path,
            help="encrypt SECRET_KEY, JOURNAL_KEYS and MFA_KEYS with the text of this file",
        )
        parser.add_argument(
            "--without-reports", action="store_true", help="leave the reports of the analyses out"
        )

    def handle(self, *, file, without_keys, passphrase_file, without_reports, **options):
        path = file.absolute()
        if path.exists():
            raise CommandError(f"{path} exists; name a new file")
        if not path.parent.is_dir():
            raise CommandError(f"{path.parent} is not a folder")
        try:
            with tempfile.TemporaryDirectory(prefix=".backup-", dir=path.parent) as folder:
                revision, reports = self._write(path, Path(folder), passphrase_file, without_reports)
        except (BackupError, StorageError, OSError) as error:
            raise CommandError(f"no backup was written: {error}") from None
        record_maintenance(MaintenanceTask.BACKUP, revision=revision, details=path.name)
        keys = "no keys" if without_keys else "the encrypted keys"
        self.stdout.write(
            f"{path} contains the database at revision {revision:,} of the journal, {reports:,} files of reports "
            f"and {keys}: {path.stat().st_size:,} bytes."
        )

    def _write(
        self, path: Path, folder: Path, passphrase_file: Path | None, without_reports: bool
    ) -> tuple[int, int]:
        files = {}
        if passphrase_file:
            files[KEYS] = folder / "keys"
            files[KEYS].write_bytes(encrypted_keys(read_passphrase(passphrase_file)))
        files[DATABASE] = folder / "database"
        # reports that finish later are not in the database of the backup, so the database is first
        state = dump_database(files[DATABASE])
        reports = {} if without_reports else copy_reports(folder)
        contents = {
            "version": VERSION,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "database": vars(state),
        }
        write_archive(path, contents, files | reports)
        return state.revision, len(reports)
