"""The base class of the commands that create plans, and apply them if requested."""

import json

from django.core.management.base import CommandError

from grants.journal import Author
from grants.management.console_command import ConsoleCommand
from grants.management.second_person import add_second_person_argument, reason_with_second_person
from grants.models import Plan
from grants.plans.apply import apply_plan


class PlanCommand(ConsoleCommand):
    """Create a plan and print its number and its effect as one JSON object."""

    def add_arguments(self, parser):
        parser.add_argument("--apply", action="store_true", help="also apply the plan")
        parser.add_argument("--reason", default="", help="the reason; required with --apply")
        add_second_person_argument(parser)

    def handle(self, *, apply, reason, second_person, **options):
        if apply and not reason.strip():
            raise CommandError(
                "the reason is missing: --apply needs --reason, because the journal stores it with every change"
            )
        if apply:
            reason = reason_with_second_person(reason, second_person)
        plan, counts = self.create_plan(Author(self.name), **options)
        if apply and plan is not None:
            apply_plan(author=Author(self.name, reason=reason), plan_id=plan.pk)
        self.stdout.write(json.dumps({"plan": plan.pk if plan else None, **counts}))

    @property
    def name(self) -> str:
        return type(self).__module__.rpartition(".")[2]

    def create_plan(self, author: Author, **options) -> tuple[Plan | None, dict[str, int]]:
        """Create the plan. Return it with its numbers; None if there is nothing to grant."""
        raise NotImplementedError
