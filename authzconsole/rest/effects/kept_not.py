"""What a plan that keeps permissions across generations does not keep, with the reasons: a paged list, and
files.
"""

from typing import Any

from rest_framework.request import Request

from authzconsole.lists.plans import KeptNotRows
from authzconsole.rest.framework.lists import FORMULAS, Download, ListEndpoint
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.plans import ALLOWED_ROLES, PLAN, TAG
from grants.models import Plan
from grants.plans.create import PlanOrigin

ORDER = "Sorted by namespace, kind, entity, operation and user."
NOT_FOR = "Returns 409 for plans that do not keep permissions across generations, and for plans that are not proposed."


class PlanKeptNot(ListEndpoint):
    rows = KeptNotRows
    resource = PLAN
    operation = (
        "plans_kept_not",
        TAG,
        "List what a plan does not keep",
        "The permissions of the generation before that users do not have afterwards with the plan, for the current data. "
        f"{ORDER} {NOT_FOR} {ALLOWED_ROLES}",
    )
    errors = (409,)

    def read_list(self, request: Request, **path: Any) -> KeptNotRows:
        check_keeps_permissions(self.object)
        return super().read_list(request, **path)


class KeptNotFiles(Download):
    rows = KeptNotRows
    resource = PLAN
    operation = "plans_kept_not_rows", TAG, "what a plan does not keep", f"{NOT_FOR} {ALLOWED_ROLES}"
    lines = {
        "csv": f"The same rows as in JSON Lines. {FORMULAS}",
        "jsonl": f"One object per line: `user`, `entity`, `operation` and `why`. {ORDER}",
    }
    errors = (409,)

    def read_list(self, request: Request, **path: Any) -> KeptNotRows:
        check_keeps_permissions(self.object)
        return super().read_list(request, **path)


def check_keeps_permissions(plan: Plan) -> None:
    """Raise Problem (409) unless it is a proposed plan of regrants."""
    if plan.origin != PlanOrigin.POLICY_IMPACT:
        raise Problem(409, f"{plan} does not keep permissions across generations")
    if not plan.is_proposed:
        raise Problem(409, f"{plan} was {plan.state}: the list is computed for plans that can be applied")
