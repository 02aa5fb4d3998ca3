"""Forecast the effects of registering, deleting or recreating an entity.

`grants.changes.entities` uses the same forecast, so the actual effects equal the forecast.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import NamedTuple

from django.db.models import Count, QuerySet

from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.patterns import rows_about
from entities.selectors import children_of, entity_at, subtree_of
from entities.services import instance_fault
from entities.vocabulary import KINDS, Privilege
from grants.active_generation import active_generation
from grants.models import GrantQuerySet, all_grants
from grants.policies.catalogue import generation_by_name
from grants.policies.policy import Generation
from grants.validity import in_force

VERBS = ("register", "delete", "recreate")


class ApplyingGrants(NamedTuple):
    """What a principal holds on an address. pattern: by which; empty for grants on the address itself."""

    principal: str
    privileges: tuple[Privilege, ...]
    pattern: str = ""


@frozen
class LifecycleForecast:
    """The effects of `verb` on `address` in one generation.

    refusal: why the change is not possible; the other fields are then empty. entities: number of changed
    entities by kind.
    planned_inside: number of planned entities inside, which stay planned.
    grants_removed, grants_kept: number of grants on the deleted entities that are removed, and that are kept.
    applying: the existing grants that take effect, by principal and pattern.
    creator_receives: the privileges that the creator receives.
    """

    verb: str
    address: Address
    generation: Generation
    refusal: str = ""
    entities: dict[str, int] = field(default_factory=dict)
    planned_inside: int = 0
    grants_removed: int = 0
    grants_kept: int = 0
    applying: tuple[ApplyingGrants, ...] = ()
    creator_receives: tuple[Privilege, ...] = ()

    @property
    def entities_total(self) -> int:
        return sum(self.entities.values())

    @property
    def applying_grant_count(self) -> int:
        return sum(len(grants.privileges) for grants in self.applying)


def lifecycle_forecast(
    address: Address, verb: str, generation: Generation | str | None = None
) -> LifecycleForecast:
    """Return the forecast of a change to one entity. Runs at most seven queries; rows are loaded only for
    `applying`.

    generation: the active generation by default. Raise UnknownGeneration if there is no generation of this
    name.
    """
    if verb not in VERBS:
        raise ValueError(f"`{verb}` is not one of {', '.join(VERBS)}")
    rules, entity = resolve_generation(generation), entity_at(address)
    refusal = lifecycle_refusal(verb, address, entity)
    if refusal:
        return LifecycleForecast(verb, address, rules, refusal)
    return (
        _deletion_forecast(address, entity, rules)
        if verb == "delete"
        else _live_forecast(verb, address, entity, rules)
    )


def resolve_generation(generation: Generation | str | None) -> Generation:
    """Return the generation itself, the generation of this name, or the active generation for None.

    Raise UnknownGeneration if there is no generation of this name.
    """
    if isinstance(generation, Generation):
        return generation
    return active_generation() if generation is None else generation_by_name(generation)


def live_subtree(entity: Entity) -> QuerySet[Entity]:
    """Return the entities that are deleted with an entity: the entity itself and the live entities inside it."""
    return subtree_of(entity).filter(state=State.LIVE)


def grants_on(entities: QuerySet[Entity]) -> list[GrantQuerySet]:
    """Return the grants on these entities, one queryset for each type of principal."""
    return all_grants(content_object__in=entities.values("pk"))


def _deletion_forecast(address: Address, entity: Entity, rules: Generation) -> LifecycleForecast:
    if entity.state == State.PLANNED:
        return LifecycleForecast("delete", address, rules, entities={address.kind: 1})
    deleted_entities = live_subtree(entity)
    counts = dict(deleted_entities.order_by().values_list("kind").annotate(Count("pk")))
    grants = sum(rows.count() for rows in grants_on(deleted_entities))
    removed = grants if rules.deleting_removes_grants else 0
    return LifecycleForecast(
        "delete",
        address,
        rules,
        entities={kind: counts[kind] for kind in KINDS if kind in counts},
        planned_inside=subtree_of(entity).filter(state=State.PLANNED).count(),
        grants_removed=removed,
        grants_kept=grants - removed,
    )


def _live_forecast(
    verb: str, address: Address, entity: Entity | None, rules: Generation
) -> LifecycleForecast:
    return LifecycleForecast(
        verb,
        address,
        rules,
        entities={address.kind: 1},
        applying=tuple(_applying_grants(address)),
        creator_receives=rules.creator_receives,
    )


def _applying_grants(address: Address) -> Iterator[ApplyingGrants]:
    """Yield what each principal holds on the address, and by each pattern that matches it."""
    held: dict[tuple[str, str], set[Privilege]] = defaultdict(set)
    for grants in all_grants(content_object__in=rows_about(address), **in_force()):
        for principal, granted_on, privilege in grants.grant_keys():
            held[principal, str(granted_on) if granted_on.is_pattern else ""].add(privilege)
    for (principal, pattern), privileges in sorted(held.items()):
        yield ApplyingGrants(
            principal, tuple(privilege for privilege in Privilege if privilege in privileges), pattern
        )


def lifecycle_refusal(verb: str, address: Address, entity: Entity | None) -> str:
    """Return why a change to one entity is not possible; empty if it is. Runs at most three queries.

    entity: the one at the address.
    """
    if verb == "delete":
        return instance_fault(address) or _delete_refusal(address, entity)

    def state_of(other: Address) -> str | None:
        row = entity if other == address else entity_at(other)
        return row.state if row else None

    return live_refusal(verb, address, state_of)


def live_refusal(verb: str, address: Address, state_of: Callable[[Address], str | None]) -> str:
    """Return why an entity cannot be registered or recreated; empty if it can.

    state_of: the state of an address; None if it is not registered.
    """
    return (
        instance_fault(address)
        or _state_refusal(verb, address, state_of(address))
        or _parent_refusal(verb, address, state_of)
    )


def _delete_refusal(address: Address, entity: Entity | None) -> str:
    if address.kind == "instance":
        return f"{address} cannot be deleted: it is the platform itself"
    if entity is None:
        return f"{address} is not registered: there is nothing to delete"
    if entity.state == State.PLANNED:
        return _planned_refusal(address, entity)
    return "" if entity.is_live else f"{address} was deleted already"


def _planned_refusal(address: Address, entity: Entity) -> str:
    """Return why a planned entity cannot be removed: it has grants or contains an entity. Empty if it can."""
    planned = f"{address} is planned and does not exist yet: there is nothing to delete"
    if any(grants.exists() for grants in grants_on(Entity.objects.filter(pk=entity.pk))):
        return f"{planned}; revoke the grants on it instead"
    inside = children_of(entity).first()
    return f"{planned}, and {inside}, which is inside it, keeps its address" if inside else ""


def _state_refusal(verb: str, address: Address, state: str | None) -> str:
    if state == State.LIVE:
        return f"{address} is live already: nothing changed"
    was_deleted = state == State.DELETED
    if verb == "register" and was_deleted:
        return f"{address} was deleted: recreate it instead; the remaining grants on it then apply again"
    if verb == "recreate" and not was_deleted:
        return f"{address} was never deleted: register it instead"
    return ""


def _parent_refusal(verb: str, address: Address, state_of: Callable[[Address], str | None]) -> str:
    parent = address.parent
    # The instance always exists, even without a row.
    if parent is None or parent.kind == "instance":
        return ""
    state = state_of(parent)
    if state == State.LIVE:
        return ""
    words = {None: "is not registered", State.PLANNED: "is only planned", State.DELETED: "was deleted"}[state]
    remedy = "recreate" if state == State.DELETED else "register"
    participle = {"register": "registered", "recreate": "recreated"}[verb]
    return f"{address} cannot be {participle}: {parent}, which contains it, {words}; {remedy} {parent} first"
