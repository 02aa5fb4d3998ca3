"""Verify the hash chain of the journal."""

from django.core.management.base import CommandError

from authzconsole.management.console_command import ConsoleCommand
from grants.journal import current_revision, first_break
from grants.models import JournalLine


class Command(ConsoleCommand):
    help = "Verify that no journal line was changed, removed or inserted; report the first broken line."

    def handle(self, **options):
        journal_break = first_break()
        if journal_break is not None:
            raise CommandError(f"The journal is broken: {journal_break.sentence}.")
        lines = JournalLine.objects.count()
        self.stdout.write(f"The journal is intact: {lines:,} {'line' if lines == 1 else 'lines'}, revision {current_revision()}.")
