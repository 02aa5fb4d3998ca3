"""Sign the journal with the current key after the previous key was lost."""

from django.db import transaction

from grants.errors import GrantError
from grants.journal import SEAL, Author, JournalEntry, append_to_journal, first_break
from grants.journal_keys import head_fault
from grants.management.console_command import ConsoleCommand
from grants.models import JournalHead


def seal_journal(*, author: Author) -> int:
    """Append a `seal` line, which covers the hashes of all earlier lines, and sign the head. Return the
    revision.

    Raise GrantError if the console is not read-only, the reason is missing, or the chain of hashes is broken.
    """
    if not author.reason.strip():
        raise GrantError("the reason is missing: the journal stores it with the seal")
    with transaction.atomic():
        head = JournalHead.objects.select_for_update().filter(pk=1).first()
        fault = head and head_fault(head)
        if not fault:
            raise GrantError("the journal is signed with a key of this console: there is nothing to seal")
        if (chain_break := first_break(is_signature_required=False)) is not None:
            raise GrantError(f"the journal is broken, and a seal would hide it: {chain_break.sentence}")
        detail = f"the hashes of lines 1 to {head.revision}: {head.hash}; until now, {fault}"
        return append_to_journal(head, [JournalEntry(SEAL, detail=detail)], author=author)


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
        revision = seal_journal(author=Author("seal_journal", reason=reason))
        self.stdout.write(f"The journal is sealed at revision {revision}.")
