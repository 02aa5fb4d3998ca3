"""Write the head of the journal to the places of JOURNAL_ANCHOR."""

from django.conf import settings
from django.core.management.base import CommandError

from grants.management.console_command import ConsoleCommand
from grants.verification import anchor_journal


class Command(ConsoleCommand):
    help = "Write the revision and the hash of the newest journal line to the places of JOURNAL_ANCHOR."

    def handle(self, **options):
        if not settings.JOURNAL_ANCHOR:
            raise CommandError(
                "JOURNAL_ANCHOR names no place, such as file:/var/log/authzconsole.anchor or syslog:"
            )
        revision = anchor_journal()
        self.stdout.write(f"The journal is anchored at revision {revision}.")
