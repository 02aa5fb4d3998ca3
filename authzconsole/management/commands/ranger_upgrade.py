"""List the answers that an upgrade of Apache Ranger changes with the policies of a file."""

from collections import defaultdict

from django.utils import timezone

from authzconsole.connections.ranger.policies import PolicyFile
from authzconsole.connections.ranger.upgrade import changed_answers, named_groups, names_everybody
from authzconsole.management.policy_file import policies_in
from entities.address import Address
from entities.models import Entity, State
from grants.bulk_rows import chunks
from grants.consistent_read import consistent_read
from grants.management.console_command import ConsoleCommand
from grants.models import User
from grants.querysets import effective_memberships


class Command(ConsoleCommand):
    help = (
        "List the answers about CDAP that Ranger 2 and later give differently from Ranger 0.7, which the plugin of CDAP "
        "contains: one JSON object per line, sorted; `privilege` is empty for visibility. What the answers do not consider "
        "is on standard error, one JSON object per line. Exit code 2: bad input."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "file",
            metavar="FILE",
            help="the JSON export of a service of type `cdap`, or a policy download; - for standard input",
        )

    def handle(self, *, file, **options):
        policies = policies_in(file)
        with consistent_read():
            answers, notes = self._changed_answers(policies)
        for note in (*policies.notes, *notes):
            self.write_json(self.stderr, policy=note.policy, id=note.id, reason=note.reason)
        for answer in answers:
            self.write_json(**answer._asdict())

    def _changed_answers(self, policies: PolicyFile):
        members = defaultdict(set)
        for groups in chunks(sorted(named_groups(policies))):
            rows = effective_memberships().filter(group__name__in=groups)
            for group, user in rows.values_list("group__name", "user__username"):
                members[group].add(user)
        is_about_everybody = any(map(names_everybody, policies.policies))
        users = (
            User.objects.active_principals().values_list("username", flat=True) if is_about_everybody else ()
        )
        registered = Entity.objects.exclude(state=State.DELETED).values_list("kind", "key")
        return changed_answers(
            policies,
            entities=(Address(kind, key) for kind, key in registered.iterator()),
            members=members,
            users=set(users),
            at=timezone.now(),
        )
