"""Plans: made from a change set, from somebody's grants or from a gap; looked at, applied as a whole, discarded, undone."""

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
from authzconsole.rest.grants import LISTS, MOST_ITEMS, PRIVILEGES, ChangeItemSerializer, ChangeSet
from authzconsole.rest.openapi.operations import LOCATION, described, in_path
from grants.models import Plan, PlanItem, PlanState, PlanVerb
from grants.plans.apply import apply_plan, create_inverse_plan, discard_plan
from grants.plans.create import MAX_TITLE_LENGTH, PlanOrigin
from grants.plans.effect import PrincipalEffect, PrincipalEffects, stranded_entities
from grants.plans.renew import renew_plan
from grants.plans.sources.changes import create_plan_from_changes
from grants.plans.sources.copy import create_plan_from_copy
from grants.plans.sources.readiness import create_readiness_plan
from grants.plans.staleness import line_summary, stale_line
from grants.policies.catalogue import GENERATIONS
from grants.principal_names import MAX_REASON_CHARACTERS

TAG = "Plans"
MOST_STRANDED = 50
PLAN_PATH = in_path("number", "The number of the plan.", int)
OVERSEERS = "For administrators and auditors."
ORIGINS = tuple(origin.value for origin in PlanOrigin)


class PlanEffectSerializer(serializers.Serializer):
    """What the plan changes; of an applied one, what it changed."""

    grants = serializers.IntegerField(help_text="Grants that are made.")
    revokes = serializers.IntegerField(help_text="Grants that are taken back.")
    already = serializers.IntegerField(help_text="Items that change nothing, as it is so already.")
    principals = serializers.IntegerField(help_text="Users and groups that gain or lose something themselves.")
    planned = serializers.IntegerField(help_text="Addresses that a grant registers as planned.")
    stranded_none = serializers.IntegerField(help_text="Live entities that no active user administers afterwards.")
    stranded_one = serializers.IntegerField(help_text="Live entities that one active user administers afterwards, not more.")


class PlanSerializer(serializers.Serializer):
    number = serializers.IntegerField()
    title = serializers.CharField()
    origin = serializers.CharField(help_text=f"What it was made from: one of {', '.join(ORIGINS)}.")
    recipe = serializers.DictField(help_text="With what it was made, by which it can be made anew.")
    state = serializers.ChoiceField(PlanState.values)
    base_revision = serializers.IntegerField(help_text="The revision of the journal that it was made for.")
    made_by = serializers.CharField()
    made_at = serializers.DateTimeField()
    decided_by = serializers.CharField(help_text="Who applied or discarded it; empty before.")
    decided_at = serializers.DateTimeField(allow_null=True)
    reason = serializers.CharField()
    revision = serializers.IntegerField(allow_null=True, help_text="Of an applied plan: the newest revision after it.")
    effect = PlanEffectSerializer()
    inverse_of = serializers.IntegerField(allow_null=True, help_text="The plan that it undoes.")
    renewal_of = serializers.IntegerField(allow_null=True, help_text="The plan in whose place it was made.")


class StrandedSerializer(serializers.Serializer):
    entity = serializers.CharField()
    admins = serializers.IntegerField(help_text="How many active users administer it afterwards: 0 or 1.")


class PlanDetailSerializer(PlanSerializer):
    stale = serializers.CharField(help_text="What it depends on that was changed since, so that it is refused; else empty.")
    stranded = StrandedSerializer(many=True, help_text=f"The first {MOST_STRANDED} that it strands.")


class PlanItemSerializer(serializers.Serializer):
    position = serializers.IntegerField()
    verb = serializers.ChoiceField(PlanVerb.values)
    principal = serializers.CharField()
    entity = serializers.CharField()
    privilege = serializers.ChoiceField(PRIVILEGES)
    already = serializers.BooleanField(help_text="It changes nothing, as it is so already.")


class TallySerializer(serializers.Serializer):
    privilege = serializers.ChoiceField(PRIVILEGES)
    kind = serializers.CharField()
    entities = serializers.IntegerField()


class PlanPrincipalSerializer(serializers.Serializer):
    principal = serializers.CharField()
    members = serializers.IntegerField(allow_null=True, help_text="Of a group: how many users are in it.")
    gains = TallySerializer(many=True)
    losses = TallySerializer(many=True)


class PlansQuery(PageQuery):
    state = Choice(choices=PlanState.values, required=False)
    origin = Choice(choices=ORIGINS, required=False)


class MakePlanSerializer(Shape):
    grant = ChangeItemSerializer(many=True, required=False, max_length=MOST_ITEMS)  # type: ignore[call-arg]
    revoke = ChangeItemSerializer(many=True, required=False, max_length=MOST_ITEMS)  # type: ignore[call-arg]
    title = Text(required=False, allow_blank=True, default="", max_length=MAX_TITLE_LENGTH)
    base_revision = Integer(required=False, help_text="The revision at which the items were chosen; the newest unless given.")


class MakePlanEnvelope(MakePlanSerializer):
    """With its items unread: each is read by itself, so that every fault is found."""

    grant = List(required=False, default=list)
    revoke = List(required=False, default=list)


class CopySerializer(Shape):
    source = PrincipalText()
    target = PrincipalText()
    within = AddressText(required=False, help_text="Only what is held on this namespace or application, or inside it.")


class CloseGapSerializer(Shape):
    namespace = AddressText()
    user = NameText(help_text="Who shall be able to delete it.")
    principal = PrincipalText(required=False, help_text="Who receives the grants: the user, unless a group of the user.")
    generation = Choice(choices=list(GENERATIONS), required=False, help_text="The active one unless given.")


class NamespaceText(AddressText):
    """The address of a namespace; what comes out is its name."""

    def run_validation(self, data=serializers.empty):
        address = super().run_validation(data)
        if address.kind != "namespace":
            raise serializers.ValidationError("this must be the address of a namespace, such as namespace:sales")
        return address.key


class KeepSerializer(Shape):
    run = Integer(help_text="The number of a finished run of policy-impact.")
    user = NameText(required=False, help_text="Only what this user would lose.")
    group = NameText(required=False, help_text="Only what the members of this group would lose.")
    namespace = NamespaceText(required=False, help_text="Only what would be lost in it: its address.")


class ApplySerializer(Shape):
    reason = Text(max_length=MAX_REASON_CHARACTERS, help_text="Why; it stands in the journal with every change.")


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

    @described("plans_create", TAG, "Make a plan of a change set",
               f"Up to {MOST_ITEMS:,} items in both lists together. Nothing is granted or revoked until it is applied.",
               sends=MakePlanSerializer, sent=CHANGES, answers={201: PlanSerializer}, example=PLAN, errors=[409],
               parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent = self.body(MakePlanEnvelope)
        items = ChangeSet.read({name: sent[name] for name in LISTS})
        with transaction.atomic():
            plan = items.made(create_plan_from_changes, author=author_of(request), title=sent["title"],
                              base_revision=sent.get("base_revision"))
        return plan_made(plan)


class CopiedPlans(Endpoint):
    @described("plans_copy", TAG, "Make a plan that copies grants",
               "What the source itself holds and the target itself does not. 409 where there is nothing to copy.",
               sends=CopySerializer, sent={"source": "user:mei.chen", "target": "group:contractors", "within": "namespace:sales"},
               answers={201: PlanSerializer}, example=PLAN | {"origin": "copy"}, errors=[409], parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent = self.body(CopySerializer)
        return plan_made(create_plan_from_copy(author=author_of(request), **{"within": None} | sent))


class ReadinessPlans(Endpoint):
    @described("plans_close_gap", TAG, "Make a plan that lets somebody delete a namespace",
               "The smallest set of grants after which the user may delete it. 409 where nothing is missing.",
               sends=CloseGapSerializer, sent=RECIPE, answers={201: PlanSerializer}, example=PLAN, errors=[409],
               parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        return plan_made(create_readiness_plan(author=author_of(request), **self.body(CloseGapSerializer)))


class ImpactPlans(Endpoint):
    @described("plans_keep", TAG, "Make a plan that keeps what people have",
               "From a finished run of policy-impact: the smallest re-grant after which no user loses an operation on a live "
               "entity by going from one generation to the other. All grants are to the users who would lose something. 409 "
               "where data changed since the run, or nothing is lost, or it is more than a plan holds.",
               sends=KeepSerializer, sent={"run": 7, "namespace": "namespace:sales"}, answers={201: PlanSerializer},
               example=PLAN | {"origin": PlanOrigin.POLICY_IMPACT.value}, errors=[404, 409, 410], parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent = self.body(KeepSerializer)
        run = AnalysisRun.objects.filter(pk=sent.pop("run")).first()
        if run is None:
            raise Http404
        try:
            return plan_made(create_regrant_plan(author=author_of(request), run=run, **sent))
        except (AnalysisError, StorageError) as error:
            has_no_report = run.state != RunState.DONE or run.analysis != AnalysisName.POLICY_IMPACT
            raise Problem(409 if has_no_report else 410, str(error)) from None


class OnePlan(Endpoint):
    @described("plans_retrieve", TAG, "Read a plan",
               f"What it changes, what it strands, and whether it can still be applied. {OVERSEERS}",
               answers={200: PlanDetailSerializer}, example=PLAN | {"stale": "", "stranded": []}, errors=[404],
               parameters=[PLAN_PATH])
    def get(self, request: Request, number: int) -> Response:
        plan = _seen(request, number)
        line = stale_line(plan) if plan.is_proposed else None
        stranded = stranded_entities(plan, most_rows=MOST_STRANDED)
        return Response(_plan_as_json(plan) | {
            "stale": line_summary(line) if line else "",
            "stranded": [{"entity": str(row.address), "admins": row.admins} for row in stranded]})


class PlanItems(Endpoint):
    queries = {"GET": PageQuery}

    @described("plans_items", TAG, "List a plan's items", f"In their order. {OVERSEERS}", query=PageQuery,
               answers={200: page_shape(PlanItemSerializer)}, example={"items": [ITEM], "next": None}, errors=[404],
               parameters=[PLAN_PATH])
    def get(self, request: Request, number: int) -> Response:
        rows = _seen(request, number).items.all()
        return Response(page_of([Part(rows, ("position",))], _item_as_json, query=self.query, identity=["plan-items", number]))


class PlanPrincipals(Endpoint):
    queries = {"GET": PageQuery}

    @described("plans_principals", TAG, "List who gains and who loses by a plan",
               f"Users before groups, by name; what each gains and loses itself, counted by kind. {OVERSEERS}", query=PageQuery,
               answers={200: page_shape(PlanPrincipalSerializer)}, example={"items": [PRINCIPAL], "next": None}, errors=[404],
               parameters=[PLAN_PATH])
    def get(self, request: Request, number: int) -> Response:
        effects = PrincipalEffects(_seen(request, number))
        query, identity = self.query, ["plan-principals", number]
        first = position_in_list(query["cursor"], identity) if query["cursor"] else 0
        end = first + query["limit"]
        found = effects[first : end + 1]
        following = cursor_for(end, identity) if len(found) > query["limit"] else None
        return Response({"items": list(map(_effect_as_json, found[: query["limit"]])), "next": following})


class PlanApplication(Endpoint):
    @described("plans_apply", TAG, "Apply a plan",
               "All of it in one transaction, with the reason. 409 (stale-base) where something that it depends on was changed "
               "since it was made: make it anew then. 409 where it was applied or discarded already.",
               sends=ApplySerializer, sent={"reason": "she takes over the namespace"}, answers={200: PlanSerializer},
               example=APPLIED, errors=[404, 409], parameters=[PLAN_PATH])
    def post(self, request: Request, number: int) -> Response:
        check_administrator(request)
        plan = _seen(request, number)
        reason = self.body(ApplySerializer)["reason"]
        return Response(_plan_as_json(apply_plan(author=author_of(request, reason), plan_id=plan.pk)))


class PlanDiscard(Endpoint):
    @described("plans_discard", TAG, "Discard a plan", "It stays in the list and can be made anew.", sends=DiscardSerializer,
               sent={"reason": "not needed any more"}, answers={200: PlanSerializer}, example=PLAN | {"state": "discarded"},
               errors=[404, 409], parameters=[PLAN_PATH])
    def post(self, request: Request, number: int) -> Response:
        check_administrator(request)
        plan = _seen(request, number)
        reason = self.body(DiscardSerializer)["reason"]
        return Response(_plan_as_json(discard_plan(author=author_of(request, reason), plan_id=plan.pk)))


class PlanInverse(Endpoint):
    @described("plans_invert", TAG, "Make the plan that undoes an applied plan",
               "It takes back what that one really changed, once it is applied itself; 409 where that is so already. No body.",
               answers={201: PlanSerializer}, example=PLAN | {"origin": "inverse", "inverse_of": 11},
               errors=[404, 409, 413, 415], parameters=[PLAN_PATH, LOCATION])
    def post(self, request: Request, number: int) -> Response:
        check_administrator(request)
        plan = _seen(request, number)
        self.check_empty_body()
        return plan_made(create_inverse_plan(author=author_of(request), plan_id=plan.pk))


class PlanRenewal(Endpoint):
    @described("plans_renew", TAG, "Make a plan anew",
               "From the same recipe, against what is so now; the old one is discarded where it was a proposal. No body.",
               answers={201: PlanSerializer}, example=PLAN | {"renewal_of": 11}, errors=[404, 409, 413, 415],
               parameters=[PLAN_PATH, LOCATION])
    def post(self, request: Request, number: int) -> Response:
        check_administrator(request)
        plan = _seen(request, number)
        self.check_empty_body()
        return plan_made(renew_plan(author=author_of(request), plan_id=plan.pk))


def _seen(request: Request, number: int) -> Plan:
    """Raises Problem for ordinary accounts, Http404 where there is none."""
    check_overseer(request)
    plan = Plan.objects.filter(pk=number).first() if number <= LARGEST_NUMBER else None
    if plan is None:
        raise Http404
    return plan


def plan_made(plan: Plan) -> Response:
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
