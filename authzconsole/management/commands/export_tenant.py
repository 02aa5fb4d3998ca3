"""Writes the console's content as a tenant document."""

import os
from pathlib import Path

from django.core.management.base import CommandError

from authzconsole.management.console_command import ConsoleCommand
from grants.tenant.export_document import export_tenant, tenant_lines


class Command(ConsoleCommand):
    help = "Write entities, users, groups and grants as a tenant document (JSON Lines)."

    def add_arguments(self, parser):
        parser.add_argument("file", metavar="FILE", nargs="?", help="where to; without it, or for -, the standard output")

    def handle(self, *, file, **options):
        if file in (None, "-"):
            self._print()
            return
        try:
            count = _write_aside(Path(file))
        except OSError as error:
            raise CommandError(f"{file} cannot be written: {error.strerror}") from None
        self.stdout.write(f"{count:,} {'line' if count == 1 else 'lines'} written to {file}")

    def _print(self) -> None:
        binary = getattr(self.stdout, "buffer", None)
        try:
            if binary is None:
                self.stdout.write("".join(f"{line}\n" for line in tenant_lines()), ending="")
            else:
                export_tenant(binary)
                binary.flush()
        except BrokenPipeError:
            # the reader has seen enough; without this Python complains once more when it closes the stream
            os.dup2(os.open(os.devnull, os.O_WRONLY), binary.fileno())


def _write_aside(path: Path) -> int:
    """Write a file beside `path` and rename it when it is complete, so that `path` is never half a document."""
    if path.is_dir():
        raise CommandError(f"{path} is a directory: name a file in it")
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with aside.open("xb") as stream:
            count = export_tenant(stream)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return count
