"""The REST resource `forecasts`: what would happen if a user deleted a namespace now."""

from collections.abc import Iterable

from rest_framework import serializers
from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import AddressText, Choice, NameText
from authzconsole.common.past import PastQuery
from authzconsole.lists.base import List
from authzconsole.lists.grants import PRIVILEGES
from authzconsole.rest.dry_runs import ShownChange
from authzconsole.rest.framework.callers import check_can_see_all
from authzconsole.rest.framework.cursors import PageQuery
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.lists import page_members
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.framework.past import reads_past
from authzconsole.rest.grants import GrantedSerializer
from authzconsole.rest.policies import SourceSerializer
from grants.active_generation import active_generation
from grants.lifecycle.namespace_deletion import (
    DeletionVerdict,
    StepOutcome,
    deletion_forecast,
    undeletable_entities,
)
from grants.policies.catalogue import GENERATIONS


class StepSerializer(output.Output):
    """One step of the deletion: the live entities of one or more kinds.

    Steps are in the order of the platform.
    """

    kinds = output.Record(
        child=serializers.IntegerField(),
        get=lambda step: dict(step.kinds),
        help_text="Live entities by kind.",
    )
    live = output.Integer()
    missing = output.Integer(help_text="Entities that the user may not delete.")
    gone = output.Integer()
    remains = output.Integer()
    outcome = output.Choice([str(outcome) for outcome in StepOutcome])


class HeirsSerializer(output.Output):
    """Holders of leftover grants. They would have access at once if the address were recreated."""

    privilege = output.Choice(PRIVILEGES)
    users = output.Integer()
    groups = output.Integer()
    grants = output.Integer()


class DeletionMembers(output.Output):
    namespace = output.Text()
    user = output.Text()
    generation = output.Choice(list(GENERATIONS), source="generation.name")
    verdict = output.Choice([str(verdict) for verdict in DeletionVerdict])
    sentence = output.Text()
    source = SourceSerializer(
        get=lambda forecast: forecast.generation.deletion.source.as_json(),
        help_text="The source of the deletion rules.",
    )
    live = output.Integer(help_text="Live entities, including the namespace itself.")
    gone = output.Integer()
    remains = output.Integer()
    namespace_goes = output.Boolean()
    steps = StepSerializer(many=True)
    grants_removed = output.Integer(help_text="Grants that are removed with their entities.")
    grants_kept = output.Integer(help_text="Grants that remain on deleted entities as leftover grants.")
    heirs = HeirsSerializer(many=True)
    heirs_users = output.Integer()
    heirs_groups = output.Integer()
    ghosts = GrantedSerializer(
        many=True,
        get=lambda forecast: [ShownChange(grant, grant.validity) for grant in forecast.ghosts],
        help_text="The first remaining grants, by address.",
    )
    missing = output.Integer(help_text="Live entities that the user may not delete.")


class DeletionForecastSerializer(DeletionMembers):
    items = output.Texts(help_text="One page of the entities that `missing` counts.")
    next = output.Text(allow_null=True)


class DeletionQuery(PageQuery, PastQuery):
    namespace = AddressText(help_text="The address of a live namespace.")
    user = NameText(help_text="The user who would delete it.")
    generation = Choice(
        choices=list(GENERATIONS), required=False, help_text="By default the active generation."
    )


class UndeletableEntities(List):
    """The entities that block a deletion. subject: the namespace, the user and the generation."""

    name = "forecast"
    order = ("kind", "key")

    def select(self):
        return undeletable_entities(*self.subject)

    def members(self, rows: Iterable) -> list:
        return list(map(str, rows))


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
        deletion = query["namespace"], query["user"], GENERATIONS[name] if name else active_generation()
        forecast = DeletionMembers.data_of(deletion_forecast(*deletion))
        page = page_members(UndeletableEntities(self.request.user, {}, deletion), query)
        return Response(forecast | page)
