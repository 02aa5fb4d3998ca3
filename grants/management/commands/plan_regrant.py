"""Create the plan that keeps permissions when another generation becomes active."""

from grants.management.plan_command import PlanCommand
from grants.plans.regrants.compute import Prefer, create_plan_of_regrants
from grants.policies.catalogue import generation_by_name


class Command(PlanCommand):
    help = (
        "Create a plan of grants after which people may do in generation H what they may do in generation G. Prints a JSON "
        "object with the number of the plan, of its grants, of the permissions that are kept and not kept, and of those that "
        "change beyond this purpose."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--generation", required=True, metavar="G", help="the generation with the permissions to keep"
        )
        parser.add_argument(
            "--to-generation", required=True, metavar="H", help="the generation that will be active"
        )
        parser.add_argument(
            "--prefer",
            choices=[str(prefer) for prefer in Prefer],
            default=str(Prefer.NARROWEST),
            help="narrowest (default): no grant gives anything else; fewest: as few grants as possible",
        )
        super().add_arguments(parser)

    def create_plan(self, author, *, generation, to_generation, prefer, **options):
        plan, regrants = create_plan_of_regrants(
            author=author,
            before=generation_by_name(generation),
            after=generation_by_name(to_generation),
            prefer=Prefer(prefer),
        )
        return plan, {
            "grants": len(regrants.grants),
            **regrants.counts,
        }
