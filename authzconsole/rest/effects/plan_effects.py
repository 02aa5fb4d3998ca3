"""The effect of a plan on permissions: totals, and every changed decision as a file."""

from django.http import StreamingHttpResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.rest.analyses import CsvRenderer, JsonLinesRenderer
from authzconsole.rest.effects.rows import effect_rows_response
from authzconsole.rest.framework.callers import check_can_see_all
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.fields import Choice, StrictSerializer, Text
from authzconsole.rest.openapi.operations import FILE, api_operation
from authzconsole.rest.plans import ALLOWED_ROLES, PLAN_PATH, TAG, plan_or_404
from grants.effects.effect import Effect, RowFilter, Tally
from grants.models import PlanState
from grants.plans.permission_effect import generation_of_plan, plan_effect
from grants.policies.catalogue import GENERATIONS

MAX_LISTED = 20


class GenerationQuery(StrictSerializer):
    generation = Choice(choices=list(GENERATIONS), required=False,
                        help_text="By default the generation for which the plan was created, or the active one.")


class EffectRowsQuery(GenerationQuery):
    user = Text(required=False, allow_blank=True, max_length=200, help_text="Only users with this text in their name.")
    entity = Text(required=False, allow_blank=True, max_length=600, help_text="Only entities with this text in their address.")
    operation = Text(required=False, allow_blank=True, max_length=64, help_text="Only this operation.")
    change = Choice(choices=["gained", "lost"], required=False, help_text="Only permissions that are gained, or lost.")
    purpose = Choice(choices=["for", "beyond"], required=False,
                     help_text="Only changes that are the purpose of the plan, or only those beyond it.")


class EffectTotalsSerializer(serializers.Serializer):
    gained = serializers.IntegerField(help_text="Denied before and permitted afterwards.")
    lost = serializers.IntegerField(help_text="Permitted before and denied afterwards.")


class EffectPartsSerializer(serializers.Serializer):
    beyond = EffectTotalsSerializer(help_text="Changes beyond the purpose of the plan.")

    def get_fields(self):
        # `for` is a keyword of Python
        return {"for": EffectTotalsSerializer(help_text="Changes that are the purpose of the plan."), **super().get_fields()}


class EffectPersonSerializer(EffectPartsSerializer):
    user = serializers.CharField()


class EffectEntitySerializer(EffectPartsSerializer):
    entity = serializers.CharField()


class EffectOperationSerializer(EffectPartsSerializer):
    kind = serializers.CharField()
    operation = serializers.CharField()


class PermissionEffectSerializer(EffectPartsSerializer):
    """Changed decisions about live entities. A changed decision is one user, entity and operation."""

    generation = serializers.CharField(help_text="The generation in which the plan was evaluated.")
    digest = serializers.CharField(help_text="Identifies the effect; `plans_apply` can refuse to apply another one. Empty for "
                                             "a plan that was applied.")
    users = EffectPersonSerializer(many=True, help_text=f"The {MAX_LISTED} users with most changes; those beyond the purpose "
                                                               "count first.")
    entities = EffectEntitySerializer(many=True, help_text=f"The {MAX_LISTED} entities with most changes, likewise.")
    operations = EffectOperationSerializer(many=True, help_text="All operations with changes, most changes first.")


_PARTS_EXAMPLE = {"for": {"gained": 8, "lost": 0}, "beyond": {"gained": 4, "lost": 0}}


class PlanEffect(Endpoint):
    rules = {"GET": check_can_see_all}
    queries = {"GET": GenerationQuery}

    @api_operation(
        "plans_effect", TAG, "Read the effect of a plan on permissions",
        "Every decision that the plan changes, through groups and containers, counted for the current data. Of an applied plan, "
        f"the counts when it was applied. Returns 409 for other plans, and for effects that are too large. {ALLOWED_ROLES}",
        query=GenerationQuery, responses={200: PermissionEffectSerializer},
        response_example={
            **_PARTS_EXAMPLE, "generation": "final", "digest": "5f2b0c6dd4d8a2f1b4f0e7b8a1c09d3e",
            "users": [{"user": "sofia.lindqvist", **_PARTS_EXAMPLE}], "entities": [], "operations": []},
        errors=[404, 409], parameters=[PLAN_PATH])
    def get(self, request: Request, number: int) -> Response:
        plan = plan_or_404(request, number)
        stored = plan.effect.get("permissions")
        if plan.state == PlanState.APPLIED and stored and self.query.get("generation") in (None, stored["generation"]):
            return Response({**stored, "digest": "", "users": [], "entities": [], "operations": []})
        return Response(_effect_as_json(plan_effect(plan, self.query.get("generation"))))


class _EffectRows(Endpoint):
    """All changed decisions as a file."""

    rules = {"GET": check_can_see_all}
    queries = {"GET": EffectRowsQuery}
    extension: str

    def get(self, request: Request, number: int) -> StreamingHttpResponse:
        plan = plan_or_404(request, number)
        query = dict(self.query)
        effect = plan_effect(plan, query.pop("generation", None) or generation_of_plan(plan))
        return effect_rows_response(effect, self.extension, f"plan-{plan.pk}-effect", RowFilter(**query))


class EffectRowsJsonLines(_EffectRows):
    renderer_classes = [JsonLinesRenderer]
    extension = "jsonl"

    @api_operation(
        "plans_effect_rows_jsonl", TAG, "Download the changed decisions of a plan as JSON Lines",
        "One object per line: `user`, `entity`, `operation`, `before`, `after` and `intended`, sorted by the first three. "
        f"{ALLOWED_ROLES}", query=EffectRowsQuery,
        responses={(200, "application/x-ndjson"): FILE}, errors=[404, 409], parameters=[PLAN_PATH])
    def get(self, request: Request, number: int) -> StreamingHttpResponse:
        return super().get(request, number)


class EffectRowsCsv(_EffectRows):
    renderer_classes = [CsvRenderer]
    extension = "csv"

    @api_operation(
        "plans_effect_rows_csv", TAG, "Download the changed decisions of a plan as CSV",
        "The same rows as in JSON Lines. An apostrophe precedes values that a spreadsheet would treat as a formula. "
        f"{ALLOWED_ROLES}", query=EffectRowsQuery,
        responses={(200, "text/csv"): FILE}, errors=[404, 409], parameters=[PLAN_PATH])
    def get(self, request: Request, number: int) -> StreamingHttpResponse:
        return super().get(request, number)


def _effect_as_json(effect: Effect) -> dict:
    return {
        **effect.summary, "generation": effect.generation, "digest": effect.digest,
        "users": [{"user": name, **_parts(tally)} for name, tally in effect.people[:MAX_LISTED]],
        "entities": [{"entity": str(address), **_parts(tally)} for address, tally in effect.entities[:MAX_LISTED]],
        "operations": [{"kind": kind, "operation": operation, **_parts(tally)} for kind, operation, tally in effect.operations],
    }


def _parts(tally: Tally) -> dict:
    return {"for": {"gained": tally.gained_for, "lost": tally.lost_for},
            "beyond": {"gained": tally.gained_beyond, "lost": tally.lost_beyond}}
