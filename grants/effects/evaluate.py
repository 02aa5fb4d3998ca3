"""Evaluate the decisions that changes can change, before and after them.

1. Number the affected users (`situations`).
2. Find the affected entities: the changed entities, the entities whose rules read the grants on a changed
   container, and the containers whose rules read the grants inside them.
3. Load the grants of the affected users on these entities and their containers, as masks of users
(`holders`).
4. Evaluate each requirement once for all users (`masks`). Entities with the same holders share the result.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import QuerySet

from entities.address import Address
from entities.models import State
from entities.vocabulary import CONTAINER_KINDS, Privilege
from grants.change_set import ActivateGeneration
from grants.effects.changes import EffectChange, changes_at, effect_times
from grants.effects.holders import NUMBERS, AffectedHolders, HeldMasks
from grants.effects.kind_rules import KindRules, dependent_kinds, rules_by_kind
from grants.effects.masks import UserMasks, users_meeting
from grants.effects.nodes import Node, NodeTable, SizeLimit, batches, is_live, order_of
from grants.effects.situations import AffectedUsers, affected_users
from grants.models import GRANT_TABLES
from grants.policies.grammar import Expression, HasOnAllLive, Scope
from grants.policies.policy import Generation
from grants.validity import at_time, in_force, question_time


@dataclass(frozen=True, slots=True)
class OperationEffect:
    """The users that gain and lose operations with the same requirement.

    personal: the users for whom memberships and activations alone have this effect.
    reference: the users to whom the reference generation permits the operations before the changes.
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
class EffectEvaluation:
    """The result of `evaluate_changes`. entities: by kind and key. at: the time of the decisions.

    changes: as they count at this time.
    """

    affected: AffectedUsers
    entities: Iterable[EntityEffect]
    at: datetime = field(default_factory=question_time)
    changes: Sequence[EffectChange] = ()


def evaluate_changes(
    changes: Iterable[EffectChange],
    generation: Generation,
    reference: Generation | None = None,
    at: datetime | None = None,
) -> EffectEvaluation:
    """Return the decisions about live entities that are different after the changes, in a generation.

    reference: also return what this generation permits before the changes.
    at: the time of the decisions. By default, this is the time of the question or, if nothing changes at that
    time, the first later time at which a change begins. An entity that is not live counts as denied. The
    number of queries depends on the number of affected entities in steps of `nodes.ROWS_PER_STATEMENT`, and
    on the number of requirements over all live entities. Raise EffectTooLarge above the limits of the
    settings.
    """
    changes = list(changes)
    times = [at] if at else effect_times(changes)[:2]
    evaluations = (_evaluate(changes, generation, reference, time) for time in times)
    evaluation = next(evaluations)
    return evaluation if evaluation.entities else next(evaluations, evaluation)


def _evaluate(
    changes: Iterable[EffectChange], generation: Generation, reference: Generation | None, at: datetime
) -> EffectEvaluation:
    with at_time(at):
        changes = changes_at(changes, at)
        affected = affected_users(changes)
        if not affected.names:
            return EffectEvaluation(affected, [], at, changes)
        rules, after = rules_by_kind(generation), None
        for change in changes:
            if isinstance(change, ActivateGeneration):
                rules = rules_by_kind(generation, (change.generation,))
                after = rules_by_kind(change.generation, (generation,))
        evaluator = _Evaluator(affected, rules, rules_by_kind(reference) if reference else None, after)
        return EffectEvaluation(affected, list(evaluator.entity_effects()), at, changes)


class _Evaluator:
    """Evaluate the decisions about all affected entities. rules_after: the rules after the changes, if they
    change the generation."""

    def __init__(
        self,
        affected: AffectedUsers,
        rules: dict[str, KindRules],
        reference: dict[str, KindRules] | None,
        rules_after: dict[str, KindRules] | None,
    ):
        self.affected, self.rules, self.reference, self.rules_after = affected, rules, reference, rules_after
        self.rule_pairs = {
            kind: _rule_pairs(of_kind, rules_after[kind] if rules_after else of_kind)
            for kind, of_kind in rules.items()
        }
        self.nodes = NodeTable(SizeLimit(len(affected.names)))
        changed = {
            address
            for situation in affected.situations
            for _, address, _ in situation.added | situation.removed
        }
        self.nodes.limit.add_entities(len(changed | affected.after.states.keys()))
        self.nodes.load_addresses(changed | affected.after.states.keys())
        self.holders = AffectedHolders(affected, self.nodes)
        self.inside: dict[int, list[int]] = {}
        self.all_live: dict[tuple[int, HasOnAllLive], list[int]] = {}
        self._results: dict[tuple, tuple[OperationEffect, ...]] = {}
        self._changed = [self.nodes.by_address[address] for address in changed | affected.after.states.keys()]

    def entity_effects(self) -> Iterator[EntityEffect]:
        ordered = sorted((self.nodes.by_pk[pk] for pk in self._affected_pks()), key=order_of)
        self.nodes.load_pks(self._container_pks(ordered))
        self.holders.load(self._container_pks(ordered))
        for batch in batches(ordered):
            self.holders.load(node.pk for node in batch)
            self._load_containers(batch)
            for node in batch:
                if operations := self._operations(node):
                    yield EntityEffect(node.address, operations)
            self.holders.forget(node.pk for node in batch if node.kind not in CONTAINER_KINDS)

    def _affected_pks(self) -> set[int]:
        """Return the entities about which a decision can change."""
        if self.rules_after is not None:
            return {
                node.pk
                for node in self.nodes.load_rows(kind__in=self._kinds_with_other_rules(), state=State.LIVE)
            }
        changed = {node.pk: node for node in self._changed}
        changed |= {node.pk: node for node in self._nodes_of_changed_principals()}
        self.nodes.load_pks(self._container_pks(changed.values()))
        pks = set(changed)
        for node in changed.values():
            pks |= {
                pk
                for pk in self._container_pks([node])
                if self.rules[self.nodes.by_pk[pk].kind].depends_on_inside
            }
        for kind in CONTAINER_KINDS:
            dependents = dependent_kinds(kind, self.rules.values())
            containers = [node.pk for node in changed.values() if node.kind == kind]
            if dependents and containers:
                where = {} if kind == "instance" else {f"{kind}__pk__among": containers}
                pks |= {node.pk for node in self._live_rows(kind__in=dependents, **where)}
        if self.affected.is_known_changed:
            open_kinds = [kind for kind, rules in self.rules.items() if rules.is_open]
            pks |= {node.pk for node in self._live_rows(kind__in=open_kinds)}
        return pks

    def _kinds_with_other_rules(self) -> list[str]:
        return [
            kind
            for kind, pairs in self.rule_pairs.items()
            if any(before != after for before, after, _ in pairs)
        ]

    def _live_rows(self, **where) -> list[Node]:
        return self.nodes.load_rows(state=State.LIVE, **where)

    def _nodes_of_changed_principals(self) -> Iterator[Node]:
        """Yield the entities with a grant of a group with changed members, or of an activated or deactivated
        user.
        """
        for principal_type, (model, _) in GRANT_TABLES.items():
            principals = [pk for type_, pk in self.affected.changed if type_ == principal_type]
            if principals:
                of_principals = {f"{principal_type}__pk__among": principals}
                grants: QuerySet = model.objects.filter(**of_principals, **in_force()).order_by()
                yield from self.nodes.load_rows(pk__in=grants.values("content_object_id"))

    def _container_pks(self, nodes: Iterable[Node]) -> set[int]:
        """Return the containers of the entities."""
        pks = {pk for node in nodes for pk in (node.parent, node.namespace, node.application)}
        return {pk for pk in (*pks, self.nodes.instance) if pk is not None}

    def _load_containers(self, nodes: Sequence[Node]) -> None:
        """Load the data about the entities inside these containers that decisions about the containers depend
        on.
        """
        containers = [node for node in nodes if node.kind in CONTAINER_KINDS and node.pk > 0]
        for rules in filter(None, (self.rules, self.reference, self.rules_after)):
            self.inside |= self.holders.held_inside(
                [node for node in containers if rules[node.kind].is_below and node.pk not in self.inside]
            )
            for leaf in {leaf for node in containers for leaf in rules[node.kind].all_live}:
                depending = [node for node in containers if leaf in rules[node.kind].all_live]
                masks = self.holders.held_on_all_live(
                    [node for node in depending if (node.pk, leaf) not in self.all_live], leaf
                )
                self.all_live |= {(pk, leaf): of_container for pk, of_container in masks.items()}

    def _operations(self, node: Node) -> tuple[OperationEffect, ...]:
        live = tuple(is_live(node, situation.states) for situation in self.affected.situations)
        held = self.holders.holders_on(node.pk)
        if node.kind in CONTAINER_KINDS:
            return self._evaluate_operations(node, live, held)
        key = (node.kind, node.parent, node.application, node.namespace, live, held)
        if key not in self._results:
            self._results[key] = self._evaluate_operations(node, live, held)
        return self._results[key]

    def _evaluate_operations(
        self, node: Node, live: tuple[bool, ...], held: HeldMasks
    ) -> tuple[OperationEffect, ...]:
        results = []
        sources = [_Source(self, node, position, of_situation) for position, of_situation in enumerate(held)]
        for before, after, operations in self.rule_pairs[node.kind]:
            requirements = (before, after, after)
            masks = [
                users_meeting(requirement, source) & situation.known if is_in_situation else 0
                for requirement, source, situation, is_in_situation in zip(
                    requirements, sources, self.affected.situations, live, strict=False
                )
            ]
            gained, lost = masks[1] & ~masks[0], masks[0] & ~masks[1]
            if gained or lost:
                personal = (gained & masks[2] | lost & ~masks[2]) if len(masks) > 2 else 0
                results += [
                    OperationEffect(names, gained, lost, personal, reference)
                    for reference, names in self._by_reference(node, operations, sources[0])
                ]
        return tuple(results)

    def _by_reference(
        self, node: Node, operations: tuple[str, ...], source: "_Source"
    ) -> list[tuple[int, tuple[str, ...]]]:
        """Group operations by the users to whom the reference generation permits them before the changes."""
        if self.reference is None:
            return [(0, operations)]
        masks = {
            operation: users_meeting(requirement, source) & self.affected.before.known
            for requirement, names in self.reference[node.kind].rules
            for operation in names
            if operation in operations
        }
        by_mask: dict[int, list[str]] = {}
        for operation in operations:
            by_mask.setdefault(masks.get(operation, 0), []).append(operation)
        return [(mask, tuple(names)) for mask, names in by_mask.items()]


def _rule_pairs(before: KindRules, after: KindRules) -> list[tuple[Expression, Expression, tuple[str, ...]]]:
    """Return the requirements of operations before and after the changes. Operations without a rule in one of
    the states are left out."""
    operations: dict[tuple[Expression, Expression], list[str]] = {}
    requirements = {name: requirement for requirement, names in after.rules for name in names}
    for requirement, names in before.rules:
        for name in names:
            if name in requirements:
                operations.setdefault((requirement, requirements[name]), []).append(name)
    return [(*pair, tuple(names)) for pair, names in operations.items()]


@dataclass(slots=True)
class _Source(UserMasks):
    """The masks around one entity in one situation."""

    evaluator: _Evaluator
    node: Node
    position: int
    own: tuple[int, ...]
    everyone: int = field(init=False)

    def __post_init__(self) -> None:
        self.everyone = self.evaluator.affected.everyone

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> int:
        held = self.own if scope == Scope.SELF else self._held_at(scope)
        mask = 0
        for privilege in privileges:
            mask |= held[NUMBERS[privilege]]
        return mask

    def _held_at(self, scope: Scope) -> tuple[int, ...]:
        pks = {
            Scope.PARENT: self.node.parent,
            Scope.NAMESPACE: self.node.namespace,
            Scope.APPLICATION: self.node.application,
            Scope.INSTANCE: self.evaluator.nodes.instance,
        }
        return self.evaluator.holders.holders_on(pks.get(scope))[self.position]

    def has_at_or_below(self) -> int:
        if self.node.kind in CONTAINER_KINDS:
            return (
                self.evaluator.inside[self.node.pk][self.position]
                if self.node.pk in self.evaluator.inside
                else 0
            )
        return self.has(tuple(NUMBERS), Scope.SELF)

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> int:
        masks = self.evaluator.all_live.get((self.node.pk, HasOnAllLive(privilege, kind)))
        return self.everyone if masks is None else masks[self.position] & self.everyone
