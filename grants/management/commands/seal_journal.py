"""Sign the journal with the current key after the previous key was lost."""

from django.core.management.base import CommandError

from grants.errors import GrantError
from grants.journal import Author
from grants.management.console_command import ConsoleCommand
from grants.verification.seal import seal_journal


class Command(ConsoleCommand):
    help = (
        "Sign the journal with the first key of JOURNAL_KEYS after its key was lost, which ends the read-only state. The new "
        "line covers the hashes of all earlier lines as they are now: compare them with an anchor or a backup first."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--reason", required=True, help="why the journal is sealed; stored in the journal"
        )

    def handle(self, *, reason, **options):
        try:
            revision = seal_journal(author=Author("seal_journal", reason=reason))
        except GrantError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"The journal is sealed at revision {revision}.")
