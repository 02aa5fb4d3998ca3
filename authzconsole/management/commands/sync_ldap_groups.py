"""Synchronize memberships and console roles with the LDAP directory."""

from django.conf import settings
from django.core.management.base import CommandError

from grants.errors import GrantError
from grants.journal import Author
from grants.management.console_command import ConsoleCommand

NAMES_SHOWN = 20


class Command(ConsoleCommand):
    help = (
        "Bring the memberships of the groups in LDAP_GROUPS, and the roles in LDAP_ROLES, in line with the LDAP directory; "
        "with LDAP_DEACTIVATE_MISSING, deactivate accounts that the directory no longer has. Nothing is changed if the "
        "directory cannot be read completely."
    )

    def add_arguments(self, parser):
        parser.add_argument("--dry-run", action="store_true", help="print the changes without making them")
        parser.add_argument(
            "--max-removed-percent",
            type=int,
            metavar="PERCENT",
            choices=range(101),
            help="refuse to remove a larger share of all memberships (default: LDAP_MAX_REMOVED_PERCENT, 20)",
        )
        parser.add_argument(
            "--max-deactivated-percent",
            type=int,
            metavar="PERCENT",
            choices=range(101),
            help="refuse to deactivate a larger share of the accounts of the directory (default: "
            "LDAP_MAX_DEACTIVATED_PERCENT, 10)",
        )

    def handle(self, *, dry_run, max_removed_percent, max_deactivated_percent, verbosity, **options):
        ldap_options = settings.LDAP
        if ldap_options is None:
            raise CommandError("LDAP_URI is not set")
        # only with LDAP_URI are the packages of the extra `ldap` certain to be installed
        from authzconsole.directory.connection import DirectoryError
        from authzconsole.directory.sync import (
            SyncRefused,
            apply_plan,
            check_complete,
            check_plan,
            plan_sync,
            print_plan,
            read_members,
        )

        try:
            members = read_members(ldap_options)
            check_complete(members)
            plan = plan_sync(ldap_options, members)
            print_plan(plan, self.stdout.write, max_names=None if verbosity > 1 else NAMES_SHOWN)
            limit = ldap_options.max_removed_percent if max_removed_percent is None else max_removed_percent
            max_deactivated = (
                ldap_options.max_deactivated_percent
                if max_deactivated_percent is None
                else max_deactivated_percent
            )
            check_plan(plan, max_removed_percent=limit, max_deactivated_percent=max_deactivated)
        except (DirectoryError, SyncRefused) as error:
            raise CommandError(f"{error}; nothing was changed") from None
        if dry_run:
            self.stdout.write("dry run: nothing was changed")
            return
        author = Author(
            "sync_ldap_groups", reason=f"groups of {ldap_options.provider.name} ({ldap_options.uri})"
        )
        try:
            refused = apply_plan(plan, author=author)
        except GrantError as error:
            raise CommandError(
                f"{error}; the changes before it were made, and the command can be repeated"
            ) from None
        for sentence in refused:
            self.stderr.write(f"not changed: {sentence}")
        self.stdout.write(
            "the groups and roles are in line with the directory" if not refused else "done, with exceptions"
        )
