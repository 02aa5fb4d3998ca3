"""Evaluate the decisions that changes can change, before and after them.

1. Number the affected users (`situations`).
2. Find the affected entities: the changed entities, the entities whose rules read the grants on a changed
   container, and the containers whose rules read the grants inside them.
3. Load the grants of the affected users on these entities and their containers, as masks of users
(`holders`).
4. Evaluate each requirement once for all users (`masks`). Entities with the same holders share the result.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.patterns import containers_revealed_by
from entities.vocabulary import CONTAINER_KINDS, Privilege
from grants.change_set import ActivateGeneration
from grants.effects.changes import EffectChange, changes_at, effect_times
from grants.effects.holders import NUMBERS, AffectedHolders, HeldMasks
from grants.effects.kind_rules import KindRules, dependent_kinds, rule_pairs, rules_by_kind
from grants.effects.masks import UserMasks, users_meeting
from grants.effects.nodes import (
    ROWS_PER_STATEMENT,
    Node,
    NodeTable,
    SizeLimit,
    UnlimitedSize,
    batches,
    is_live,
    order_of,
)
from grants.effects.situations import AffectedUsers, affected_users
from grants.models import grants_by_type
from grants.policies.grammar import HasOnAllLive, Scope
from grants.policies.policy import Generation
from grants.validity import at_time, in_force, question_time

# of an affected user and an entity whose holders are loaded at the same time
MAX_PAIRS_PER_BATCH = 50_000_000


@frozen
class OperationEffect:
    """The users that gain and lose operations with the same requirement.

    personal: the users for whom memberships and activations alone have this effect.
    reference: the users to whom the reference generation permits the operations before the changes.
    needs_no_grant: whether the operations are permitted without any grant where they are permitted, because nothing is there
    that they act on.
    """

    operations: tuple[str, ...]
    gained: int
    lost: int
    personal: int
    reference: int = 0
    needs_no_grant: bool = False


@frozen
class EntityEffect:
    """The changed decisions about one entity."""

    address: Address
    operations: tuple[OperationEffect, ...]


@frozen
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


def evaluation_by_namespace(
    changes: Sequence[EffectChange],
    generation: Generation,
    reference: Generation | None,
    on_progress: Callable[[int, int], None],
) -> EffectEvaluation:
    """Return the evaluation at the time of the question, without limits, for jobs.

    changes: see `changes_at`. Its `entities` are computed while they are iterated, once, namespace by
    namespace. Besides the changes, memory holds the entities of one namespace, and the grants on at most
    MAX_PAIRS_PER_BATCH pairs of a user and an entity.
    on_progress: called between batches, with the number of evaluated namespaces and of all namespaces. Its
    exceptions end the evaluation.
    """
    affected, evaluator = _evaluator(changes, generation, reference, UnlimitedSize())
    entities = evaluator.entity_effects_by_namespace(on_progress) if evaluator else iter(())
    return EffectEvaluation(affected, entities, question_time(), changes)


def _evaluate(
    changes: Iterable[EffectChange], generation: Generation, reference: Generation | None, at: datetime
) -> EffectEvaluation:
    with at_time(at):
        changes = changes_at(changes, at)
        affected, evaluator = _evaluator(changes, generation, reference)
        entities = list(evaluator.entity_effects()) if evaluator else []
        return EffectEvaluation(affected, entities, at, changes)


def _evaluator(
    changes: Sequence[EffectChange],
    generation: Generation,
    reference: Generation | None,
    limit: SizeLimit | None = None,
) -> tuple[AffectedUsers, "_Evaluator | None"]:
    """Return the affected users and an evaluator; None if there are none."""
    affected = affected_users(changes)
    if not affected.names:
        return affected, None
    rules, after = rules_by_kind(generation), None
    for change in changes:
        if isinstance(change, ActivateGeneration):
            rules = rules_by_kind(generation, (change.generation,))
            after = rules_by_kind(change.generation, (generation,))
    rules_of_reference = rules_by_kind(reference) if reference else None
    limit = limit or SizeLimit(len(affected.names))
    return affected, _Evaluator(affected, rules, rules_of_reference, after, limit)


class _Evaluator:
    """Evaluate the decisions about all affected entities. rules_after: the rules after the changes, if they
    change the generation."""

    def __init__(
        self,
        affected: AffectedUsers,
        rules: dict[str, KindRules],
        reference: dict[str, KindRules] | None,
        rules_after: dict[str, KindRules] | None,
        limit: SizeLimit,
    ):
        self.affected, self.rules, self.reference, self.rules_after = affected, rules, reference, rules_after
        # the bit of a user without grants, after those of all users
        self.nobody = 1 << len(affected.names)
        self.rule_pairs = {
            kind: rule_pairs(of_kind, rules_after[kind] if rules_after else of_kind)
            for kind, of_kind in rules.items()
        }
        self.nodes = NodeTable(limit)
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
        for pattern in filter(lambda address: address.is_pattern, changed):
            rows = containers_revealed_by(pattern).values("pk")
            self._changed += self.nodes.load_rows(pk__in=rows)

    def entity_effects(self) -> Iterator[EntityEffect]:
        """Yield the changed decisions by kind and key."""
        changed = [*self._changed, *self._nodes_of_changed_principals({})]
        yield from self._effects_on(self._affected_pks(changed, {}))

    def entity_effects_by_namespace(self, on_progress: Callable[[int, int], None]) -> Iterator[EntityEffect]:
        """Yield the changed decisions by namespace, and in a namespace by kind and key; see
        `evaluation_by_namespace`.
        """
        kept = frozenset(self.nodes.by_pk)
        named: dict[int | None, list[Node]] = {None: []}
        for node in self._changed:
            named.setdefault(node.namespace, []).append(node)
        outside = [*named[None], *self._nodes_of_changed_principals({"namespace": None})]
        is_everywhere = (
            self.rules_after is not None
            or self.affected.is_known_changed
            or bool(self.affected.changed)
            or any(node.kind == "instance" for node in outside)
        )
        stored = Entity.objects.filter(kind="namespace").order_by("key").values_list("pk", flat=True)
        namespaces = list(dict.fromkeys([None, *stored, *named])) if is_everywhere else list(named)
        for done, namespace in enumerate(namespaces):

            def check(done: int = done) -> None:
                on_progress(done, len(namespaces))

            check()
            where = {"namespace": namespace}
            changed = [*outside, *(named.get(namespace, ()) if namespace else ())]
            changed += self._nodes_of_changed_principals(where) if namespace else ()
            pks = self._affected_pks(changed, where)
            if namespace is None and self.nodes.instance is not None:
                # any of the changes inside can change a decision about it
                pks.add(self.nodes.instance)
            yield from self._effects_on(pks, check)
            self.nodes.keep_only(kept)
            self.holders.forget_all()
            self.inside.clear()
            self.all_live.clear()
            self._results.clear()

    def _effects_on(self, pks: set[int], check: Callable[[], None] = lambda: None) -> Iterator[EntityEffect]:
        ordered = sorted((self.nodes.by_pk[pk] for pk in pks), key=order_of)
        self.nodes.load_pks(self._container_pks(ordered))
        self.holders.load(self._container_pks(ordered))
        size = min(ROWS_PER_STATEMENT, max(1, MAX_PAIRS_PER_BATCH // len(self.affected.names)))
        for batch in batches(ordered, size):
            check()
            self.holders.load(node.pk for node in batch)
            self._load_containers(batch)
            for node in batch:
                if operations := self._operations(node):
                    yield EntityEffect(node.address, operations)
            self.holders.forget(node.pk for node in batch if node.kind not in CONTAINER_KINDS)
            if size < ROWS_PER_STATEMENT:
                self._results.clear()

    def _affected_pks(self, changed: Iterable[Node], where: dict) -> set[int]:
        """Return the entities about which a decision can change.

        changed: the entities with a changed state or with changed holders. where: a condition on entities, by
        which the others are selected.
        """
        other_rules = set()
        if self.rules_after is not None:
            rows = self._live_rows(kind__in=self._kinds_with_other_rules(), **where)
            other_rules = {node.pk for node in rows}
        nodes = {node.pk: node for node in changed}
        rules = [*self.rules.values(), *(self.rules_after or {}).values()]
        depending_on_inside = {of_kind.kind for of_kind in rules if of_kind.depends_on_inside}
        self.nodes.load_pks(self._container_pks(nodes.values()))
        containers = (self.nodes.by_pk[pk] for pk in self._container_pks(nodes.values()))
        pks = {
            node.pk
            for node in (
                *nodes.values(),
                *(node for node in containers if node.kind in depending_on_inside),
            )
            if "namespace" not in where or node.namespace == where["namespace"]
        }
        for kind in CONTAINER_KINDS:
            dependents = dependent_kinds(kind, rules)
            of_kind = [node.pk for node in nodes.values() if node.kind == kind]
            if dependents and of_kind:
                inside = {} if kind == "instance" else {f"{kind}__pk__among": of_kind}
                pks |= {node.pk for node in self._live_rows(kind__in=dependents, **inside, **where)}
        if self.affected.is_known_changed:
            open_kinds = {of_kind.kind for of_kind in rules if of_kind.is_open}
            pks |= {node.pk for node in self._live_rows(kind__in=open_kinds, **where)}
        return pks | other_rules

    def _kinds_with_other_rules(self) -> list[str]:
        return [
            kind
            for kind, pairs in self.rule_pairs.items()
            if any(before != after for before, after, _ in pairs)
        ]

    def _live_rows(self, **where) -> list[Node]:
        return self.nodes.load_rows(state=State.LIVE, **where)

    def _nodes_of_changed_principals(self, where: dict) -> Iterator[Node]:
        """Yield the entities with a grant of a group with changed members, or of an activated or deactivated
        user. where: a condition on them.
        """
        for _, grants in grants_by_type(self.affected.changed):
            pks = grants.filter(**in_force()).order_by().values("content_object_id")
            yield from self.nodes.load_rows(pk__in=pks, **where)

    def _container_pks(self, nodes: Iterable[Node]) -> set[int]:
        """Return the containers of the entities."""
        pks = {pk for node in nodes for pk in (node.parent, node.namespace, node.application)}
        return {pk for pk in (*pks, self.nodes.instance) if pk is not None}

    def _load_containers(self, nodes: Sequence[Node]) -> None:
        """Load the data about the entities inside these containers that decisions about the containers depend
        on.
        """
        of_kinds = [node for node in nodes if node.kind in CONTAINER_KINDS]
        # one that is not registered contains only what becomes live with it
        containers = [node for node in of_kinds if node.pk > 0 or self.holders.has_changes_inside(node)]
        for rules in filter(None, (self.rules, self.reference, self.rules_after)):
            self.inside |= self.holders.held_inside(
                [node for node in of_kinds if rules[node.kind].is_below and node.pk not in self.inside]
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
            met = [
                users_meeting(requirement, source) if is_in_situation else 0
                for requirement, source, is_in_situation in zip(requirements, sources, live, strict=False)
            ]
            masks = [
                mask & situation.known for mask, situation in zip(met, self.affected.situations, strict=False)
            ]
            gained, lost = masks[1] & ~masks[0], masks[0] & ~masks[1]
            if gained or lost:
                personal = (gained & masks[2] | lost & ~masks[2]) if len(masks) > 2 else 0
                permitting = (met[1] if gained else self.nobody) & (met[0] if lost else self.nobody)
                results += [
                    OperationEffect(names, gained, lost, personal, reference, bool(permitting & self.nobody))
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


@dataclass(slots=True)
class _Source(UserMasks):
    """The masks around one entity in one situation."""

    evaluator: _Evaluator
    node: Node
    position: int
    own: tuple[int, ...]
    everyone: int = field(init=False)

    def __post_init__(self) -> None:
        self.everyone = self.evaluator.affected.everyone | self.evaluator.nobody

    def always(self) -> int:
        # what is always permitted is no exception
        return self.evaluator.affected.everyone

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> int:
        held = self.own
        if scope != Scope.SELF:
            pk = self.node.pk_at(scope, self.evaluator.nodes.instance)
            held = self.evaluator.holders.holders_on(pk)[self.position]
        mask = 0
        for privilege in privileges:
            mask |= held[NUMBERS[privilege]]
        return mask

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
