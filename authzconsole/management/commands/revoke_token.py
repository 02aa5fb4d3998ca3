"""Revoke an API token immediately."""

from django.core.management.base import CommandError

from authzconsole.common.tokens import TokenError, revoke_token
from grants.errors import GrantError
from grants.journal import Author
from grants.management.console_command import ConsoleCommand


class Command(ConsoleCommand):
    help = "Revoke an API token immediately."

    def add_arguments(self, parser):
        parser.add_argument(
            "number", metavar="NUMBER", type=int, help="the token number that `create_token` printed"
        )

    def handle(self, *, number, **options):
        try:
            outcome = revoke_token(author=Author("revoke_token"), number=number)
        except (TokenError, GrantError) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(outcome.sentence)
