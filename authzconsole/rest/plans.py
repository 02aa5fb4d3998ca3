"""The REST resource `plans`: create, read, apply, discard, undo and renew plans."""

from django.db import transaction
from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from analytics.analyses import AnalysisError, AnalysisName
from analytics.models import AnalysisRun
from analytics.plan_effects.stored import computed_effect
from analytics.regrant_plans import create_regrant_plan
from analytics.results.manifest import ReportChanged
from analytics.storage import StorageError
from authzconsole.common.fields import MAX_INTEGER
from authzconsole.common.periods import period_as_json
from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.callers import author_of, check_administrator, check_can_see_all
from authzconsole.rest.framework.cursors import (
    ListPart,
    PageQuery,
    cursor_for,
    list_identity,
    page_of,
    page_serializer,
    position_in_list,
)
from authzconsole.rest.framework.endpoint import Endpoint, created_response
from authzconsole.rest.framework.locations import plan_location
from authzconsole.rest.framework.operations import LOCATION, api_operation, path_parameter
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.grants import MAX_ITEMS, GrantLists
from authzconsole.rest.plan_serializers import (
    APPLIED_EXAMPLE,
    CHANGES_EXAMPLE,
    ITEM_EXAMPLE,
    PLAN_EXAMPLE,
    PRINCIPAL_EXAMPLE,
    RECIPE_EXAMPLE,
    ApplySerializer,
    CloseGapSerializer,
    CopySerializer,
    DiscardSerializer,
    KeepSerializer,
    MakePlanSerializer,
    PlanDetailSerializer,
    PlanEnvelope,
    PlanItemSerializer,
    PlanPrincipalSerializer,
    PlanSerializer,
    PlansQuery,
    memberships_of,
)
from grants.change_set import Activate, ChangeSet, Deactivate
from grants.models import GRANT_VERBS, JobState, Plan, PlanItem
from grants.plans.apply import EffectConfirmation, apply_plan, create_inverse_plan, discard_plan
from grants.plans.create import PlanOrigin
from grants.plans.dry_run import MAX_STRANDED
from grants.plans.effect import PrincipalEffect, PrincipalEffects, Tally, plan_counts
from grants.plans.renew import renew_plan
from grants.plans.sources.changes import create_plan_from_changes
from grants.plans.sources.copy import create_plan_from_copy
from grants.plans.sources.readiness import create_readiness_plan
from grants.plans.staleness import invalidating_line, line_summary
from grants.plans.stranding import stranded_entities

TAG = "Plans"
PLAN_PATH = path_parameter("number", "The number of the plan.", int)
ALLOWED_ROLES = "For administrators and auditors."


class Plans(Endpoint):
    rules = {"GET": check_can_see_all, "POST": check_administrator}
    queries = {"GET": PlansQuery}

    @api_operation(
        "plans_list",
        TAG,
        "List plans",
        f"Newest first. {ALLOWED_ROLES}",
        query=PlansQuery,
        responses={200: page_serializer(PlanSerializer)},
        response_example={"items": [PLAN_EXAMPLE], "next": None},
    )
    def get(self, request: Request) -> Response:
        query = self.query
        rows = Plan.objects.filter(**{name: query[name] for name in ("state", "origin") if name in query})
        return Response(
            page_of(
                [ListPart(rows, ("-pk",))], _plan_as_json, query=query, identity=list_identity("plans", query)
            )
        )

    @api_operation(
        "plans_create",
        TAG,
        "Create a plan from a change set",
        f"Accepts up to {MAX_ITEMS:,} grants and revocations together, and as many items in each of `join`, `leave`, `activate` "
        "and `deactivate`. Nothing changes until the plan is applied.",
        request=MakePlanSerializer,
        request_example=CHANGES_EXAMPLE,
        responses={201: PlanSerializer},
        response_example=PLAN_EXAMPLE,
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
        response_example=PLAN_EXAMPLE | {"origin": "copy"},
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
        response_example=PLAN_EXAMPLE,
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
        response_example=PLAN_EXAMPLE | {"origin": PlanOrigin.POLICY_IMPACT.value},
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
    rules = {"GET": check_can_see_all}

    @api_operation(
        "plans_retrieve",
        TAG,
        "Read a plan",
        f"With its effect, the entities that it strands, and whether it can still be applied. {ALLOWED_ROLES}",
        responses={200: PlanDetailSerializer},
        response_example=PLAN_EXAMPLE | {"stale": "", "stranded": []},
        errors=[404],
        parameters=[PLAN_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        plan = plan_or_404(request, number)
        line = invalidating_line(plan) if plan.is_proposed else None
        stranded = stranded_entities(plan, max_rows=MAX_STRANDED)
        return Response(
            _plan_as_json(plan)
            | {
                "stale": line_summary(line) if line else "",
                "stranded": [{"entity": str(row.address), "admins": row.admin_count} for row in stranded],
            }
        )


class PlanItems(Endpoint):
    rules = {"GET": check_can_see_all}
    queries = {"GET": PageQuery}

    @api_operation(
        "plans_items",
        TAG,
        "List the items of a plan",
        f"Sorted by position. {ALLOWED_ROLES}",
        query=PageQuery,
        responses={200: page_serializer(PlanItemSerializer)},
        response_example={"items": [ITEM_EXAMPLE], "next": None},
        errors=[404],
        parameters=[PLAN_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        rows = plan_or_404(request, number).items.all()
        return Response(
            page_of(
                [ListPart(rows, ("position",))],
                _item_as_json,
                query=self.query,
                identity=["plan-items", number],
            )
        )


class PlanPrincipals(Endpoint):
    rules = {"GET": check_can_see_all}
    queries = {"GET": PageQuery}

    @api_operation(
        "plans_principals",
        TAG,
        "List the principals that a plan affects",
        "Users come first, then groups, sorted by name. Each has the number of grants that it gains and loses, by kind. "
        f"{ALLOWED_ROLES}",
        query=PageQuery,
        responses={200: page_serializer(PlanPrincipalSerializer)},
        response_example={"items": [PRINCIPAL_EXAMPLE], "next": None},
        errors=[404],
        parameters=[PLAN_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        effects = PrincipalEffects(plan_or_404(request, number))
        query, identity = self.query, ["plan-principals", number]
        first_row = position_in_list(query["cursor"], identity) if query["cursor"] else 0
        end = first_row + query["limit"]
        # one more than the page has, to know whether another page follows
        rows = effects[first_row : end + 1]
        next_cursor = cursor_for(end, identity) if len(rows) > query["limit"] else None
        return Response({"items": list(map(_effect_as_json, rows[: query["limit"]])), "next": next_cursor})


class PlanApplication(Endpoint):
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
        errors=[404, 409],
        parameters=[PLAN_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        plan = plan_or_404(request, number)
        data = self.body(ApplySerializer)
        confirmation = EffectConfirmation(
            data.get("effect"), confirms_beyond=data["confirm_beyond"], computed=computed_effect
        )
        applied = apply_plan(
            author=author_of(request, data["reason"]), plan_id=plan.pk, confirmation=confirmation
        )
        return Response(_plan_as_json(applied))


class PlanDiscard(Endpoint):
    rules = {"POST": check_administrator}

    @api_operation(
        "plans_discard",
        TAG,
        "Discard a plan",
        "The plan stays in the list and can be renewed.",
        request=DiscardSerializer,
        request_example={"reason": "not needed any more"},
        responses={200: PlanSerializer},
        response_example=PLAN_EXAMPLE | {"state": "discarded"},
        errors=[404, 409],
        parameters=[PLAN_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        plan = plan_or_404(request, number)
        reason = self.body(DiscardSerializer)["reason"]
        return Response(_plan_as_json(discard_plan(author=author_of(request, reason), plan_id=plan.pk)))


class PlanInverse(Endpoint):
    rules = {"POST": check_administrator}

    @api_operation(
        "plans_invert",
        TAG,
        "Create a plan that undoes an applied plan",
        "The new plan, when applied, reverses the changes of the old plan. Returns 409 if nothing is left to undo. The "
        "request has no body.",
        responses={201: PlanSerializer},
        response_example=PLAN_EXAMPLE | {"origin": "inverse", "inverse_of": 11},
        errors=[404, 409, 413, 415],
        parameters=[PLAN_PATH, LOCATION],
    )
    def post(self, request: Request, number: int) -> Response:
        plan = plan_or_404(request, number)
        self.check_empty_body()
        return created_plan_response(create_inverse_plan(author=author_of(request), plan_id=plan.pk))


class PlanRenewal(Endpoint):
    rules = {"POST": check_administrator}

    @api_operation(
        "plans_renew",
        TAG,
        "Renew a plan",
        "Creates a plan from the same recipe and the current data. The old plan is discarded unless it was applied. The "
        "request has no body.",
        responses={201: PlanSerializer},
        response_example=PLAN_EXAMPLE | {"renewal_of": 11},
        errors=[404, 409, 413, 415],
        parameters=[PLAN_PATH, LOCATION],
    )
    def post(self, request: Request, number: int) -> Response:
        plan = plan_or_404(request, number)
        self.check_empty_body()
        return created_plan_response(renew_plan(author=author_of(request), plan_id=plan.pk))


def plan_or_404(request: Request, number: int) -> Plan:
    """Return the plan.

    Raise Problem (403) for accounts with the role `ordinary`, Http404 if there is no such plan.
    """
    check_can_see_all(request)
    plan = Plan.objects.filter(pk=number).first() if number <= MAX_INTEGER else None
    if plan is None:
        raise Http404
    return plan


def created_plan_response(plan: Plan) -> Response:
    return created_response(_plan_as_json(plan), plan_location(plan.pk))


def _plan_as_json(plan: Plan) -> dict:
    return {
        "number": plan.pk,
        "title": plan.title,
        "origin": plan.origin,
        "recipe": plan.recipe,
        "state": str(plan.state),
        "base_revision": plan.base_revision,
        "made_by": plan.made_by,
        "made_at": as_json_time(plan.made_at),
        "decided_by": plan.decided_by,
        "decided_at": as_json_time(plan.decided_at),
        "reason": plan.reason,
        "revision": plan.revision,
        "effect": plan_counts(plan),
        "inverse_of": plan.inverse_of_id,
        "renewal_of": plan.renewal_of_id,
    }


def _item_as_json(item: PlanItem) -> dict:
    is_grant = item.verb in GRANT_VERBS
    return {
        "position": item.position,
        "verb": str(item.verb),
        "principal": item.principal,
        "entity": str(item.address) if is_grant else None,
        "privilege": str(item.privilege) if is_grant else None,
        "group": item.group_name or None,
        "already": item.is_noop,
        "changes_period": item.changes_period,
        **period_as_json(item.validity),
        "before": period_as_json(item.validity_before),
    }


def _effect_as_json(effect: PrincipalEffect) -> dict:
    return {
        "principal": effect.principal,
        "members": effect.members,
        "gains": _tally_as_json(effect.gains),
        "losses": _tally_as_json(effect.losses),
        "joins": effect.joins,
        "leaves": effect.leaves,
        "activation": effect.activation or None,
    }


def _tally_as_json(tally: Tally) -> list[dict]:
    return [
        {"privilege": str(privilege), "kind": kind, "entities": count}
        for (kind, privilege), count in sorted(tally.items())
    ]
