"""What a plan that keeps permissions across generations does not keep, with the reasons: a paged list, and
files.
"""

from itertools import islice

from django.http import StreamingHttpResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.downloads.effect_rows import kept_not_response
from authzconsole.rest.framework.callers import check_can_see_all
from authzconsole.rest.framework.cursors import PageQuery, cursor_for, page_serializer, position_in_list
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import FILE, api_operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.framework.renderers import CsvRenderer, JsonLinesRenderer
from authzconsole.rest.plans import ALLOWED_ROLES, PLAN_PATH, TAG, plan_or_404
from grants.models import Plan
from grants.plans.create import PlanOrigin
from grants.plans.regrants.kept_not import kept_not_of_plan

ORDER = "Sorted by namespace, kind, entity, operation and user."
NOT_FOR = "Returns 409 for plans that do not keep permissions across generations, and for plans that are not proposed."


class KeptNotSerializer(serializers.Serializer):
    user = serializers.CharField()
    entity = serializers.CharField()
    operation = serializers.CharField()
    why = serializers.CharField(help_text="Why the plan does not keep it, as a sentence.")


class PlanKeptNot(Endpoint):
    rules = {"GET": check_can_see_all}
    queries = {"GET": PageQuery}

    @api_operation(
        "plans_kept_not",
        TAG,
        "List what a plan does not keep",
        "The permissions of the generation before that users do not have afterwards with the plan, for the current data. "
        f"{ORDER} {NOT_FOR} {ALLOWED_ROLES}",
        query=PageQuery,
        responses={200: page_serializer(KeptNotSerializer)},
        response_example={
            "items": [
                {
                    "user": "sofia.lindqvist",
                    "entity": "dataset:sales.orders",
                    "operation": "list",
                    "why": "Every way to keep it gives more: READ on dataset:sales.orders would also give read on dataset:sales.orders.",
                }
            ],
            "next": None,
        },
        errors=[404, 409],
        parameters=[PLAN_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        plan = _plan_of_regrants(request, number)
        query, identity = self.query, ["plan-kept-not", number]
        first_row = position_in_list(query["cursor"], identity) if query["cursor"] else 0
        # one more than the page has, to know whether another page follows
        rows = list(islice(kept_not_of_plan(plan, first_row), query["limit"] + 1))
        next_cursor = cursor_for(first_row + query["limit"], identity) if len(rows) > query["limit"] else None
        return Response({"items": [row._asdict() for row in rows[: query["limit"]]], "next": next_cursor})


class KeptNotJsonLines(Endpoint):
    rules = {"GET": check_can_see_all}
    renderer_classes = [JsonLinesRenderer]

    @api_operation(
        "plans_kept_not_rows_jsonl",
        TAG,
        "Download what a plan does not keep as JSON Lines",
        f"One object per line: `user`, `entity`, `operation` and `why`. {ORDER} {NOT_FOR} {ALLOWED_ROLES}",
        responses={(200, "application/x-ndjson"): FILE},
        errors=[404, 409],
        parameters=[PLAN_PATH],
    )
    def get(self, request: Request, number: int) -> StreamingHttpResponse:
        plan = _plan_of_regrants(request, number)
        return kept_not_response(kept_not_of_plan(plan), "jsonl", f"plan-{plan.pk}-kept-not")


class KeptNotCsv(Endpoint):
    rules = {"GET": check_can_see_all}
    renderer_classes = [CsvRenderer]

    @api_operation(
        "plans_kept_not_rows_csv",
        TAG,
        "Download what a plan does not keep as CSV",
        "The same rows as in JSON Lines. An apostrophe precedes values that a spreadsheet would treat as a formula. "
        f"{NOT_FOR} {ALLOWED_ROLES}",
        responses={(200, "text/csv"): FILE},
        errors=[404, 409],
        parameters=[PLAN_PATH],
    )
    def get(self, request: Request, number: int) -> StreamingHttpResponse:
        plan = _plan_of_regrants(request, number)
        return kept_not_response(kept_not_of_plan(plan), "csv", f"plan-{plan.pk}-kept-not")


def _plan_of_regrants(request: Request, number: int) -> Plan:
    plan = plan_or_404(request, number)
    if plan.origin != PlanOrigin.POLICY_IMPACT:
        raise Problem(409, f"{plan} does not keep permissions across generations")
    if not plan.is_proposed:
        raise Problem(409, f"{plan} was {plan.state}: the list is computed for plans that can be applied")
    return plan
