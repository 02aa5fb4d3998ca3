"""The REST resources `policies` and `decisions`: generations, their policies with requirement and source, the active
generation, and the answers of the AuthZEN endpoints with an explanation.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from django.db import transaction
from rest_framework import serializers
from rest_framework.response import Response

from authzconsole.api.evaluation import MAX_EVALUATIONS, evaluate_request  # noqa: F401 (a docstring names it)
from authzconsole.common import output
from authzconsole.common.api_caller import caller_of
from authzconsole.common.fields import (
    Boolean,
    Choice,
    Integer,
    KindText,
    QuerySerializer,
    ReasonQuery,
    Time,
    reason_field,
)
from authzconsole.common.periods import PastQuery
from authzconsole.lists.grants import PRIVILEGES
from authzconsole.models import TokenScope
from authzconsole.rest.dry_runs import (
    ChangeEndpoint,
    ForecastRequestSerializer,
    ResourceForecastSerializer,
)
from authzconsole.rest.framework.callers import (
    any_account,
    changeable_with,
    check_can_see_all,
    check_recent_authentication,
)
from authzconsole.rest.framework.endpoint import Endpoint, check_match, etag_of, location, reads_past
from authzconsole.rest.framework.operations import ETAG, IF_MATCH, operation, path_parameter
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.people import OutcomeSerializer
from entities.vocabulary import KINDS, Privilege
from grants.active_generation import (
    active_generation,
    latest_proposal,
    propose_generation,
    proposed_name,
)
from grants.changes import Shown
from grants.evaluation.engine import MAX_LISTED_ENTITIES  # noqa: F401 (a docstring names it)
from grants.journal import lock_journal
from grants.policies.catalogue import GENERATIONS, UnknownGeneration, generation_by_name
from grants.policies.grammar import Algebra, Expression, Parameter, Scope, fold
from grants.policies.levels import LEVELS, required_level
from grants.policies.policy import Generation, Policy
from grants.policies.wording import rule_in_words
from grants.roles.capabilities import Capability
from grants.scheduled_activation import (
    MAX_DAYS_AHEAD,
    activation_changes,
    cancel_activation,
    schedule_activation,
    scheduled_activation,
)


class RequirementJson(Algebra[dict]):
    """The tree of a requirement as JSON."""

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> dict:
        return {"node": "has", "privileges": list(map(str, privileges)), "scope": scope.value}

    def has_at_or_below(self) -> dict:
        return {"node": "has-at-or-below"}

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> dict:
        return {"node": "has-on-all-live", "privileges": [str(privilege)], "kind": kind}

    def always(self) -> dict:
        return {"node": "always"}

    def all_of(self, parts: Iterable[dict]) -> dict:
        return {"node": "all-of", "parts": list(parts)}

    def any_of(self, parts: Iterable[dict]) -> dict:
        return {"node": "any-of", "parts": list(parts)}

    def given(self, parameter: Parameter, then: Callable[[], dict]) -> dict:
        return {"node": "given", "parameter": parameter.value, "parts": [then()]}


OPERATIONS = list(dict.fromkeys(operation for kind in KINDS.values() for operation in kind.operations))
NODES = ("has", "has-at-or-below", "has-on-all-live", "always", "all-of", "any-of", "given")


class SourceSerializer(output.Output):
    seed = output.Text()
    table = output.Text()
    row = output.Text()
    note = output.Text(required=False)


class RequirementSerializer(output.Output):
    """A node of a requirement tree.

    `has` requires one of the `privileges` at `scope`. `given` requires its part only if the question has the
    `parameter`.
    """

    node = output.Choice(NODES)
    privileges = output.Texts(PRIVILEGES, required=False)
    scope = output.Text(required=False)
    kind = output.Text(required=False, allow_null=True)
    parameter = output.Text(required=False)
    parts = serializers.ListField(
        child=serializers.DictField(), required=False, help_text="Child nodes, with the same members."
    )

    def to_representation(self, value: Expression) -> dict:
        return fold(value, RequirementJson())


class PolicySerializer(output.Output):
    kind = output.Text()
    operation = output.Text()
    requires = RequirementSerializer(
        source="requirement",
        allow_null=True,
        help_text="Null if the generation has no rule; the operation is then denied.",
    )
    words = output.Text(get=rule_in_words, help_text="The requirement in words; empty if there is no rule.")
    source = SourceSerializer(get=lambda policy: policy.source.as_json())
    level = output.Choice(
        LEVELS,
        get=lambda policy: required_level(policy.requirement) if policy.has_rule else None,
        allow_null=True,
        help_text="The access level that the operation belongs to; null if there is no rule.",
    )
    advice = output.Text(help_text="If there is no rule: the operation to ask about instead.")


class ShownGeneration(NamedTuple):
    """A generation with the policies to show."""

    rules: Generation
    active: bool
    policies: Sequence[Policy] = ()

    @property
    def given_permissions(self) -> list[dict]:
        if not self.rules.platform_permissions:
            return []
        return [
            {
                "kind": kind,
                "privilege": privilege,
                "permissions": self.rules.given_permissions(privilege, kind),
            }
            for kind in KINDS
            for privilege in Privilege
        ]


class GenerationSerializer(output.Output):
    name = output.Choice(list(GENERATIONS), source="rules.name")
    title = output.Text(source="rules.title")
    summary = output.Text(source="rules.summary")
    active = output.Boolean()
    creator_receives = output.Texts(PRIVILEGES, source="rules.creator_receives")
    deleting_removes_grants = output.Boolean(source="rules.deleting_removes_grants")
    lifecycle_source = SourceSerializer(get=lambda shown: shown.rules.lifecycle_source.as_json())


class GenerationsSerializer(output.Output):
    items = GenerationSerializer(many=True)


class PermissionMappingSerializer(output.Output):
    """A permission of the platform, and the privileges that give it, of which one is enough."""

    permission = output.Text(example="STANDARD:GET")
    kinds = output.Texts(
        help_text="The kinds of entity that this row is about. An empty list means all kinds that no other row names."
    )
    privileges = output.Texts(PRIVILEGES)
    scope = output.Text(help_text="`self`, or `parent` if the platform asks on the parent.")
    source = SourceSerializer(get=lambda row: row.source.as_json())


class GivenPermissionsSerializer(output.Output):
    """The permissions that a privilege gives."""

    kind = output.Text()
    privilege = output.Choice(PRIVILEGES)
    permissions = output.Texts()


class CatalogueSerializer(GenerationSerializer):
    policies = PolicySerializer(many=True)
    platform_permissions = PermissionMappingSerializer(
        many=True,
        source="rules.platform_permissions",
        help_text="What each permission of the platform requires; empty if it asks for privileges.",
    )
    given_permissions = GivenPermissionsSerializer(
        many=True, help_text="The other direction: what each privilege on an entity of a kind gives."
    )


class ActiveSerializer(output.Output):
    name = output.Choice(list(GENERATIONS))
    proposed = output.Text(
        required=False,
        help_text="With four eyes: the generation that an administrator proposed. "
        "Not in answers about an earlier state.",
    )


class CatalogueQuery(QuerySerializer):
    kind = KindText(help_text="Only policies of this kind of entity.")
    operation = Choice(choices=OPERATIONS, help_text="Only policies of this operation.")


class ActivatedSerializer(ResourceForecastSerializer, ActiveSerializer):
    """The active generation."""


def plan_field() -> Integer:
    return Integer(
        required=False,
        min_value=1,
        help_text="The number of a proposed plan that is applied in the same transaction. The effect is that of both, and "
        "the plan needs a reason.",
    )


class ActivateSerializer(ForecastRequestSerializer):
    """The generation of rules that decides from now on."""

    name = Choice(choices=list(GENERATIONS), help_text="The name of the generation.")
    propose = Boolean(
        default=False,
        help_text="Only propose it. With four eyes, another administrator must have "
        "proposed the generation that is activated.",
    )
    plan = plan_field()
    reason = reason_field()


class ScheduledActivationSerializer(output.Output):
    name = output.Choice(list(GENERATIONS), source="generation", help_text="The generation.")
    at = output.Time(help_text="When it becomes active.", example=output.TIME_EXAMPLE)
    scheduled_by = output.Text(source="by", example="admin")
    plan = output.Integer(
        allow_null=True, help_text="The number of the plan that is applied with it.", example=12
    )
    refusal = output.Text(
        help_text="Why it was refused at that time; empty as long as it is scheduled.", example=""
    )


class ScheduledActivationsSerializer(output.Output):
    items = ScheduledActivationSerializer(many=True)


class NewScheduledActivationSerializer(ResourceForecastSerializer, ScheduledActivationSerializer):
    """The scheduled activation."""


class ScheduleActivationSerializer(ForecastRequestSerializer):
    """The generation of rules that decides from a later time on."""

    name = Choice(choices=list(GENERATIONS), help_text="The name of the generation.")
    at = Time(help_text=f"An RFC 3339 time with a time zone, in the next {MAX_DAYS_AHEAD} days.")
    plan = plan_field()
    reason = reason_field()


class Generations(Endpoint):
    route = "policies"

    @operation(
        "policies_list",
        any_account,
        GenerationsSerializer,
        query=PastQuery,
    )
    @reads_past
    def get(self) -> object:
        """List the generations of rules.

        Sorted by age, oldest first, without their policies.
        """
        active = active_generation()
        return {"items": [ShownGeneration(rules, rules == active) for rules in GENERATIONS.values()]}


class Catalogue(Endpoint):
    route = "policies/<slug:generation>"

    @operation(
        "policies_retrieve",
        any_account,
        CatalogueSerializer,
        query=CatalogueQuery,
        errors=[404],
        parameters=[path_parameter("generation", f"One of {', '.join(GENERATIONS)}.")],
    )
    def get(self) -> object:
        """Read a generation.

        Returns its policies: the requirement of each operation on each kind, as a tree and in words, with
        the source.
        """
        try:
            selected = generation_by_name(self.kwargs["generation"])
        except UnknownGeneration as error:
            raise Problem(404, str(error)) from None
        rows = list(_matching_policies(selected, **self.query))
        return ShownGeneration(selected, selected == active_generation(), rows)


class ActiveGenerationDetail(ChangeEndpoint):
    route = "policies/active"

    @operation(
        "policies_active_retrieve",
        any_account,
        ActiveSerializer,
        query=PastQuery,
        parameters=[ETAG],
    )
    @reads_past
    def get(self) -> Response:
        """Read the active generation.

        Decisions use the active generation unless a request names another.
        """
        return _active_response(has_proposal="as_of" not in self.query)

    @operation(
        "policies_active_change",
        changeable_with(Capability.MANAGE_SETTINGS),
        ActivatedSerializer,
        body=ActivateSerializer,
        parameters=[IF_MATCH, ETAG],
    )
    def put(self) -> Response:
        """Activate a generation.

        Changes the permissions of all users at once, together with those of a plan. A dry run needs no If-Match, and reports the effect
        on permissions, over operations with a rule in both generations.
        """
        check_recent_authentication(self.request)
        data = self.data
        with transaction.atomic():
            lock_journal()
            before = active_generation().name
            check_match(self.request, etag_of(before), is_required=not data["dry_run"])
            if data["propose"] and not data["dry_run"]:
                propose_generation(author=self.author, name=data["name"])
                return _active_response()
            _, members = self.make(activation_changes(GENERATIONS[data["name"]], data.get("plan")))
        if data["dry_run"]:
            return Response({"name": data["name"]} | members, headers={"ETag": etag_of(before)})
        return _active_response()


class ScheduledActivations(ChangeEndpoint):
    route = "policies/scheduled"

    @operation("policies_scheduled_list", check_can_see_all, ScheduledActivationsSerializer)
    def get(self) -> object:
        """List scheduled activations.

        At most one: the activation that is scheduled, or the newest one if it was refused in the last days. For
        administrators and auditors.
        """
        scheduled = scheduled_activation()
        return {"items": [scheduled] if scheduled else []}

    @operation(
        "policies_scheduled_create",
        changeable_with(Capability.MANAGE_SETTINGS),
        {201: NewScheduledActivationSerializer, 200: NewScheduledActivationSerializer},
        body=ScheduleActivationSerializer,
    )
    def post(self) -> Response:
        """Schedule an activation.

        At that time the generation is activated only if the effect on permissions is the one of now; otherwise it is
        refused, and nothing changes. 409 if another activation is scheduled. A dry run reports the effect (200).
        """
        check_recent_authentication(self.request)
        data, generation, plan = self.data, GENERATIONS[self.data["name"]], self.data.get("plan")
        shown = Shown(data.get("effect_digest", ""))
        outcome, members = self.make(
            activation_changes(generation, plan),
            lambda: schedule_activation(
                author=self.author, generation=generation, at=data["at"], shown=shown, plan=plan
            ),
        )
        if not outcome.has_changed:
            raise Problem(409, outcome.sentence)
        if not self.is_dry_run:
            return self.response(scheduled_activation(), 201, Location=location("policies", "scheduled"))
        scheduled = {"name": generation.name, "at": data["at"], "scheduled_by": self.author.name}
        return Response(scheduled | {"plan": plan, "refusal": ""} | members)

    @operation(
        "policies_scheduled_cancel",
        changeable_with(Capability.MANAGE_SETTINGS),
        OutcomeSerializer,
        query=ReasonQuery,
    )
    def delete(self) -> object:
        """Cancel the scheduled activation.

        Nothing changes if no activation is scheduled. 409 if it is being made at this moment.
        """
        return cancel_activation(author=self.author)


def _active_response(*, has_proposal: bool = True) -> Response:
    name = active_generation().name
    proposal = latest_proposal() if has_proposal else None
    proposed = {"proposed": proposed_name(proposal)} if proposal else {}
    return Response({"name": name} | proposed, headers={"ETag": etag_of(name)})


def _matching_policies(
    generation: Generation, *, kind: str | None = None, operation: str | None = None
) -> Iterator[Policy]:
    for kind_row in KINDS.values():
        for name in kind_row.operations:
            policy = generation.policy(kind_row.name, name)
            if policy is not None and kind in (None, kind_row.name) and operation in (None, name):
                yield policy


def _schema(name: str) -> dict:
    """Return the reference to a schema in fixed_openapi.yaml."""
    return {"$ref": f"#/components/schemas/{name}"}


class Decisions(Endpoint):
    route = "decisions"
    scopes = {"POST": TokenScope.DECIDE}

    @operation(
        "decisions_ask",
        any_account,
        {200: _schema("DecisionAnswer")},
        schema={"application/json": _schema("Decisions")},
    )
    def post(self) -> Response:
        """Ask for an explained decision.

        Accepts the requests of the AuthZEN Authorization API, with one question or up to
        {MAX_EVALUATIONS:,}. A token with the scope `decide` of an administrator, auditor or service
        account can ask about any subject. A token with the scope `self`, and an account with the role
        `ordinary` and its tokens, can only ask about the account itself. Unknown members are ignored, as
        AuthZEN requires. The explanations of a request with several questions list at most
        {MAX_LISTED_ENTITIES:,} missing grants together.
        """
        caller = caller_of(self.request.auth or self.request.user)
        return Response(evaluate_request(caller, _with_explain(self.raw_body(allows_surrogates=False))))


def _with_explain(body: dict) -> dict:
    """Return the body with `explain` set in every context.

    Malformed members are kept, because parsing refuses them.
    """
    body = _set_explain(body, body.get("context", {}))
    if isinstance(items := body.get("evaluations"), list):
        body = body | {
            "evaluations": [
                _set_explain(item, item["context"]) if isinstance(item, dict) and "context" in item else item
                for item in items
            ]
        }
    return body


def _set_explain(item: dict, context: object) -> dict:
    return item | {"context": context | {"explain": True}} if isinstance(context, dict) else item
