"""Revoke an API token immediately."""

from authzconsole.common.tokens import revoke_token
from grants.journal import Author
from grants.management.console_command import ConsoleCommand


class Command(ConsoleCommand):
    help = "Revoke an API token immediately."

    def add_arguments(self, parser):
        parser.add_argument(
            "number", metavar="NUMBER", type=int, help="the token number that `create_token` printed"
        )

    def handle(self, *, number, **options):
        outcome = revoke_token(author=Author("revoke_token"), number=number)
        self.stdout.write(outcome.sentence)
