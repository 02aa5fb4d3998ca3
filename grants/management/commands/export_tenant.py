"""Write the content of the console as a tenant document."""

import os
from pathlib import Path

from django.core.management.base import CommandError

from grants.management.console_command import ConsoleCommand
from grants.tenant import export_tenant, tenant_lines


class Command(ConsoleCommand):
    help = "Write entities, users, groups and grants as a tenant document (JSON Lines)."

    def add_arguments(self, parser):
        parser.add_argument(
            "file", metavar="FILE", nargs="?", help="the file to write; - or none writes to standard output"
        )

    def handle(self, *, file, **options):
        if file in (None, "-"):
            self._print()
            return
        try:
            count = _write_atomically(Path(file))
        except OSError as error:
            raise CommandError(f"{file} cannot be written: {error.strerror}") from None
        self.stdout.write(f"{count:,} {'line' if count == 1 else 'lines'} written to {file}")

    def _print(self) -> None:
        binary = getattr(self.stdout, "buffer", None)
        if binary is None:
            self.stdout.write("".join(f"{line}\n" for line in tenant_lines()), ending="")
        else:
            export_tenant(binary)


def _write_atomically(path: Path) -> int:
    """Write a temporary file in the same folder and rename it to `path`, so that `path` is never incomplete."""
    if path.is_dir():
        raise CommandError(f"{path} is a directory: name a file in it")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("xb") as stream:
            count = export_tenant(stream)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return count
