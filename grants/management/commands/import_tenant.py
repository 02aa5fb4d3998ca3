"""Load a tenant document into the console."""

import sys
from contextlib import contextmanager
from pathlib import Path

from django.core.management.base import CommandError

from entities.vocabulary import clip
from grants.errors import GrantError
from grants.journal import Author
from grants.management.console_command import ConsoleCommand
from grants.management.second_person import add_second_person_argument, reason_with_second_person
from grants.tenant.import_document import import_tenant


class Command(ConsoleCommand):
    help = "Load a tenant document (JSON Lines): all lines, or none if any line is invalid."

    def add_arguments(self, parser):
        parser.add_argument("file", metavar="FILE", help="the document, or - for standard input")
        parser.add_argument("--dry-run", action="store_true", help="report the changes without making them")
        add_second_person_argument(parser)

    def handle(self, *, file, dry_run, second_person, **options):
        reason = "" if file == "-" else f"import of {clip(Path(file).name)}"
        author = Author(
            "import_tenant", reason=reason if dry_run else reason_with_second_person(reason, second_person)
        )
        with _open_input(file) as stream:
            try:
                report = import_tenant(stream=stream, author=author, dry_run=dry_run)
            except GrantError as error:
                raise CommandError(str(error)) from None
        self.stdout.write(str(report))


@contextmanager
def _open_input(file: str):
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = open(file, "rb")
    except (OSError, ValueError) as error:
        raise CommandError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    with stream:
        yield stream
