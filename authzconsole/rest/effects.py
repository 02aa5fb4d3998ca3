"""The effect of changes and of plans on permissions: totals, every changed decision as a file, and what a plan
that keeps permissions across generations does not keep.

The effect is computed in `grants.effects`, at once or in a run. Plans themselves are in `authzconsole.rest.plans`.
"""

from datetime import datetime

from rest_framework import serializers
from rest_framework.response import Response

from authzconsole.common.fields import Choice, List, QuerySerializer, StrictSerializer, Text, generation_field
from authzconsole.common.periods import PeriodTime
from authzconsole.lists.plans import EffectRows, KeptNotRows
from authzconsole.rest.dry_runs import NO_EFFECT, PermissionEffectSerializer, effect_as_json, preview_as_json
from authzconsole.rest.framework.callers import check_administrator, check_can_see_all
from authzconsole.rest.framework.endpoint import Endpoint, location
from authzconsole.rest.framework.lists import FORMULAS, Download, ListEndpoint
from authzconsole.rest.framework.operations import LOCATION, operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.plans import PLAN
from grants.active_generation import active_generation
from grants.change_set import UnknownChange, change_from_json
from grants.changes import ChangeSet, can_make, preview, request_change_effect
from grants.effects.changes import MAX_CHANGES
from grants.effects.effect import SIDE_EFFECTS, KnownEffect, RowFilter
from grants.effects.large import Computed
from grants.errors import EffectTooLarge, PlanError
from grants.models import Job, JobState, Plan, PlanState
from grants.plans.application import previewed_violations
from grants.plans.create import PlanOrigin
from grants.plans.permission_effect import (
    computed_plan_effect,
    generation_of_plan,
    plan_consequences,
    plan_effect,
    request_plan_effect,
)
from grants.policies.catalogue import GENERATIONS
from grants.policies.times import format_time


class GenerationQuery(QuerySerializer):
    generation = generation_field(
        "By default the generation for which the plan was created, or the active one."
    )


class EffectQuery(GenerationQuery):
    at = PeriodTime(
        help_text="Evaluate the decisions at this time, such as one of `times`. By default they are "
        "those of now, or of the first beginning with an effect. An "
        "effect that a run computed is known only at its `times`.",
    )


class EffectRowsQuery(EffectQuery):
    user = Text(allow_blank=True, max_length=200, help_text="Only users with this text in their name.")
    entity = Text(
        allow_blank=True,
        max_length=600,
        help_text="Only entities with this text in their address.",
    )
    operation = Text(allow_blank=True, max_length=64, help_text="Only this operation.")
    change = Choice(choices=["gained", "lost"], help_text="Only permissions that are gained, or lost.")
    purpose = Choice(
        choices=["for", "beyond", SIDE_EFFECTS],
        help_text="Only changes that are the purpose of the plan, only those beyond it, or of these only those that do not "
        "come with its grants.",
    )


class ComputingSerializer(serializers.Serializer):
    """The effect is not computed yet."""

    state = serializers.ChoiceField(["computing"])
    run = serializers.CharField(help_text="The URL of the run that computes it.")


class PlanEffect(Endpoint):
    route = "plans/<int:number>/effect"
    resource = PLAN

    @operation(
        "plans_effect",
        check_can_see_all,
        {200: PermissionEffectSerializer, 202: ComputingSerializer},
        query=EffectQuery,
        errors=[409],
    )
    def get(self) -> Response:
        """Read the effect of a plan on permissions.

        Every decision that the plan changes, through groups and containers, counted for the current data.
        Of an applied plan, the counts when it was applied, and the lists as of the revision before it.
        Returns 409 for other plans. An effect above the limits of the console is computed by a run, which
        POST requests: before that, this returns 409, and 202 until the run is done. For administrators
        and auditors.
        """
        plan = self.object
        consequences, at = plan_consequences(plan), self.query.get("at")
        if plan.state == PlanState.APPLIED:
            return Response(_applied_as_json(plan, self.query.get("generation"), at) | consequences._asdict())
        known = computed_plan_effect(plan, self.query.get("generation") or generation_of_plan(plan).name, at)
        if known.job is not None and not known.job.is_finished:
            return computing_response(known.job)
        return Response(effect_as_json(_effect_at(known, at), consequences, previewed_violations(plan)))

    @operation(
        "plans_effect_compute",
        check_administrator,
        {202: ComputingSerializer},
        query=GenerationQuery,
        errors=[413, 415],
        parameters=[LOCATION],
    )
    def post(self) -> Response:
        """Compute the effect of a plan above the limits.

        Requests a run of a worker, unless one is waiting or running. Its result is returned by GET as
        long as the data does not change. Returns 409 if the plan is not proposed. The request has no
        body.
        """
        self.check_empty_body()
        return computing_response(
            request_plan_effect(
                plan=self.object,
                generation=self.query.get("generation", ""),
                author=self.author,
                requested_by=self.request.user,
            )
        )


def _applied_as_json(plan: Plan, generation: str | None, at: datetime | None) -> dict:
    """Return the effect that is stored with an applied plan, with the lists computed as of the revision
    before it.

    The lists are empty if they cannot be computed. Without a stored effect in this generation, everything is
    computed.
    """
    stored = plan.effect.get("permissions") or {}
    is_stored = bool(stored) and at is None and generation in (None, stored["generation"])
    try:
        content = effect_as_json(plan_effect(plan, generation, at))
    except (EffectTooLarge, PlanError):
        if not is_stored:
            raise
        content = NO_EFFECT
    totals = {name: stored[name] for name in ("for", "beyond", "generation")} if is_stored else {}
    return content | totals | {"digest": "", "guardrails": plan.effect.get("violations", [])}


def computing_response(run: Job) -> Response:
    url = location("runs", run.pk)
    return Response({"state": "computing", "run": url}, status=202, headers={"Location": url})


def _effect_at(known: Computed, at: datetime | None) -> KnownEffect:
    """Return the effect at a time, by default the one that was computed.

    Raise EffectTooLarge if it is not known for the current data, PlanError if the run did not evaluate it at this time.
    """
    if (effect := known.effect) is not None:
        for one in [effect] if at is None or not known.is_large else effect.times or [effect]:
            if at is None or format_time(one.at) == format_time(at):
                return one
        times = ", ".join(format_time(one.at) for one in effect.times or [effect])
        raise PlanError(f"the effect at this time is not known; the run evaluated it at {times}")
    if known.too_large is None:
        raise PlanError("the effect is being computed")
    run = known.job
    reason = f"; run {run.pk} failed: {run.error}" if run is not None and run.state == JobState.FAILED else ""
    known.too_large.args = (f"{known.too_large}; or compute it with POST to this resource{reason}",)
    raise known.too_large


class EffectRowFiles(Download):
    """Download the changed decisions of a plan.

    For administrators and auditors.
    """

    route = "plans/<int:number>/effect/rows"
    files_id = "plans_effect_rows"
    files_query = EffectRowsQuery
    rows = EffectRows
    resource = PLAN
    files = {
        "jsonl": "One object per line: `user`, `entity`, `operation`, `before`, `after` and `intended`, sorted by the first three.",
        "csv": f"The same rows as in JSON Lines. {FORMULAS}",
    }
    errors = (409,)

    def read_list(self) -> EffectRows:
        plan, query = self.object, dict(self.query)
        generation, at = query.pop("generation", None), query.pop("at", None)
        effect = _effect_at(computed_plan_effect(plan, generation or generation_of_plan(plan).name, at), at)
        return EffectRows(self.request.user, {"plan": plan.pk, "where": RowFilter(**query)}, effect)


MAX_PARTS = 6


class ChangesSerializer(StrictSerializer):
    """Changes that are not made yet."""

    changes = List(
        child=List(child=Text(max_length=600, allow_blank=True), min_length=2, max_length=MAX_PARTS),
        min_length=1,
        max_length=MAX_CHANGES,
        help_text=(
            'The changes: `["delete",ADDRESS]`, `["register",ADDRESS]` or `["register",ADDRESS,CREATOR]`, '
            '`["grant",PRINCIPAL,ADDRESS,PRIVILEGE]` and `["revoke",…]`, `["join",USER,GROUP]` and `["leave",…]`, '
            '`["include",GROUP,ROLE]` and `["exclude",…]` with the role as `role:NAME`, '
            '`["activate",USER]` and `["deactivate",USER]`, `["remove",PRINCIPAL]`, `["principal",USER]`, `["generation",NAME]` '
            'or `["plan",NUMBER]`. '
            "A grant and a membership can be followed by the beginning and the end of their period; an empty text is no limit."
        ),
    )
    generation = generation_field()


class ChangeEffects(Endpoint):
    route = "effects"

    @operation(
        "effects_compute",
        check_administrator,
        {200: PermissionEffectSerializer, 202: ComputingSerializer},
        body=ChangesSerializer,
        parameters=[LOCATION],
    )
    def post(self) -> Response:
        """Compute the effect of changes.

        Returns the effect of changes without making them. An effect above the limits of the console is
        computed by a run: this returns 202 and requests the run, unless one is waiting or running. Repeat
        the request until it returns 200. A dry run of the same change then has the effect too. The result
        of a run is returned as long as the data does not change. For administrators.
        """
        body = self.data
        name = body.get("generation") or active_generation().name
        try:
            change_set = ChangeSet.of(*map(change_from_json, body["changes"]))
            shown = preview(change_set, GENERATIONS[name])
            if shown.effect is not None:
                return Response(preview_as_json(shown))
            if not can_make(self.request.user, change_set):
                raise Problem(403, "your account may not make these changes")
            return computing_response(
                request_change_effect(
                    changes=change_set, generation=name, author=self.author, requested_by=self.request.user
                )
            )
        except UnknownChange as error:
            raise Problem(400, f"`changes`: {error}") from None


class PlanKeptNot(ListEndpoint):
    """List what a plan does not keep.

    The permissions of the generation before that users do not have afterwards with the plan, for the current
    data. Sorted by namespace, kind, entity, operation and user. Returns 409 for plans that do not keep
    permissions across generations, and for plans that are not proposed. For administrators and auditors.
    """

    route = "plans/<int:number>/kept-not"
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
