"""Verify the journal: hashes, signatures and anchors, and that the tables contain what its lines say."""

from django.core.management.base import CommandError

from authzconsole.common.monitoring.maintenance import verify_and_record
from grants.history import rebuild
from grants.journal import ChainBreak, current_revision, first_break
from grants.management.console_command import ConsoleCommand
from grants.models import JournalLine
from grants.verification import AnchorError


class Command(ConsoleCommand):
    help = (
        "Verify that no journal line was changed, removed or inserted, and that grants, memberships, accounts, tokens, "
        "second factors, identity links, entities, plans, webhooks, security events, the active generation and the history "
        "are what the lines say; report the first fault."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--chain-only", action="store_true", help="do not compare the journal with the tables and anchors"
        )
        parser.add_argument(
            "--rebuild-history",
            action="store_true",
            help="first derive the history, which answers questions about the past, from the journal again",
        )

    def handle(self, *, chain_only, rebuild_history, **options):
        if rebuild_history:
            rebuild()
        try:
            fault = first_break() if chain_only else verify_and_record()
        except AnchorError as error:
            raise CommandError(f"The anchors of the journal cannot be read: {error}.") from None
        if isinstance(fault, ChainBreak):
            raise CommandError(f"The journal is broken: {fault.sentence}.")
        if fault:
            raise CommandError(f"The journal and the console differ: {fault}.")
        lines = JournalLine.objects.count()
        self.stdout.write(
            f"The journal is intact: {lines:,} {'line' if lines == 1 else 'lines'}, revision {current_revision()}."
        )
        if not chain_only:
            self.stdout.write("The tables contain what it says.")
