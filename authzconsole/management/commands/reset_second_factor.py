"""Remove all second factors of an account, for example if the only administrator has lost the phone."""

from authzconsole.common.sign_in_methods import reset_factors
from grants.journal import Author
from grants.management.console_command import ConsoleCommand


class Command(ConsoleCommand):
    help = "Remove all second factors of an account. The journal records the removal."

    def add_arguments(self, parser):
        parser.add_argument("name", metavar="NAME", help="the name of the account")

    def handle(self, *, name, **options):
        outcome = reset_factors(author=Author("reset_second_factor"), name=name)
        self.stdout.write(outcome.sentence)
