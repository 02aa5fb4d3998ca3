"""What a plan that keeps permissions across generations does not keep, with the reasons: a paged list, and
files.
"""

from authzconsole.lists.plans import KeptNotRows
from authzconsole.rest.framework.lists import FORMULAS, ListEndpoint
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.plans import PLAN
from grants.models import Plan
from grants.plans.create import PlanOrigin


class PlanKeptNot(ListEndpoint):
    """List what a plan does not keep.

    The permissions of the generation before that users do not have afterwards with the plan, for the current
    data. Sorted by namespace, kind, entity, operation and user. Returns 409 for plans that do not keep
    permissions across generations, and for plans that are not proposed. For administrators and auditors.
    """

    route, url_name = "plans/<int:number>/kept-not", "rest-plan-kept-not"
    operation_id = "plans_kept_not"
    files_id, files_route = "plans_kept_not_rows", "plans/<int:number>/kept-not/rows"
    files = {
        "csv": f"The same rows as in JSON Lines. {FORMULAS}",
        "jsonl": "One object per line: `user`, `entity`, `operation` and `why`.",
    }
    rows = KeptNotRows
    resource = PLAN
    errors = (409,)

    def read_list(self) -> KeptNotRows:
        check_keeps_permissions(self.object)
        return super().read_list()


def check_keeps_permissions(plan: Plan) -> None:
    """Raise Problem (409) unless it is a proposed plan of regrants."""
    if plan.origin != PlanOrigin.POLICY_IMPACT:
        raise Problem(409, f"{plan} does not keep permissions across generations")
    if not plan.is_proposed:
        raise Problem(409, f"{plan} was {plan.state}: the list is computed for plans that can be applied")
