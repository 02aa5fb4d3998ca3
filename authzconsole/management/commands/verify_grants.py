"""Proves that every grant lies in the containers of its entity."""

from django.core.management.base import CommandError

from authzconsole.management.console_command import ConsoleCommand
from grants.changes.rows import first_misplaced_grant


class Command(ConsoleCommand):
    help = "Proves that every grant is filed under the namespace and application of its entity, or names the first that is not."

    def handle(self, **options):
        misplaced = first_misplaced_grant()
        if misplaced is not None:
            raise CommandError(f"grant {misplaced.pk} on {misplaced.content_object} is not filed under the namespace and "
                               f"application of its entity: revoke it and grant it again")
        self.stdout.write("Every grant is filed under the namespace and application of its entity.")
