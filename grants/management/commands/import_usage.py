"""Load records of the use of entities."""

from grants.journal import Author
from grants.management.console_command import ConsoleCommand, opened_input
from grants.usage import import_usage


class Command(ConsoleCommand):
    help = (
        "Load records of use (JSON Lines with user, entity, day or at, and count): all lines, or none if a line is invalid. "
        "Access reviews show the last use."
    )

    def add_arguments(self, parser):
        parser.add_argument("file", metavar="FILE", help="the file, or - for standard input")

    def handle(self, *, file, **options):
        with opened_input(file) as stream:
            stored = import_usage(stream, author=Author("import_usage"))
        self.stdout.write(f"stored {stored:,} days of use")
