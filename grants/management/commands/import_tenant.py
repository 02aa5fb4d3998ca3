"""Load a tenant document into the console."""

from pathlib import Path

from entities.vocabulary import clip
from grants.journal import Author
from grants.management.console_command import ConsoleCommand, opened_input
from grants.management.second_person import add_second_person_argument, reason_with_second_person
from grants.tenant import import_tenant


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
        with opened_input(file) as stream:
            report = import_tenant(stream=stream, author=author, dry_run=dry_run)
        self.stdout.write(str(report))
