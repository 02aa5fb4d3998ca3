"""Create an API token and print it. The token is not stored, so it cannot be shown again."""

from authzconsole.common.tokens import create_token
from authzconsole.models import TokenScope
from grants.journal import Author
from grants.management.console_command import ConsoleCommand


class Command(ConsoleCommand):
    help = "Create an API token for an account and print it. The token is not shown again."

    def add_arguments(self, parser):
        parser.add_argument("user", metavar="USER", help="the account that the token belongs to")
        parser.add_argument(
            "--scope",
            action="append",
            choices=TokenScope.values,
            required=True,
            dest="scopes",
            help="a scope of the token; can be repeated",
        )
        parser.add_argument(
            "--days", type=int, default=90, help="days until the token expires (default: %(default)s)"
        )
        parser.add_argument(
            "--name", default="", help="a name that describes the purpose of the token (default: the scopes)"
        )

    def handle(self, *, user, scopes, days, name, **options):
        author = Author("create_token")
        issued = create_token(
            author=author, owner=user, name=name or " and ".join(scopes), scopes=scopes, days=days
        )
        self.stdout.write(issued.secret)
        self.stderr.write(
            f"Token {issued.token.pk} of {issued.token.owner}, expires "
            f"{issued.token.ends_at:%Y-%m-%d %H:%M} UTC. It is not shown again; "
            f"`manage.py revoke_token {issued.token.pk}` revokes it."
        )
