"""The REST resource `forecasts`: what would happen if a user deleted a namespace now."""

from rest_framework import serializers
from rest_framework.response import Response

from authzconsole.common.fields import AddressText, Choice, NameText
from authzconsole.common.past import PastQuery
from authzconsole.lists.grants import PRIVILEGES
from authzconsole.rest.framework.callers import check_can_see_all
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.framework.past import reads_past
from authzconsole.rest.grants import GrantedSerializer, granted_data
from authzconsole.rest.policies import SourceSerializer
from grants.active_generation import active_generation
from grants.lifecycle.namespace_deletion import (
    DeletionForecast,
    DeletionStep,
    DeletionVerdict,
    StepOutcome,
    deletion_forecast,
    undeletable_entities,
)
from grants.policies.catalogue import GENERATIONS


class StepSerializer(serializers.Serializer):
    """One step of the deletion: the live entities of one or more kinds.

    Steps are in the order of the platform.
    """

    kinds = serializers.DictField(child=serializers.IntegerField(), help_text="Live entities by kind.")
    live = serializers.IntegerField()
    missing = serializers.IntegerField(help_text="Entities that the user may not delete.")
    gone = serializers.IntegerField()
    remains = serializers.IntegerField()
    outcome = serializers.ChoiceField([str(outcome) for outcome in StepOutcome])


class HeirsSerializer(serializers.Serializer):
    """Holders of leftover grants. They would have access at once if the address were recreated."""

    privilege = serializers.ChoiceField(PRIVILEGES)
    users = serializers.IntegerField()
    groups = serializers.IntegerField()
    grants = serializers.IntegerField()


class DeletionForecastSerializer(serializers.Serializer):
    namespace = serializers.CharField()
    user = serializers.CharField()
    generation = serializers.ChoiceField(list(GENERATIONS))
    verdict = serializers.ChoiceField([str(verdict) for verdict in DeletionVerdict])
    sentence = serializers.CharField()
    source = SourceSerializer(help_text="The source of the deletion rules.")
    live = serializers.IntegerField(help_text="Live entities, including the namespace itself.")
    gone = serializers.IntegerField()
    remains = serializers.IntegerField()
    namespace_goes = serializers.BooleanField()
    steps = StepSerializer(many=True)
    grants_removed = serializers.IntegerField(help_text="Grants that are removed with their entities.")
    grants_kept = serializers.IntegerField(
        help_text="Grants that remain on deleted entities as leftover grants."
    )
    heirs = HeirsSerializer(many=True)
    heirs_users = serializers.IntegerField()
    heirs_groups = serializers.IntegerField()
    ghosts = GrantedSerializer(many=True, help_text="The first remaining grants, by address.")
    missing = serializers.IntegerField(help_text="Live entities that the user may not delete.")
    items = serializers.ListField(
        child=serializers.CharField(), help_text="One page of the entities that `missing` counts."
    )
    next = serializers.CharField(allow_null=True)


class DeletionQuery(PageQuery, PastQuery):
    namespace = AddressText(help_text="The address of a live namespace.")
    user = NameText(help_text="The user who would delete it.")
    generation = Choice(
        choices=list(GENERATIONS), required=False, help_text="By default the active generation."
    )


class DeletionForecasts(Endpoint):
    route, url_name = "forecasts/deletion", "rest-forecast-deletion"

    @operation(
        "forecasts_deletion",
        check_can_see_all,
        DeletionForecastSerializer,
        query=DeletionQuery,
        errors=[409],
    )
    @reads_past
    def get(self) -> Response:
        """Forecast the deletion of a namespace.

        Reports what would be deleted and what would remain, step by step, if the user deleted the
        namespace now, or at another time, and what would happen to its grants. Nothing is deleted.
        Returns 409 if the namespace is not live. For administrators and auditors.
        """
        query = self.query
        name = query.get("generation")
        generation = GENERATIONS[name] if name else active_generation()
        forecast = deletion_forecast(query["namespace"], query["user"], generation)
        blocking_entities = undeletable_entities(query["namespace"], query["user"], generation)
        page = page_of(
            [ListPart(blocking_entities, ("kind", "key"))],
            str,
            query=query,
            identity=list_identity("forecast", query),
        )
        return Response(_forecast_as_json(forecast) | page)


def _forecast_as_json(forecast: DeletionForecast) -> dict:
    member_names = (
        "live",
        "gone",
        "remains",
        "namespace_goes",
        "grants_removed",
        "grants_kept",
        "heirs_users",
        "heirs_groups",
        "missing",
        "user",
        "sentence",
    )
    return {name: getattr(forecast, name) for name in member_names} | {
        "namespace": str(forecast.namespace),
        "generation": forecast.generation.name,
        "verdict": str(forecast.verdict),
        "source": forecast.generation.deletion.source.as_json(),
        "steps": list(map(_step_as_json, forecast.steps)),
        "heirs": [
            {"privilege": str(row.privilege), "users": row.users, "groups": row.groups, "grants": row.grants}
            for row in forecast.heirs
        ],
        "ghosts": [granted_data(grant, grant.validity) for grant in forecast.ghosts],
    }


def _step_as_json(step: DeletionStep) -> dict:
    return {
        "kinds": dict(step.kinds),
        "live": step.live,
        "missing": step.missing,
        "gone": step.gone,
        "remains": step.remains,
        "outcome": str(step.outcome),
    }
