from django.core.management.base import CommandError

from authzconsole.management.console_command import ConsoleCommand
from grants.journal import current_revision, first_break
from grants.models import JournalLine


class Command(ConsoleCommand):
    help = "Proves that no line of the journal was changed, removed or inserted; names the first broken line."

    def handle(self, **options):
        found = first_break()
        if found is not None:
            raise CommandError(f"The journal is broken: {found.sentence}.")
        lines = JournalLine.objects.count()
        self.stdout.write(f"The journal holds: {lines:,} {'line' if lines == 1 else 'lines'}, revision {current_revision()}.")
