"""The REST resources `entities` and `forecasts`: browse, search, read, register, describe, delete and recreate
entities, and forecast the deletion of a namespace.
"""

from collections.abc import Iterable

from django.db import transaction
from rest_framework import serializers
from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import (
    AddressText,
    NameText,
    StrictSerializer,
    Text,
    generation_field,
    optional_text,
    reason_field,
)
from authzconsole.common.periods import PastQuery
from authzconsole.lists.base import List
from authzconsole.lists.entities import Entities, EntitySerializer
from authzconsole.lists.grants import PRIVILEGES
from authzconsole.rest.dry_runs import (
    NO_FORECAST,
    ChangeEndpoint,
    ChangeForecastSerializer,
    ForecastQuery,
    ForecastRequestSerializer,
    forecast_as_json,
)
from authzconsole.rest.framework.callers import (
    address_or_404,
    any_account,
    check_administrator,
    check_can_see_all,
    visible_entity,
)
from authzconsole.rest.framework.endpoint import (
    Endpoint,
    Resource,
    check_match,
    etag_of_resource,
    location,
    reads_past,
)
from authzconsole.rest.framework.lists import ListEndpoint, PageQuery, page_members
from authzconsole.rest.framework.operations import (
    ETAG,
    IF_MATCH,
    IF_MATCH_OPTIONAL,
    operation,
)
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.grants import GrantedSerializer
from authzconsole.rest.policies import SourceSerializer
from entities.address import Address
from entities.models import Entity
from entities.selectors import entity_at
from grants.active_generation import active_generation
from grants.change_set import Delete, Recreate, Register
from grants.changes import ChangeSet, Outcome, describe_entity
from grants.journal import current_revision, lock_journal
from grants.lifecycle import (
    DeletionVerdict,
    LifecycleForecast,
    StepOutcome,
    deletion_forecast,
    lifecycle_forecast,
    undeletable_entities,
)
from grants.policies.catalogue import GENERATIONS
from grants.principal_names import MAX_DESCRIPTION_CHARACTERS

ENTITY = Resource(
    "address",
    "An address such as `dataset:sales.orders`. It is the whole rest of the path. Percent-encode reserved "
    "characters, such as the `/` of `kerberosprincipal:etl%2Fhost.com@REALM`.",
    lambda request, text: visible_entity(request, address_or_404(text)),
)


class HolderSerializer(output.Output):
    principal = output.Text()
    privileges = output.Texts(PRIVILEGES)
    pattern = output.Text(
        example="dataset:sales.*", help_text="By which it holds them; empty for grants on the address itself."
    )


class ForecastSerializer(output.Output):
    """The effect of a change, counted before the change is made."""

    generation = output.Text(source="generation.name")
    entities = output.Record(
        child=serializers.IntegerField(), help_text="The number of entities that change, by kind."
    )
    planned_inside = output.Integer(help_text="Planned entities inside the address. They stay planned.")
    grants_removed = output.Integer()
    grants_kept = output.Integer()
    applying = HolderSerializer(
        many=True,
        help_text="Existing grants on the address, or on patterns that match it, that start to count.",
    )
    creator_receives = output.Texts(PRIVILEGES)


class LifecycleSerializer(ChangeForecastSerializer):
    """The changes that the request made, or for a dry run would make.

    A dry run that changes nothing has no effect.
    """

    changed = serializers.BooleanField()
    sentence = serializers.CharField()
    revision = serializers.IntegerField(help_text="The newest revision of the journal.")
    entity = EntitySerializer(allow_null=True)
    forecast = ForecastSerializer(
        allow_null=True, help_text="Only for a dry run that would change something."
    )


class RegisterSerializer(ForecastRequestSerializer):
    """An address that becomes live."""

    address = AddressText()
    description = optional_text("What the entity is, for readers.", MAX_DESCRIPTION_CHARACTERS)
    creator = NameText(
        required=False, help_text="The user who gets the privileges of a creator in the active generation."
    )
    reason = reason_field()


class DescribeSerializer(StrictSerializer):
    """The new description of an entity."""

    description = Text(
        allow_blank=True, max_length=MAX_DESCRIPTION_CHARACTERS, help_text="What the entity is, for readers."
    )
    reason = reason_field()


class DeleteQuery(ForecastQuery):
    reason = reason_field()


class RegisteringEndpoint(ChangeEndpoint):
    """An endpoint that makes an address live."""

    def make_live(self, verb: type[Register | Recreate]) -> Response:
        """Register or recreate an entity, or report the effect of a dry run."""
        data = self.data
        address, creator = data["address"], f"user:{data['creator']}" if "creator" in data else ""
        with transaction.atomic():
            lock_journal()
            forecast = lifecycle_forecast(address, verb.verb) if self.is_dry_run else None
            revision = current_revision()
            outcome, members = self.make(ChangeSet.of(verb(address, creator, data["description"])))
            entity = entity_at(address)
        if forecast is None:
            content = _outcome_as_json(outcome, entity)
            if outcome.has_changed:
                url = location("entities", address, safe=":@")
                return Response(content, status=201, headers={"Location": url})
            return Response(content)
        if not outcome.has_changed:
            content = _outcome_as_json(Outcome(False, outcome.sentence, revision))
            return Response(content | {"dry_run": True})
        outcome = Outcome(True, _dry_run_sentence(forecast, creator), revision)
        return Response(_outcome_as_json(outcome, None, forecast) | members)


class EntityList(RegisteringEndpoint, ListEndpoint):
    """Browse and search entities.

    Sorted by kind and key. Accounts with the role `ordinary` find the entities on which they may `list`
    or `get`.
    """

    route = "entities"
    operation_id = "entities_list"
    rows = Entities

    @operation(
        "entities_register",
        check_administrator,
        {200: LifecycleSerializer, 201: LifecycleSerializer},
        body=RegisterSerializer,
    )
    def post(self) -> Response:
        """Register an entity.

        Makes a new or planned address live. An entity that is already live is not changed (200). The
        parent must be live. A deleted entity has to be recreated instead.
        """
        return self.make_live(Register)


class EntityRecreation(RegisteringEndpoint):
    route = "entities/recreate"

    @operation(
        "entities_recreate",
        check_administrator,
        {200: LifecycleSerializer, 201: LifecycleSerializer},
        body=RegisterSerializer,
    )
    def post(self) -> Response:
        """Recreate a deleted entity.

        Makes a deleted address live again. Its leftover grants count again.
        """
        return self.make_live(Recreate)


class EntityDetail(ChangeEndpoint):
    route = "entities/<path:address>"
    resource = ENTITY

    @operation("entities_retrieve", any_account, EntitySerializer, query=PastQuery, parameters=[ETAG])
    @reads_past
    def get(self) -> Entity:
        """Read an entity.

        Returns 404 for entities that are not registered or not visible.
        """
        return self.object

    @operation(
        "entities_describe",
        any_account,
        EntitySerializer,
        body=DescribeSerializer,
        parameters=[IF_MATCH, ETAG],
    )
    def patch(self) -> Entity | None:
        """Describe an entity.

        Changes the description.
        """
        check_administrator(self.request)
        description = self.data["description"]
        with transaction.atomic():
            address = self.locked_address(is_required=True)
            describe_entity(author=self.author, address=address, description=description)
        return entity_at(address)

    @operation(
        "entities_delete",
        any_account,
        LifecycleSerializer,
        query=DeleteQuery,
        errors=[412],
        parameters=[IF_MATCH_OPTIONAL],
    )
    def delete(self) -> Response:
        """Delete an entity.

        Deletes the entity and every live entity inside it. The active generation decides whether their
        grants are removed too.
        """
        check_administrator(self.request)
        with transaction.atomic():
            address = self.locked_address(is_required=False)
            if self.is_dry_run:
                return Response(_deletion_forecast(address))
            outcome, _ = self.make(ChangeSet.of(Delete(address)))
        return Response(_outcome_as_json(outcome, entity_at(address)))

    def locked_address(self, *, is_required: bool) -> Address:
        """Lock the journal and compare If-Match, so that no change happens between this check and the change."""
        lock_journal()
        address = address_or_404(self.kwargs["address"])
        etag = etag_of_resource(EntitySerializer, entity_at(address))
        check_match(self.request, etag, is_required=is_required)
        return address


def _dry_run_sentence(forecast: LifecycleForecast, creator: str) -> str:
    participle = {"register": "registered", "recreate": "recreated"}[forecast.verb]
    parts = [f"{forecast.address} would be {participle}"]
    if count := forecast.applying_grant_count:
        parts.append(f"{count:,} {'grant' if count == 1 else 'grants'} on it would start to count")
    if creator and forecast.creator_receives:
        parts.append(f"{creator} would get {', '.join(forecast.creator_receives)} on it as its creator")
    return "; ".join([*parts, "nothing was changed"])


def _deletion_forecast(address: Address) -> dict:
    forecast = lifecycle_forecast(address, "delete")
    if forecast.refusal:
        raise Problem(409, forecast.refusal)
    noun = "entity" if forecast.entities_total == 1 else "entities"
    sentence = f"{address} would be deleted, {forecast.entities_total:,} {noun} in total; nothing was changed"
    return _outcome_as_json(
        Outcome(True, sentence, current_revision()), forecast=forecast
    ) | forecast_as_json(ChangeSet.of(Delete(address)))


def _outcome_as_json(
    outcome: Outcome, entity: Entity | None = None, forecast: LifecycleForecast | None = None
) -> dict:
    return NO_FORECAST | {
        "changed": outcome.has_changed,
        "sentence": outcome.sentence,
        "revision": outcome.revision,
        "entity": EntitySerializer.data_of(entity) if entity else None,
        "forecast": ForecastSerializer.data_of(forecast) if forecast else None,
    }


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
        help_text="The first remaining grants, by address.",
    )
    missing = output.Integer(help_text="Live entities that the user may not delete.")


class DeletionForecastSerializer(DeletionMembers):
    items = output.Texts(help_text="One page of the entities that `missing` counts.")
    next = output.Text(allow_null=True)


class DeletionQuery(PageQuery, PastQuery):
    namespace = AddressText(required=True, help_text="The address of a live namespace.")
    user = NameText(required=True, help_text="The user who would delete it.")
    generation = generation_field()


class UndeletableEntities(List):
    """The entities that block a deletion. subject: the namespace, the user and the generation."""

    name = "forecast"
    order = ("kind", "key")

    def select(self):
        return undeletable_entities(*self.subject)

    def members(self, rows: Iterable) -> list:
        return list(map(str, rows))


class DeletionForecasts(Endpoint):
    route = "forecasts/deletion"

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
