"""Evaluate the decisions that changes can change, before and after them.

1. Number the affected users (`situations`).
2. Find the affected entities: the changed ones, those for which a grant on a changed container counts, and the containers
   about which a decision depends on what is inside.
3. Load the grants of the affected users on these entities and their containers, as masks of users (`holders`).
4. Evaluate each requirement once for all users (`masks`). Entities with the same holders share the result.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from django.db.models import QuerySet

from entities.address import Address
from entities.models import State
from entities.vocabulary import CONTAINER_KINDS, Privilege
from grants.effects.changes import EffectChange
from grants.effects.holders import NUMBERS, HeldMasks, Holders
from grants.effects.kind_rules import KindRules, dependent_kinds, rules_by_kind
from grants.effects.masks import users_meeting
from grants.effects.nodes import Node, NodeTable, SizeLimit, batches, is_live, order_of
from grants.effects.situations import AffectedUsers, affected_users
from grants.models import GRANT_TABLES
from grants.policies.grammar import HasOnAllLive, Scope
from grants.policies.policy import Generation


@dataclass(frozen=True, slots=True)
class OperationEffect:
    """The users that gain and lose operations with the same requirement.

    personal: the users with the same decision if only memberships and activations change.
    reference: the users that the reference generation permits the operations before the changes.
    """

    operations: tuple[str, ...]
    gained: int
    lost: int
    personal: int
    reference: int = 0


@dataclass(frozen=True, slots=True)
class EntityEffect:
    """The changed decisions about one entity."""

    address: Address
    operations: tuple[OperationEffect, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of `evaluate_changes`. entities: by kind and key."""

    cast: AffectedUsers
    entities: list[EntityEffect]


def evaluate_changes(changes: Iterable[EffectChange], generation: Generation,
                     reference: Generation | None = None) -> Evaluation:
    """Return all decisions about live entities that the changes change, in a generation.

    reference: also return what this generation permits before the changes.
    An entity that is not live counts as denied. The number of queries depends on the number of affected entities in steps of
    `nodes.ROWS_PER_STATEMENT`, and on the number of requirements over all live entities.
    Raise EffectTooLarge above the limits of the settings.
    """
    changes = list(changes)
    cast = affected_users(changes)
    if not cast.names:
        return Evaluation(cast, [])
    rules = rules_by_kind(generation)
    return Evaluation(cast, _Evaluator(cast, rules, rules_by_kind(reference) if reference else None).entity_effects())


class _Evaluator:
    def __init__(self, cast: AffectedUsers, rules: dict[str, KindRules], reference: dict[str, KindRules] | None):
        self.cast, self.rules, self.reference = cast, rules, reference
        self.nodes = NodeTable(SizeLimit())
        changed = {address for situation in cast.situations for _, address, _ in situation.added | situation.removed}
        self.nodes.load_addresses(changed | cast.after.states.keys())
        self.holders = Holders(cast, self.nodes)
        self.inside: dict[int, list[int]] = {}
        self.all_live: dict[tuple[int, HasOnAllLive], list[int]] = {}
        self._results: dict[tuple, tuple[OperationEffect, ...]] = {}
        self._changed = [self.nodes.by_address[address] for address in changed | cast.after.states.keys()]

    def entity_effects(self) -> list[EntityEffect]:
        pks = self._affected_pks()
        effects: list[EntityEffect] = []
        ordered = sorted((self.nodes.by_pk[pk] for pk in pks), key=order_of)
        self.nodes.load_pks(self._container_pks(ordered))
        self.holders.load(self._container_pks(ordered))
        for batch in batches(ordered):
            self.holders.load(node.pk for node in batch)
            self._load_containers(batch)
            for node in batch:
                if operations := self._operations(node):
                    effects.append(EntityEffect(node.address, operations))
            self.holders.forget(node.pk for node in batch if node.kind not in CONTAINER_KINDS)
        return effects

    def _affected_pks(self) -> set[int]:
        """Return the entities about which a decision can change."""
        changed = {node.pk: node for node in self._changed}
        changed |= {node.pk: node for node in self._nodes_of_changed_principals()}
        self.nodes.load_pks(self._container_pks(changed.values()))
        affected = set(changed)
        for node in changed.values():
            affected |= {pk for pk in self._container_pks([node]) if self.rules[self.nodes.by_pk[pk].kind].depends_on_inside}
        for kind in CONTAINER_KINDS:
            dependents = dependent_kinds(kind, self.rules.values())
            containers = [node.pk for node in changed.values() if node.kind == kind]
            if dependents and containers:
                where = {} if kind == "instance" else {f"{kind}__pk__among": containers}
                affected |= {node.pk for node in self.nodes.load_rows(kind__in=dependents, state=State.LIVE, **where)}
        if self.cast.is_known_changed:
            open_kinds = [kind for kind, rules in self.rules.items() if rules.is_open]
            affected |= {node.pk for node in self.nodes.load_rows(kind__in=open_kinds, state=State.LIVE)}
        return affected

    def _nodes_of_changed_principals(self) -> Iterator[Node]:
        """Yield the entities with a grant of a group with changed members, or of an activated or deactivated user."""
        for principal_type, (model, _) in GRANT_TABLES.items():
            principals = [pk for type_, pk in self.cast.changed if type_ == principal_type]
            if principals:
                grants: QuerySet = model.objects.filter(**{f"{principal_type}__pk__among": principals}).order_by()
                yield from self.nodes.load_rows(pk__in=grants.values("content_object_id"))

    def _container_pks(self, nodes: Iterable[Node]) -> set[int]:
        """Return the containers of the entities."""
        pks = {pk for node in nodes for pk in (node.parent, node.namespace, node.application)}
        return {pk for pk in (*pks, self.nodes.instance) if pk is not None}

    def _load_containers(self, nodes: Sequence[Node]) -> None:
        """Load what the decisions about these containers need to know about the entities inside them."""
        containers = [node for node in nodes if node.kind in CONTAINER_KINDS and node.pk > 0]
        for rules in filter(None, (self.rules, self.reference)):
            self.inside |= self.holders.held_inside([
                node for node in containers if rules[node.kind].is_below and node.pk not in self.inside])
            for leaf in {leaf for node in containers for leaf in rules[node.kind].all_live}:
                depending = [node for node in containers if leaf in rules[node.kind].all_live]
                masks = self.holders.held_on_all_live([node for node in depending if (node.pk, leaf) not in self.all_live], leaf)
                self.all_live |= {(pk, leaf): of_container for pk, of_container in masks.items()}

    def _operations(self, node: Node) -> tuple[OperationEffect, ...]:
        live = tuple(is_live(node, situation.states) for situation in self.cast.situations)
        held = self.holders.held(node.pk)
        if node.kind in CONTAINER_KINDS:
            return self._evaluated(node, live, held)
        key = (node.kind, node.parent, node.application, node.namespace, live, held)
        if key not in self._results:
            self._results[key] = self._evaluated(node, live, held)
        return self._results[key]

    def _evaluated(self, node: Node, live: tuple[bool, ...], held: HeldMasks) -> tuple[OperationEffect, ...]:
        results = []
        sources = [_Source(self, node, position, of_situation) for position, of_situation in enumerate(held)]
        for requirement, operations in self.rules[node.kind].rules:
            masks = [users_meeting(requirement, source) & situation.known if is_in_situation else 0 for source, situation,
                     is_in_situation in zip(sources, self.cast.situations, live, strict=True)]
            gained, lost = masks[1] & ~masks[0], masks[0] & ~masks[1]
            if gained or lost:
                personal = (gained & masks[2] | lost & ~masks[2]) if len(masks) > 2 else 0
                results += [OperationEffect(names, gained, lost, personal, reference)
                            for reference, names in self._by_reference(node, operations, sources[0])]
        return tuple(results)

    def _by_reference(self, node: Node, operations: tuple[str, ...], source: "_Source") -> list[tuple[int, tuple[str, ...]]]:
        """Divide operations by the users to which the reference generation permits them before the changes."""
        if self.reference is None:
            return [(0, operations)]
        masks = {operation: users_meeting(requirement, source) & self.cast.before.known
                 for requirement, names in self.reference[node.kind].rules for operation in names if operation in operations}
        by_mask: dict[int, list[str]] = {}
        for operation in operations:
            by_mask.setdefault(masks.get(operation, 0), []).append(operation)
        return [(mask, tuple(names)) for mask, names in by_mask.items()]


@dataclass(slots=True)
class _Source:
    """The holders around one entity in one situation; see `grants.effects.masks.MaskSource`."""

    evaluator: _Evaluator
    node: Node
    position: int
    own: tuple[int, ...]
    everyone: int = field(init=False)

    def __post_init__(self) -> None:
        self.everyone = self.evaluator.cast.everyone

    def holders(self, scope: Scope, privileges: tuple[Privilege, ...]) -> int:
        held = self.own if scope == Scope.SELF else self._held_at(scope)
        mask = 0
        for privilege in privileges:
            mask |= held[NUMBERS[privilege]]
        return mask

    def _held_at(self, scope: Scope) -> tuple[int, ...]:
        pks = {Scope.PARENT: self.node.parent, Scope.NAMESPACE: self.node.namespace, Scope.APPLICATION: self.node.application,
               Scope.INSTANCE: self.evaluator.nodes.instance}
        return self.evaluator.holders.held(pks.get(scope))[self.position]

    def holders_at_or_below(self) -> int:
        if self.node.kind in CONTAINER_KINDS:
            return self.evaluator.inside[self.node.pk][self.position] if self.node.pk in self.evaluator.inside else 0
        return self.holders(Scope.SELF, tuple(NUMBERS))

    def holders_on_all_live(self, privilege: Privilege, kind: str | None) -> int:
        masks = self.evaluator.all_live.get((self.node.pk, HasOnAllLive(privilege, kind)))
        return self.everyone if masks is None else masks[self.position] & self.everyone
