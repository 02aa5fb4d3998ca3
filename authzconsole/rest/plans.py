"""The REST resource `plans`: create, read, apply, discard, undo and renew plans."""

from django.db import transaction
from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from analytics.analyses import AnalysisError, AnalysisName
from analytics.models import AnalysisRun
from analytics.regrant_plans import create_regrant_plan
from analytics.results.manifest import ReportChanged
from analytics.storage import StorageError
from authzconsole.lists.plans import (
    RECIPE_EXAMPLE,
    PlanDetailSerializer,
    PlanItems,
    PlanPrincipals,
    Plans,
    PlanSerializer,
)
from authzconsole.rest.framework.callers import author_of, check_administrator, check_can_see_all
from authzconsole.rest.framework.endpoint import Endpoint, Resource, created_response
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.locations import plan_location
from authzconsole.rest.framework.operations import LOCATION, api_operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.grants import MAX_ITEMS, GrantLists
from authzconsole.rest.plan_serializers import (
    APPLIED_EXAMPLE,
    CHANGES_EXAMPLE,
    ApplySerializer,
    CloseGapSerializer,
    CopySerializer,
    DiscardSerializer,
    KeepSerializer,
    MakePlanSerializer,
    PlanEnvelope,
    memberships_of,
)
from grants.change_set import Activate, ChangeSet, Deactivate
from grants.changes import Shown
from grants.models import JobState, Plan
from grants.plans.apply import apply_plan, create_inverse_plan, discard_plan
from grants.plans.create import PlanOrigin
from grants.plans.renew import renew_plan
from grants.plans.sources.changes import create_plan_from_changes
from grants.plans.sources.copy import create_plan_from_copy
from grants.plans.sources.readiness import create_readiness_plan

TAG = "Plans"
PLAN = Resource.numbered("The number of the plan.", lambda request: Plan.objects.all())
ALLOWED_ROLES = "For administrators and auditors."


class PlanList(ListEndpoint):
    rows = Plans
    rules = {"POST": check_administrator}
    operation = "plans_list", TAG, "List plans", f"Newest first. {ALLOWED_ROLES}"

    @api_operation(
        "plans_create",
        TAG,
        "Create a plan from a change set",
        f"Accepts up to {MAX_ITEMS:,} grants and revocations together, and as many items in each of `join`, `leave`, `activate` "
        "and `deactivate`. Nothing changes until the plan is applied.",
        request=MakePlanSerializer,
        request_example=CHANGES_EXAMPLE,
        responses={201: PlanSerializer},
        errors=[409],
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        data = self.body(PlanEnvelope)
        others = [
            *memberships_of(data),
            *map(Activate, data["activate"]),
            *map(Deactivate, data["deactivate"]),
        ]
        grants = GrantLists.parse(data, allows_empty=bool(others))
        with transaction.atomic(), grants.item_errors():
            plan = create_plan_from_changes(
                author=author_of(request),
                change_set=ChangeSet.of(*grants.changes, *others),
                title=data["title"],
                base_revision=data.get("base_revision"),
            )
        return created_plan_response(plan)


class CopiedPlans(Endpoint):
    rules = {"POST": check_administrator}

    @api_operation(
        "plans_copy",
        TAG,
        "Create a plan that copies grants",
        "Copies the direct grants of the source that the target does not have. Returns 409 if there is nothing to copy.",
        request=CopySerializer,
        request_example={
            "source": "user:mei.chen",
            "target": "group:contractors",
            "within": "namespace:sales",
        },
        responses={201: PlanSerializer},
        response_example={"origin": "copy"},
        errors=[409],
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        data = self.body(CopySerializer)
        return created_plan_response(
            create_plan_from_copy(author=author_of(request), **{"within": None} | data)
        )


class ReadinessPlans(Endpoint):
    rules = {"POST": check_administrator}

    @api_operation(
        "plans_close_gap",
        TAG,
        "Create a plan that lets a user delete a namespace",
        "The plan has the smallest set of missing grants. Returns 409 if nothing is missing.",
        request=CloseGapSerializer,
        request_example=RECIPE_EXAMPLE,
        responses={201: PlanSerializer},
        errors=[409],
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        return created_plan_response(
            create_readiness_plan(author=author_of(request), **self.body(CloseGapSerializer))
        )


class ImpactPlans(Endpoint):
    rules = {"POST": check_administrator}

    @api_operation(
        "plans_keep",
        TAG,
        "Create a plan that keeps permissions across generations",
        "Uses a finished run of policy-impact. The grants keep what users may do when the other generation becomes active, and "
        "give nothing else; with `prefer` set to `fewest`, the plan has the smallest set of grants after which no user loses an "
        "operation on a live entity. All grants go to the users who would lose permissions. "
        "Permissions that the rule engine does not confirm are left out; `recipe.left_out` is their number. "
        "Returns 409 if data or the report changed since the run, if nothing is lost, or if the plan would be too large.",
        request=KeepSerializer,
        request_example={"run": 7, "namespace": "namespace:sales"},
        responses={201: PlanSerializer},
        response_example={"origin": PlanOrigin.POLICY_IMPACT.value},
        errors=[404, 409, 410],
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        data = self.body(KeepSerializer)
        run = AnalysisRun.objects.filter(pk=data.pop("run")).first()
        if run is None:
            raise Http404
        try:
            return created_plan_response(create_regrant_plan(author=author_of(request), run=run, **data))
        except ReportChanged:
            raise
        except (AnalysisError, StorageError) as error:
            has_no_report = run.state != JobState.DONE or run.type != AnalysisName.POLICY_IMPACT
            raise Problem(409 if has_no_report else 410, str(error)) from None


class PlanDetail(Endpoint):
    resource = PLAN
    rules = {"GET": check_can_see_all}

    @api_operation(
        "plans_retrieve",
        TAG,
        "Read a plan",
        f"With its effect, the entities that it strands, and whether it can still be applied. {ALLOWED_ROLES}",
        responses={200: PlanDetailSerializer},
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(PlanDetailSerializer.data_of(self.object))


class PlanItemList(ListEndpoint):
    rows = PlanItems
    resource = PLAN
    operation = "plans_items", TAG, "List the items of a plan", f"Sorted by position. {ALLOWED_ROLES}"


class PlanPrincipalList(ListEndpoint):
    rows = PlanPrincipals
    resource = PLAN
    operation = (
        "plans_principals",
        TAG,
        "List the principals that a plan affects",
        "Users come first, then groups, sorted by name. Each has the number of grants that it gains and loses, by kind. "
        f"{ALLOWED_ROLES}",
    )


class PlanApplication(Endpoint):
    resource = PLAN
    rules = {"POST": check_administrator}

    @api_operation(
        "plans_apply",
        TAG,
        "Apply a plan",
        "Applies all items in one transaction, with the reason. Returns 409 (stale-base) if data that the plan depends on "
        "has changed; the plan can be renewed. Returns 409 (effect-changed) if `effect` is sent and the effect is another one "
        "now, and 409 (unconfirmed-effect) if the plan gives permissions beyond its purpose, unless `confirm_beyond` is "
        "true. Returns 409 if the plan was already applied or discarded.",
        request=ApplySerializer,
        request_example={"reason": "she takes over the namespace"},
        responses={200: PlanSerializer},
        response_example=APPLIED_EXAMPLE,
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        data = self.body(ApplySerializer)
        shown = Shown(data.get("effect") or "", accepts_beyond=data["confirm_beyond"])
        applied = apply_plan(author=author_of(request, data["reason"]), plan_id=self.object.pk, shown=shown)
        return Response(PlanSerializer.data_of(applied))


class PlanDiscard(Endpoint):
    resource = PLAN
    rules = {"POST": check_administrator}

    @api_operation(
        "plans_discard",
        TAG,
        "Discard a plan",
        "The plan stays in the list and can be renewed.",
        request=DiscardSerializer,
        request_example={"reason": "not needed any more"},
        responses={200: PlanSerializer},
        response_example={"state": "discarded"},
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        reason = self.body(DiscardSerializer)["reason"]
        return Response(
            PlanSerializer.data_of(discard_plan(author=author_of(request, reason), plan_id=self.object.pk))
        )


class PlanInverse(Endpoint):
    resource = PLAN
    rules = {"POST": check_administrator}

    @api_operation(
        "plans_invert",
        TAG,
        "Create a plan that undoes an applied plan",
        "The new plan, when applied, reverses the changes of the old plan. Returns 409 if nothing is left to undo. The "
        "request has no body.",
        responses={201: PlanSerializer},
        response_example={"origin": "inverse", "inverse_of": 11},
        errors=[409, 413, 415],
        parameters=[LOCATION],
    )
    def post(self, request: Request, number: int) -> Response:
        self.check_empty_body()
        return created_plan_response(create_inverse_plan(author=author_of(request), plan_id=self.object.pk))


class PlanRenewal(Endpoint):
    resource = PLAN
    rules = {"POST": check_administrator}

    @api_operation(
        "plans_renew",
        TAG,
        "Renew a plan",
        "Creates a plan from the same recipe and the current data. The old plan is discarded unless it was applied. The "
        "request has no body.",
        responses={201: PlanSerializer},
        response_example={"renewal_of": 11},
        errors=[409, 413, 415],
        parameters=[LOCATION],
    )
    def post(self, request: Request, number: int) -> Response:
        self.check_empty_body()
        return created_plan_response(renew_plan(author=author_of(request), plan_id=self.object.pk))


def created_plan_response(plan: Plan) -> Response:
    return created_response(PlanSerializer.data_of(plan), plan_location(plan.pk))
