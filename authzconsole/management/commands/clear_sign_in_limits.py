"""Lift the limits after wrong passwords, for one account or for all."""

from django.core.management.base import CommandError

from authzconsole.common.login_throttle import CLEAR_ACTION
from entities.text import is_storable
from grants.authority.transactions import administrator_transaction
from grants.journal import Author, JournalEntry, append_to_journal
from grants.management.console_command import ConsoleCommand
from grants.models import User


class Command(ConsoleCommand):
    help = (
        "Lift the limits after wrong passwords: of one account, or of all accounts and client addresses. "
        "The command affects all servers, with or without Redis. The journal records it."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "name",
            metavar="NAME",
            nargs="?",
            default="",
            help="the account (default: all accounts and addresses)",
        )

    def handle(self, *, name, **options):
        if name and not (is_storable(name) and User.objects.filter(username=name).exists()):
            raise CommandError(f"`{name}` is not an account of this console")
        author, principal = Author("clear_sign_in_limits"), f"user:{name}" if name else ""
        with administrator_transaction(author) as head:
            append_to_journal(head, [JournalEntry(CLEAR_ACTION, principal=principal)], author=author)
        self.stdout.write(f"The sign-in limits of {principal or 'all accounts and addresses'} are cleared.")
