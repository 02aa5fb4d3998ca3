"""Refuse Django's `createsuperuser`, which adds an account without a journal line and without a console role."""

from django.contrib.auth.management.commands import createsuperuser
from django.core.management.base import CommandError

from grants.management.console_command import ConsoleCommand


class Command(ConsoleCommand, createsuperuser.Command):
    help = "Not available: `bootstrap` creates the first administrator, and administrators add accounts on the page Accounts."

    def handle(self, *args, **options):
        raise CommandError(self.help)
