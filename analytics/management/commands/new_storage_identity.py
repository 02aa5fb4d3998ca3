"""Create separate folders in a shared storage for a copied database."""

from analytics.storage_identity import change_storage_identity
from grants.journal import Author
from grants.management.console_command import ConsoleCommand


class Command(ConsoleCommand):
    help = (
        "Create new folders for the snapshots and reports of this console. Run this command after copying the database of "
        "another console, before the first start of the copy. Existing reports stay readable."
    )

    def add_arguments(self, parser):
        parser.add_argument("--reason", default="", help="stored in the journal")

    def handle(self, *, reason, **options):
        old, new = change_storage_identity(author=Author("new_storage_identity", reason=reason))
        self.stdout.write(f"The storage identity is {new} instead of {old}.")
