"""What registering, deleting or recreating an entity would do, counted before it is done.

`grants.lifecycle.services` asks here too, so that what is foretold is what happens.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from django.db.models import Count, QuerySet

from entities.address import Address
from entities.models import Entity, State
from entities.selectors import children_of, entity_at, subtree_of
from entities.services import instance_fault
from entities.vocabulary import KINDS, Privilege
from grants.active_generation import active_generation
from grants.models import GRANT_TABLES, NAME_COLUMNS, GroupGrant, UserGrant, privilege_of
from grants.policies.catalogue import generation_by_name
from grants.policies.policy import Generation

VERBS = ("register", "delete", "recreate")


@dataclass(frozen=True, slots=True)
class LifecycleForecast:
    """What `verb` on `address` would do in a generation.

    refusal: why it cannot be done; then the rest is empty. entities: how many change, by kind. planned_inside: planned
    entities inside, which stay planned. grants_removed and grants_kept: one privilege of one principal each, on the entities
    that are deleted. applying: who holds what on the address already, which counts from then on; by name.
    creator_receives: what a creator is given.
    """

    verb: str
    address: Address
    generation: Generation
    refusal: str = ""
    entities: dict[str, int] = field(default_factory=dict)
    planned_inside: int = 0
    grants_removed: int = 0
    grants_kept: int = 0
    applying: tuple[tuple[str, tuple[Privilege, ...]], ...] = ()
    creator_receives: tuple[Privilege, ...] = ()

    @property
    def entities_total(self) -> int:
        return sum(self.entities.values())

    @property
    def grants_applying(self) -> int:
        return sum(len(privileges) for _, privileges in self.applying)


def lifecycle_forecast(address: Address, verb: str, generation: Generation | str | None = None) -> LifecycleForecast:
    """The generation is the active one unless another is named. At most seven statements; only `applying` is loaded.

    Raises UnknownGeneration.
    """
    if verb not in VERBS:
        raise ValueError(f"`{verb}` is not one of {', '.join(VERBS)}")
    rules, entity = resolve_generation(generation), entity_at(address)
    refusal = _refusal(verb, address, entity)
    if refusal:
        return LifecycleForecast(verb, address, rules, refusal)
    return _of_delete(address, entity, rules) if verb == "delete" else _of_live(verb, address, entity, rules)


def resolve_generation(generation: Generation | str | None) -> Generation:
    """The generation given or named; the active one for None. Raises UnknownGeneration."""
    if isinstance(generation, Generation):
        return generation
    return active_generation() if generation is None else generation_by_name(generation)


def live_subtree(entity: Entity) -> QuerySet[Entity]:
    """What goes when it is deleted: itself and the live entities in it."""
    return subtree_of(entity).filter(state=State.LIVE)


def grants_on(entities: QuerySet[Entity]) -> list[QuerySet]:
    """The grants of users and those of groups."""
    return [model.objects.filter(content_object__in=entities.values("pk")) for model in (UserGrant, GroupGrant)]


def _of_delete(address: Address, entity: Entity, rules: Generation) -> LifecycleForecast:
    if entity.state == State.PLANNED:
        return LifecycleForecast("delete", address, rules, entities={address.kind: 1})
    doomed = live_subtree(entity)
    found = dict(doomed.order_by().values_list("kind").annotate(Count("pk")))
    grants = sum(held.count() for held in grants_on(doomed))
    removed = grants if rules.deleting_removes_grants else 0
    return LifecycleForecast("delete", address, rules, entities={kind: found[kind] for kind in KINDS if kind in found},
                    planned_inside=subtree_of(entity).filter(state=State.PLANNED).count(),
                    grants_removed=removed, grants_kept=grants - removed)


def _of_live(verb: str, address: Address, entity: Entity | None, rules: Generation) -> LifecycleForecast:
    applying = _held_on(entity) if entity is not None else {}
    return LifecycleForecast(verb, address, rules, entities={address.kind: 1},
                    applying=tuple((name, tuple(applying[name])) for name in sorted(applying)),
                    creator_receives=rules.creator_receives)


def _held_on(entity: Entity) -> dict[str, list[Privilege]]:
    held: dict[str, list[Privilege]] = {}
    for name, permission in _holders(entity):
        held.setdefault(name, []).append(privilege_of(permission))
    return {name: [privilege for privilege in Privilege if privilege in privileges] for name, privileges in held.items()}


def _holders(entity: Entity) -> Iterator[tuple[str, int]]:
    for kind, (model, _) in GRANT_TABLES.items():
        for name, permission in model.objects.filter(content_object=entity).values_list(NAME_COLUMNS[kind], "permission_id"):
            yield f"{kind}:{name}", permission


def _refusal(verb: str, address: Address, entity: Entity | None) -> str:
    if fault := instance_fault(address):
        return fault
    if verb == "delete":
        return _delete_refusal(address, entity)
    return _state_refusal(verb, address, entity) or _parent_refusal(verb, address)


def _delete_refusal(address: Address, entity: Entity | None) -> str:
    if address.kind == "instance":
        return f"{address} cannot be deleted: it is the platform itself"
    if entity is None:
        return f"{address} is not registered: there is nothing to delete"
    if entity.state == State.PLANNED:
        return _planned_refusal(address, entity)
    return "" if entity.is_live else f"{address} was deleted already"


def _planned_refusal(address: Address, entity: Entity) -> str:
    """What stands for nothing, neither for a grant nor for something in it, may go."""
    planned = f"{address} is planned and does not exist yet: there is nothing to delete"
    if any(grants.exists() for grants in grants_on(Entity.objects.filter(pk=entity.pk))):
        return f"{planned}; revoke the grants on it instead"
    inside = children_of(entity).first()
    return f"{planned}, and {inside}, which lies in it, keeps its address" if inside else ""


def _state_refusal(verb: str, address: Address, entity: Entity | None) -> str:
    if entity is not None and entity.is_live:
        return f"{address} is live already: nothing changed"
    was_deleted = entity is not None and entity.state == State.DELETED
    if verb == "register" and was_deleted:
        return f"{address} was deleted: recreate it instead; the grants that stayed on it apply again then"
    if verb == "recreate" and not was_deleted:
        return f"{address} was never deleted: register it instead"
    return ""


def _parent_refusal(verb: str, address: Address) -> str:
    parent = address.parent
    # whatever exists in the instance proves that the instance does
    if parent is None or parent.kind == "instance":
        return ""
    row = entity_at(parent)
    if row is not None and row.is_live:
        return ""
    state = "is not registered" if row is None else "is only planned" if row.state == State.PLANNED else "was deleted"
    remedy = "recreate" if row is not None and row.state == State.DELETED else "register"
    does = {"register": "registered", "recreate": "recreated"}[verb]
    return f"{address} cannot be {does}: {parent}, which contains it, {state}; {remedy} {parent} first"
