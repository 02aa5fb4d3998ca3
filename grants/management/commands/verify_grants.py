"""Verify that every grant row has the namespace, application and kind of its entity."""

from django.core.management.base import CommandError

from grants.changes import first_misplaced_grant
from grants.management.console_command import ConsoleCommand


class Command(ConsoleCommand):
    help = "Verify that every grant is stored with the containers and the kind of its entity; report the first that is not."

    def handle(self, **options):
        misplaced = first_misplaced_grant()
        if misplaced is not None:
            raise CommandError(
                f"grant {misplaced.pk} on {misplaced.content_object} is not stored with the containers and "
                f"the kind of its entity: revoke it and grant it again"
            )
        self.stdout.write("Every grant is stored with the containers and the kind of its entity.")
