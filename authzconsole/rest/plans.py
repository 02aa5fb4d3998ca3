"""The REST resource `plans`: create, read, apply, discard, undo and renew plans."""

from django.db import transaction
from django.http import Http404
from rest_framework.response import Response

from analytics.analyses import AnalysisError, AnalysisName
from analytics.models import AnalysisRun
from analytics.regrant_plans import regrant_plan
from analytics.results.manifest import ReportChanged
from analytics.storage import StorageError
from authzconsole.lists.plans import (
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
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.grants import (
    MAX_ITEMS,  # noqa: F401 (a docstring names it)
    GrantLists,
)
from authzconsole.rest.plan_serializers import (
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
from grants.plans.apply import apply_plan, discard_plan, inverse_plan
from grants.plans.renew import renew_plan
from grants.plans.sources.changes import change_set_plan
from grants.plans.sources.copy import copy_plan
from grants.plans.sources.readiness import readiness_plan

PLAN = Resource.numbered("The number of the plan.", lambda request: Plan.objects.all())


class PlanList(ListEndpoint):
    """List plans.

    Newest first. For administrators and auditors.
    """

    route, url_name = "plans", "rest-plans"
    operation_id = "plans_list"
    rows = Plans

    @operation(
        "plans_create",
        check_administrator,
        {201: PlanSerializer},
        body=PlanEnvelope,
        schema=MakePlanSerializer,
    )
    def post(self) -> Response:
        """Create a plan from a change set.

        Accepts up to {MAX_ITEMS:,} grants and revocations together, and as many items in each of `join`,
        `leave`, `activate` and `deactivate`. Nothing changes until the plan is applied.
        """
        data = self.data
        others = [
            *memberships_of(data),
            *map(Activate, data["activate"]),
            *map(Deactivate, data["deactivate"]),
        ]
        grants = GrantLists.parse(data, allows_empty=bool(others))
        with transaction.atomic(), grants.item_errors():
            plan = change_set_plan.create(
                self.author,
                ChangeSet.of(*grants.changes, *others),
                data["title"],
                data.get("base_revision"),
            )
        return created_plan_response(plan)


class CopiedPlans(Endpoint):
    route, url_name = "plans/copy", "rest-plans-copy"

    @operation(
        "plans_copy",
        check_administrator,
        {201: PlanSerializer},
        body=CopySerializer,
    )
    def post(self) -> Response:
        """Create a plan that copies grants.

        Copies the direct grants of the source that the target does not have. Returns 409 if there is
        nothing to copy.
        """
        return created_plan_response(copy_plan.create(self.author, **self.data))


class ReadinessPlans(Endpoint):
    route, url_name = "plans/readiness", "rest-plans-readiness"

    @operation(
        "plans_close_gap",
        check_administrator,
        {201: PlanSerializer},
        body=CloseGapSerializer,
    )
    def post(self) -> Response:
        """Create a plan that lets a user delete a namespace.

        The plan has the smallest set of missing grants. Returns 409 if nothing is missing.
        """
        return created_plan_response(readiness_plan.create(self.author, **self.data))


class ImpactPlans(Endpoint):
    route, url_name = "plans/policy-impact", "rest-plans-impact"

    @operation(
        "plans_keep",
        check_administrator,
        {201: PlanSerializer},
        body=KeepSerializer,
        errors=[404, 410],
    )
    def post(self) -> Response:
        """Create a plan that keeps permissions across generations.

        Uses a finished run of policy-impact. The grants keep what users may do when the other generation
        becomes active, and give nothing else; with `prefer` set to `fewest`, the plan has the smallest
        set of grants after which no user loses an operation on a live entity. All grants go to the users
        who would lose permissions. Permissions that the rule engine does not confirm are left out;
        `recipe.left_out` is their number. Returns 409 if data or the report changed since the run, if
        nothing is lost, or if the plan would be too large.
        """
        data = self.data
        run = AnalysisRun.objects.filter(pk=data.pop("run")).first()
        if run is None:
            raise Http404
        try:
            return created_plan_response(regrant_plan.create(self.author, run=run, **data))
        except ReportChanged:
            raise
        except (AnalysisError, StorageError) as error:
            has_no_report = run.state != JobState.DONE or run.type != AnalysisName.POLICY_IMPACT
            raise Problem(409 if has_no_report else 410, str(error)) from None


class PlanDetail(Endpoint):
    route, url_name = "plans/<int:number>", "rest-plan"
    resource = PLAN

    @operation(
        "plans_retrieve",
        check_can_see_all,
        PlanDetailSerializer,
    )
    def get(self) -> object:
        """Read a plan.

        With its effect, the entities that it strands, and whether it can still be applied. For
        administrators and auditors.
        """
        return self.object


class PlanItemList(ListEndpoint):
    """List the items of a plan.

    Sorted by position. For administrators and auditors.
    """

    route, url_name = "plans/<int:number>/items", "rest-plan-items"
    operation_id = "plans_items"
    rows = PlanItems
    resource = PLAN


class PlanPrincipalList(ListEndpoint):
    """List the principals that a plan affects.

    Users come first, then groups, sorted by name. Each has the number of grants that it gains and loses,
    by kind. For administrators and auditors.
    """

    route, url_name = "plans/<int:number>/principals", "rest-plan-principals"
    operation_id = "plans_principals"
    rows = PlanPrincipals
    resource = PLAN


class PlanApplication(Endpoint):
    route, url_name = "plans/<int:number>/apply", "rest-plan-apply"
    resource = PLAN

    @operation(
        "plans_apply",
        check_administrator,
        PlanSerializer,
        body=ApplySerializer,
    )
    def post(self) -> object:
        """Apply a plan.

        Applies all items in one transaction, with the reason. Returns 409 (stale-base) if data that the
        plan depends on has changed; the plan can be renewed. Returns 409 (effect-changed) if `effect` is
        sent and the effect is another one now, and 409 (unconfirmed-effect) if the plan gives permissions
        beyond its purpose, unless `confirm_beyond` is true. Returns 409 if the plan was already applied
        or discarded.
        """
        data = self.data
        shown = Shown(data.get("effect") or "", accepts_beyond=data["confirm_beyond"])
        applied = apply_plan(author=self.author, plan_id=self.object.pk, shown=shown)
        return applied


class PlanDiscard(Endpoint):
    route, url_name = "plans/<int:number>/discard", "rest-plan-discard"
    resource = PLAN

    @operation(
        "plans_discard",
        check_administrator,
        PlanSerializer,
        body=DiscardSerializer,
    )
    def post(self) -> Response:
        """Discard a plan.

        The plan stays in the list and can be renewed.
        """
        reason = self.data["reason"]
        return Response(
            PlanSerializer.data_of(
                discard_plan(author=author_of(self.request, reason), plan_id=self.object.pk)
            )
        )


class PlanInverse(Endpoint):
    route, url_name = "plans/<int:number>/inverse", "rest-plan-inverse"
    resource = PLAN

    @operation(
        "plans_invert",
        check_administrator,
        {201: PlanSerializer},
        errors=[413, 415],
    )
    def post(self) -> Response:
        """Create a plan that undoes an applied plan.

        The new plan, when applied, reverses the changes of the old plan. Returns 409 if nothing is left
        to undo. The request has no body.
        """
        self.check_empty_body()
        return created_plan_response(inverse_plan.create(self.author, self.object.pk))


class PlanRenewal(Endpoint):
    route, url_name = "plans/<int:number>/renewal", "rest-plan-renewal"
    resource = PLAN

    @operation(
        "plans_renew",
        check_administrator,
        {201: PlanSerializer},
        errors=[413, 415],
    )
    def post(self) -> Response:
        """Renew a plan.

        Creates a plan from the same recipe and the current data. The old plan is discarded unless it was
        applied. The request has no body.
        """
        self.check_empty_body()
        return created_plan_response(renew_plan(author=self.author, plan_id=self.object.pk))


def created_plan_response(plan: Plan) -> Response:
    return created_response(PlanSerializer.data_of(plan), plan_location(plan.pk))
