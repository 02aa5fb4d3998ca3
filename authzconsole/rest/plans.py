"""The REST resource `plans`: create, read, apply, discard, undo and renew plans."""

from django.db import transaction
from django.http import Http404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from analytics.analyses import AnalysisError, AnalysisName
from analytics.models import AnalysisRun, RunState
from analytics.regrant_plans import create_regrant_plan
from analytics.storage import StorageError
from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.callers import author_of, check_administrator, check_overseer
from authzconsole.rest.framework.cursors import PageQuery, Part, cursor_for, list_identity, page_of, page_shape, position_in_list
from authzconsole.rest.framework.endpoint import Endpoint, created_response
from authzconsole.rest.framework.fields import (
    LARGEST_NUMBER,
    AddressText,
    Choice,
    Integer,
    List,
    NameText,
    PrincipalText,
    Shape,
    Text,
    reason_field,
)
from authzconsole.rest.framework.locations import plan_location
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.grants import LISTS, MAX_ITEMS, PRIVILEGES, ChangeItemSerializer, ChangeSet
from authzconsole.rest.openapi.operations import LOCATION, described, in_path
from grants.models import Plan, PlanItem, PlanState, PlanVerb
from grants.plans.apply import apply_plan, create_inverse_plan, discard_plan
from grants.plans.create import MAX_TITLE_LENGTH, PlanOrigin
from grants.plans.effect import PrincipalEffect, PrincipalEffects, stranded_entities
from grants.plans.renew import renew_plan
from grants.plans.sources.changes import create_plan_from_changes
from grants.plans.sources.copy import create_plan_from_copy
from grants.plans.sources.readiness import create_readiness_plan
from grants.plans.staleness import invalidating_line, line_summary
from grants.policies.catalogue import GENERATIONS
from grants.principal_names import MAX_REASON_CHARACTERS

TAG = "Plans"
MOST_STRANDED = 50
PLAN_PATH = in_path("number", "The number of the plan.", int)
OVERSEERS = "For administrators and auditors."
ORIGINS = tuple(origin.value for origin in PlanOrigin)


class PlanEffectSerializer(serializers.Serializer):
    """What the plan changes, or changed if it was applied."""

    grants = serializers.IntegerField(help_text="Grants that the plan adds.")
    revokes = serializers.IntegerField(help_text="Grants that the plan revokes.")
    already = serializers.IntegerField(help_text="Items that change nothing.")
    principals = serializers.IntegerField(help_text="Users and groups whose direct grants change.")
    planned = serializers.IntegerField(help_text="Addresses that a grant registers as planned.")
    stranded_none = serializers.IntegerField(help_text="Live entities without an active administrator afterwards.")
    stranded_one = serializers.IntegerField(help_text="Live entities with one active administrator afterwards.")


class PlanSerializer(serializers.Serializer):
    number = serializers.IntegerField()
    title = serializers.CharField()
    origin = serializers.CharField(help_text=f"The source of the plan: one of {', '.join(ORIGINS)}.")
    recipe = serializers.DictField(help_text="The parameters of the source, with which the plan can be renewed.")
    state = serializers.ChoiceField(PlanState.values)
    base_revision = serializers.IntegerField(help_text="The revision that the plan is based on.")
    made_by = serializers.CharField()
    made_at = serializers.DateTimeField()
    decided_by = serializers.CharField(help_text="The account that applied or discarded it; otherwise empty.")
    decided_at = serializers.DateTimeField(allow_null=True)
    reason = serializers.CharField()
    revision = serializers.IntegerField(allow_null=True, help_text="The revision after the plan was applied.")
    effect = PlanEffectSerializer()
    inverse_of = serializers.IntegerField(allow_null=True, help_text="The plan that this plan undoes.")
    renewal_of = serializers.IntegerField(allow_null=True, help_text="The plan that this plan replaces.")


class StrandedSerializer(serializers.Serializer):
    entity = serializers.CharField()
    admins = serializers.IntegerField(help_text="The number of active administrators afterwards: 0 or 1.")


class PlanDetailSerializer(PlanSerializer):
    stale = serializers.CharField(help_text="The change that makes the plan stale, so that it cannot be applied; otherwise "
                                            "empty.")
    stranded = StrandedSerializer(many=True, help_text=f"The first {MOST_STRANDED} entities that the plan strands.")


class PlanItemSerializer(serializers.Serializer):
    position = serializers.IntegerField()
    verb = serializers.ChoiceField(PlanVerb.values)
    principal = serializers.CharField()
    entity = serializers.CharField()
    privilege = serializers.ChoiceField(PRIVILEGES)
    already = serializers.BooleanField(help_text="Whether the item changes nothing.")


class TallySerializer(serializers.Serializer):
    privilege = serializers.ChoiceField(PRIVILEGES)
    kind = serializers.CharField()
    entities = serializers.IntegerField()


class PlanPrincipalSerializer(serializers.Serializer):
    principal = serializers.CharField()
    members = serializers.IntegerField(allow_null=True, help_text="The number of members, for a group.")
    gains = TallySerializer(many=True)
    losses = TallySerializer(many=True)


class PlansQuery(PageQuery):
    state = Choice(choices=PlanState.values, required=False)
    origin = Choice(choices=ORIGINS, required=False)


class MakePlanSerializer(Shape):
    grant = ChangeItemSerializer(many=True, required=False, max_length=MAX_ITEMS)  # type: ignore[call-arg]
    revoke = ChangeItemSerializer(many=True, required=False, max_length=MAX_ITEMS)  # type: ignore[call-arg]
    title = Text(required=False, allow_blank=True, default="", max_length=MAX_TITLE_LENGTH)
    base_revision = Integer(required=False, help_text="The revision that the items are based on; by default the newest.")


class MakePlanEnvelope(MakePlanSerializer):
    """A `MakePlanSerializer` with unvalidated items. Each item is validated separately, so that every error is reported."""

    grant = List(required=False, default=list)
    revoke = List(required=False, default=list)


class CopySerializer(Shape):
    source = PrincipalText()
    target = PrincipalText()
    within = AddressText(required=False, help_text="Only grants on this namespace or application, or inside it.")


class CloseGapSerializer(Shape):
    namespace = AddressText()
    user = NameText(help_text="The user who should be able to delete it.")
    principal = PrincipalText(required=False, help_text="The principal that gets the grants: the user (default), or a group "
                                                        "of the user.")
    generation = Choice(choices=list(GENERATIONS), required=False, help_text="By default the active generation.")


class NamespaceText(AddressText):
    """The address of a namespace; the validated value is its name."""

    def run_validation(self, data=serializers.empty):
        address = super().run_validation(data)
        if address.kind != "namespace":
            raise serializers.ValidationError("this must be the address of a namespace, such as namespace:sales")
        return address.key


class KeepSerializer(Shape):
    run = Integer(help_text="The number of a finished run of policy-impact.")
    user = NameText(required=False, help_text="Only permissions that this user would lose.")
    group = NameText(required=False, help_text="Only permissions that members of this group would lose.")
    namespace = NamespaceText(required=False, help_text="Only permissions inside this namespace; its address.")


class ApplySerializer(Shape):
    reason = Text(max_length=MAX_REASON_CHARACTERS, help_text="The reason; it is written to the journal with every change.")


class DiscardSerializer(Shape):
    reason = reason_field()


EFFECT = {"grants": 3, "revokes": 0, "already": 0, "principals": 1, "planned": 0, "stranded_none": 0, "stranded_one": 0}
RECIPE = {"namespace": "namespace:logistics", "user": "sofia.lindqvist", "generation": "final",
          "principal": "user:sofia.lindqvist"}
PLAN = {"number": 12, "title": "Let user:sofia.lindqvist delete namespace:logistics (final)", "origin": "readiness",
        "recipe": RECIPE, "state": "proposed", "base_revision": 812, "made_by": "admin", "made_at": "2026-02-01T08:00:00Z",
        "decided_by": "", "decided_at": None, "reason": "", "revision": None,
        "effect": EFFECT, "inverse_of": None, "renewal_of": None}
APPLIED = PLAN | {"state": "applied", "decided_by": "admin", "decided_at": "2026-02-01T08:05:00Z", "revision": 816,
                  "reason": "she takes over the namespace"}
ITEM = {"position": 1, "verb": "grant", "principal": "user:sofia.lindqvist", "entity": "dataset:logistics.tracking.events",
        "privilege": "ADMIN", "already": False}
PRINCIPAL = {"principal": "user:sofia.lindqvist", "members": None, "losses": [],
             "gains": [{"privilege": "ADMIN", "kind": "dataset", "entities": 3}]}
CHANGES = {"grant": [{"principal": "user:sofia.lindqvist", "entity": "dataset:sales.orders", "privileges": ["READ"]}],
           "title": "Quarter"}


class Plans(Endpoint):
    queries = {"GET": PlansQuery}

    @described("plans_list", TAG, "List plans", f"Newest first. {OVERSEERS}", query=PlansQuery,
               answers={200: page_shape(PlanSerializer)}, example={"items": [PLAN], "next": None})
    def get(self, request: Request) -> Response:
        check_overseer(request)
        query = self.query
        rows = Plan.objects.filter(**{name: query[name] for name in ("state", "origin") if name in query})
        return Response(page_of([Part(rows, ("-pk",))], _plan_as_json, query=query, identity=list_identity("plans", query)))

    @described("plans_create", TAG, "Create a plan from a change set",
               f"Up to {MAX_ITEMS:,} items in both lists together. Nothing changes until the plan is applied.",
               sends=MakePlanSerializer, sent=CHANGES, answers={201: PlanSerializer}, example=PLAN, errors=[409],
               parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent = self.body(MakePlanEnvelope)
        items = ChangeSet.read({name: sent[name] for name in LISTS})
        with transaction.atomic():
            plan = items.apply_with(create_plan_from_changes, author=author_of(request), title=sent["title"],
                              base_revision=sent.get("base_revision"))
        return created_plan_response(plan)


class CopiedPlans(Endpoint):
    @described("plans_copy", TAG, "Create a plan that copies grants",
               "Copies the direct grants of the source that the target does not have. Returns 409 if there is nothing to copy.",
               sends=CopySerializer, sent={"source": "user:mei.chen", "target": "group:contractors", "within": "namespace:sales"},
               answers={201: PlanSerializer}, example=PLAN | {"origin": "copy"}, errors=[409], parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent = self.body(CopySerializer)
        return created_plan_response(create_plan_from_copy(author=author_of(request), **{"within": None} | sent))


class ReadinessPlans(Endpoint):
    @described("plans_close_gap", TAG, "Create a plan that lets a user delete a namespace",
               "The smallest set of missing grants. Returns 409 if nothing is missing.",
               sends=CloseGapSerializer, sent=RECIPE, answers={201: PlanSerializer}, example=PLAN, errors=[409],
               parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        return created_plan_response(create_readiness_plan(author=author_of(request), **self.body(CloseGapSerializer)))


class ImpactPlans(Endpoint):
    @described("plans_keep", TAG, "Create a plan that keeps permissions across generations",
               "Uses a finished run of policy-impact. The plan has the smallest set of grants after which no user loses an "
               "operation on a live entity when the other generation becomes active. All grants go to the users who would lose "
               "permissions. Returns 409 if data changed since the run, if nothing is lost, or if the plan would be too large.",
               sends=KeepSerializer, sent={"run": 7, "namespace": "namespace:sales"}, answers={201: PlanSerializer},
               example=PLAN | {"origin": PlanOrigin.POLICY_IMPACT.value}, errors=[404, 409, 410], parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent = self.body(KeepSerializer)
        run = AnalysisRun.objects.filter(pk=sent.pop("run")).first()
        if run is None:
            raise Http404
        try:
            return created_plan_response(create_regrant_plan(author=author_of(request), run=run, **sent))
        except (AnalysisError, StorageError) as error:
            has_no_report = run.state != RunState.DONE or run.analysis != AnalysisName.POLICY_IMPACT
            raise Problem(409 if has_no_report else 410, str(error)) from None


class OnePlan(Endpoint):
    @described("plans_retrieve", TAG, "Read a plan",
               f"Its effect, the entities that it strands, and whether it can still be applied. {OVERSEERS}",
               answers={200: PlanDetailSerializer}, example=PLAN | {"stale": "", "stranded": []}, errors=[404],
               parameters=[PLAN_PATH])
    def get(self, request: Request, number: int) -> Response:
        plan = _plan_or_404(request, number)
        line = invalidating_line(plan) if plan.is_proposed else None
        stranded = stranded_entities(plan, max_rows=MOST_STRANDED)
        return Response(_plan_as_json(plan) | {
            "stale": line_summary(line) if line else "",
            "stranded": [{"entity": str(row.address), "admins": row.admin_count} for row in stranded]})


class PlanItems(Endpoint):
    queries = {"GET": PageQuery}

    @described("plans_items", TAG, "List the items of a plan", f"Sorted by position. {OVERSEERS}", query=PageQuery,
               answers={200: page_shape(PlanItemSerializer)}, example={"items": [ITEM], "next": None}, errors=[404],
               parameters=[PLAN_PATH])
    def get(self, request: Request, number: int) -> Response:
        rows = _plan_or_404(request, number).items.all()
        return Response(page_of([Part(rows, ("position",))], _item_as_json, query=self.query, identity=["plan-items", number]))


class PlanPrincipals(Endpoint):
    queries = {"GET": PageQuery}

    @described("plans_principals", TAG, "List the principals that a plan affects",
               f"Users first, then groups, sorted by name, each with the number of grants gained and lost by kind. "
               f"{OVERSEERS}", query=PageQuery,
               answers={200: page_shape(PlanPrincipalSerializer)}, example={"items": [PRINCIPAL], "next": None}, errors=[404],
               parameters=[PLAN_PATH])
    def get(self, request: Request, number: int) -> Response:
        effects = PrincipalEffects(_plan_or_404(request, number))
        query, identity = self.query, ["plan-principals", number]
        first = position_in_list(query["cursor"], identity) if query["cursor"] else 0
        end = first + query["limit"]
        found = effects[first : end + 1]
        following = cursor_for(end, identity) if len(found) > query["limit"] else None
        return Response({"items": list(map(_effect_as_json, found[: query["limit"]])), "next": following})


class PlanApplication(Endpoint):
    @described("plans_apply", TAG, "Apply a plan",
               "Applies all items in one transaction, with the reason. Returns 409 (stale-base) if data that the plan depends on "
               "has changed: renew the plan then. Returns 409 if the plan was already applied or discarded.",
               sends=ApplySerializer, sent={"reason": "she takes over the namespace"}, answers={200: PlanSerializer},
               example=APPLIED, errors=[404, 409], parameters=[PLAN_PATH])
    def post(self, request: Request, number: int) -> Response:
        check_administrator(request)
        plan = _plan_or_404(request, number)
        reason = self.body(ApplySerializer)["reason"]
        return Response(_plan_as_json(apply_plan(author=author_of(request, reason), plan_id=plan.pk)))


class PlanDiscard(Endpoint):
    @described("plans_discard", TAG, "Discard a plan", "The plan stays in the list and can be renewed.", sends=DiscardSerializer,
               sent={"reason": "not needed any more"}, answers={200: PlanSerializer}, example=PLAN | {"state": "discarded"},
               errors=[404, 409], parameters=[PLAN_PATH])
    def post(self, request: Request, number: int) -> Response:
        check_administrator(request)
        plan = _plan_or_404(request, number)
        reason = self.body(DiscardSerializer)["reason"]
        return Response(_plan_as_json(discard_plan(author=author_of(request, reason), plan_id=plan.pk)))


class PlanInverse(Endpoint):
    @described("plans_invert", TAG, "Create a plan that undoes an applied plan",
               "When it is applied, the new plan reverses what the old one changed. Returns 409 if nothing is left to undo. The "
               "request has no body.",
               answers={201: PlanSerializer}, example=PLAN | {"origin": "inverse", "inverse_of": 11},
               errors=[404, 409, 413, 415], parameters=[PLAN_PATH, LOCATION])
    def post(self, request: Request, number: int) -> Response:
        check_administrator(request)
        plan = _plan_or_404(request, number)
        self.check_empty_body()
        return created_plan_response(create_inverse_plan(author=author_of(request), plan_id=plan.pk))


class PlanRenewal(Endpoint):
    @described("plans_renew", TAG, "Renew a plan",
               "Creates a plan from the same recipe and the current data. The old plan is discarded if it was not applied. The "
               "request has no body.",
               answers={201: PlanSerializer}, example=PLAN | {"renewal_of": 11}, errors=[404, 409, 413, 415],
               parameters=[PLAN_PATH, LOCATION])
    def post(self, request: Request, number: int) -> Response:
        check_administrator(request)
        plan = _plan_or_404(request, number)
        self.check_empty_body()
        return created_plan_response(renew_plan(author=author_of(request), plan_id=plan.pk))


def _plan_or_404(request: Request, number: int) -> Plan:
    """Return the plan. Raise Problem (403) for accounts with the role `ordinary`, Http404 if there is no such plan."""
    check_overseer(request)
    plan = Plan.objects.filter(pk=number).first() if number <= LARGEST_NUMBER else None
    if plan is None:
        raise Http404
    return plan


def created_plan_response(plan: Plan) -> Response:
    return created_response(_plan_as_json(plan), plan_location(plan.pk))


def _plan_as_json(plan: Plan) -> dict:
    return {"number": plan.pk, "title": plan.title, "origin": plan.origin, "recipe": plan.recipe, "state": str(plan.state),
            "base_revision": plan.base_revision, "made_by": plan.made_by, "made_at": as_json_time(plan.made_at),
            "decided_by": plan.decided_by, "decided_at": as_json_time(plan.decided_at), "reason": plan.reason,
            "revision": plan.revision, "effect": plan.effect, "inverse_of": plan.inverse_of_id, "renewal_of": plan.renewal_of_id}


def _item_as_json(item: PlanItem) -> dict:
    return {"position": item.position, "verb": str(item.verb), "principal": item.principal, "entity": str(item.address),
            "privilege": str(item.privilege), "already": item.is_noop}


def _effect_as_json(effect: PrincipalEffect) -> dict:
    gains, losses = ([{"privilege": str(privilege), "kind": kind, "entities": total}
                      for (kind, privilege), total in sorted(tally.items())] for tally in (effect.gains, effect.losses))
    return {"principal": effect.principal, "members": effect.members, "gains": gains, "losses": losses}
