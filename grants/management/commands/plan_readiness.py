"""Create the plan that lets a user delete a namespace."""

from entities.address import parse_address
from grants.management.plan_command import PlanCommand
from grants.plans.readiness_effect import create_readiness_plan_with_effect


class Command(PlanCommand):
    help = (
        "Create a plan of the grants that a user needs to delete a namespace and the entities in it. Prints a JSON object "
        "with the number of the plan, of its grants, of the deletions that are permitted and not permitted afterwards, and "
        "of the permissions that change beyond this purpose."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--namespace", required=True, metavar="N", help="the namespace: its name, or its address"
        )
        parser.add_argument("--user", required=True, metavar="U", help="the name of the user")
        super().add_arguments(parser)

    def create_plan(self, author, *, namespace, user, **options):
        address = parse_address(namespace if ":" in namespace else f"namespace:{namespace}")
        return create_readiness_plan_with_effect(
            author=author, namespace=address, user=user.removeprefix("user:")
        )
