"""Load records of the use of entities."""

import sys

from django.core.management.base import CommandError

from grants.errors import GrantError
from grants.journal import Author
from grants.management.console_command import ConsoleCommand
from grants.usage.import_records import import_usage


class Command(ConsoleCommand):
    help = (
        "Load records of use (JSON Lines with user, entity, day or at, and count): all lines, or none if a line is invalid. "
        "Access reviews show the last use."
    )

    def add_arguments(self, parser):
        parser.add_argument("file", metavar="FILE", help="the file, or - for standard input")

    def handle(self, *, file, **options):
        author = Author("import_usage")
        try:
            if file == "-":
                stored = import_usage(sys.stdin.buffer, author=author)
            else:
                with open(file, "rb") as stream:
                    stored = import_usage(stream, author=author)
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}") from None
        except GrantError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"stored {stored:,} days of use")
