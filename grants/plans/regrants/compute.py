"""Compute regrants: the grants after which users may do in generation H what they may do in generation G.

A permission is one operation on one live entity for one active user. Only operations with a rule in both
generations count. A grant has a side effect if it permits something in H that is permitted neither in G, nor
in H without the plan. `narrowest` uses only grants without side effects:

1. Find the grants that could help: those that the requirements of lost permissions name.
2. Remove those that have a side effect alone, and for each user those that have one together. As no
   requirement has a negation, all subsets of the remaining grants are free of side effects.
3. Choose the fewest of the remaining grants that keep everything that all of them together would keep.

`fewest` chooses among all grants. Every decision is evaluated again with the chosen grants to count the
result.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from entities.address import Address, instance_address
from entities.vocabulary import ANY, CONTAINER_KINDS, KINDS, Privilege
from grants.change_set import Grant
from grants.effects.holders import NUMBERS
from grants.effects.kind_rules import dependent_kinds, rules_by_kind
from grants.effects.masks import bits_of, users_meeting
from grants.effects.nodes import Node
from grants.plans.minimal_grants import NewGrants, fewest_grants
from grants.plans.regrants.stages import (
    ExtraGrants,
    GrantKey,
    Stage,
    StageSource,
    Subjects,
    load_subjects,
    pk_at,
    stages,
)
from grants.plans.regrants.user_cover import StageFacts, denials_of, grants_on, grants_without_side_effects
from grants.policies.explain import MissingGrant, grant_order
from grants.policies.grammar import Expression, FactsRead, Scope
from grants.policies.policy import Generation
from grants.policies.question import Question

# by namespace, and by address and privilege: the mask of users
GrantMasks = dict[str, dict[tuple[Address, Privilege], int]]


class Prefer(StrEnum):
    """Which grants a plan prefers."""

    NARROWEST = "narrowest"
    FEWEST = "fewest"


class RulePair(NamedTuple):
    """The requirements of some operations in the generations before and after."""

    before: Expression
    after: Expression
    operations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RegrantScope:
    """The permissions to keep. users: names; None for all. namespace: a name; empty for all."""

    users: frozenset[str] | None = None
    namespace: str = ""


@dataclass(slots=True)
class Regrants:
    """The grants of a plan and their effect, in permissions.

    grants: (user, address, privilege). only_way: the number of grants without an alternative.
    is_smallest: whether it is proven that fewer grants are not enough.
    kept, kept_not: permissions of the generation before that are, or are not, permitted afterwards with the
    plan.
    lost: those that are not permitted afterwards without the plan.
    kept_not_in: `kept_not` by the name of the namespace; empty for what is outside of namespaces.
    given, taken: permissions that activating the generation after gives to and takes from all users, without
    the plan.
    given_with_plan, taken_with_plan: the same after the plan was applied.
    """

    grants: list[tuple[str, Address, Privilege]] = field(default_factory=list)
    only_way: int = 0
    is_smallest: bool = True
    kept: int = 0
    kept_not: int = 0
    beyond_gained: int = 0
    beyond_lost: int = 0
    lost: int = 0
    kept_not_in: dict[str, int] = field(default_factory=dict)
    given: int = 0
    taken: int = 0
    given_with_plan: int = 0
    taken_with_plan: int = 0

    @property
    def changes(self) -> list[Grant]:
        return [Grant(f"user:{user}", *grant) for user, *grant in self.grants]

    @property
    def activation(self) -> dict[str, int]:
        """What the activation itself changes, for the recipe of a plan."""
        return {
            "given": self.given,
            "taken": self.taken,
            "given_with_plan": self.given_with_plan,
            "taken_with_plan": self.taken_with_plan,
        }

    @property
    def counts(self) -> dict[str, int]:
        return {
            "kept": self.kept,
            "kept_not": self.kept_not,
            "beyond_gained": self.beyond_gained,
            "beyond_lost": self.beyond_lost,
        }


def users_in_scope(subjects: Subjects, scope: RegrantScope) -> int:
    """Return the mask of the users whose permissions are kept."""
    return sum(
        1 << bit for bit, name in enumerate(subjects.names) if scope.users is None or name in scope.users
    )


def compute_regrants(
    before: Generation,
    after: Generation,
    *,
    prefer: Prefer = Prefer.NARROWEST,
    scope: RegrantScope | None = None,
    max_grants: int,
) -> Regrants:
    """Return the grants that keep, in `after`, the permissions of `before`, with their effect on all active
    users.

    Reads the tenant two or three times, with three queries for each namespace; memory is that of the largest
    namespace. Raise PlanError if more than `max_grants` grants are needed.
    """
    return _Planner(before, after, prefer, scope or RegrantScope(), max_grants).regrants()


class _Planner:
    def __init__(
        self, before: Generation, after: Generation, prefer: Prefer, scope: RegrantScope, max_grants: int
    ):
        self.before, self.after, self.prefer, self.scope, self.max_grants = (
            before,
            after,
            prefer,
            scope,
            max_grants,
        )
        self.pairs = rule_pairs(before, after)
        self.after_rules = rules_by_kind(after, (before,))
        self.subjects: Subjects = load_subjects()
        self.wanted_users = users_in_scope(self.subjects, scope)
        self.result = Regrants()
        # by user: the chosen grants outside of namespaces, which also count inside them
        self._outside: dict[int, set[MissingGrant]] = defaultdict(set)

    def regrants(self) -> Regrants:
        instance = self._admissible_on_instance()
        for stage in stages(self.subjects):
            if self.scope.namespace in ("", stage.namespace):
                self._choose(stage, instance)
        self.result.grants.sort(key=lambda grant: (grant[0], grant_order(grant[1:])))
        count_effect(self.result, self.subjects, self.pairs, self.wanted_users, self.scope.namespace)
        return self.result

    def _admissible_on_instance(self) -> dict[int, int]:
        """Return, by number of the privilege, the users that may get it on the instance.

        A grant on the instance counts in all namespaces, so this reads all of them, unless no requirement
        refers to the instance.
        """
        kinds = dependent_kinds("instance", self.after_rules.values())
        if not kinds:
            return {}
        wanted, bad = dict.fromkeys(range(len(ANY)), 0), dict.fromkeys(range(len(ANY)), 0)
        for stage in stages(self.subjects):
            stored = ExtraGrants(stage, {})
            extras = {
                number: ExtraGrants(stage, {(stage.instance, number): stage.everyone}) for number in wanted
            }
            for node in stage.live:
                for pair in self.pairs[node.kind] if node.kind in kinds else ():
                    permitted = users_meeting(pair.before, StageSource(stage, node, stored))
                    now = users_meeting(pair.after, StageSource(stage, node, stored))
                    for number in _numbers_at(pair.after, stage, node, stage.instance):
                        wanted[number] |= permitted & ~now
                        bad[number] |= (
                            users_meeting(pair.after, StageSource(stage, node, extras[number]))
                            & ~permitted
                            & ~now
                        )
        if self.prefer == Prefer.FEWEST:
            return wanted
        return {number: mask & ~bad[number] & self.subjects.everyone for number, mask in wanted.items()}

    def _choose(self, stage: Stage, instance: Mapping[int, int]) -> None:
        """Choose the grants for one stage."""
        needs = self._needs(stage)
        if not needs:
            return
        candidates = self._candidates(stage, needs)
        for number in range(len(ANY)):
            if (stage.instance, number) in candidates:
                candidates[stage.instance, number] &= instance.get(number, 0)
        if self.prefer == Prefer.NARROWEST:
            bad = self._single_side_effects(stage, candidates)
            candidates = {key: mask & ~bad.get(key, 0) for key, mask in candidates.items()}
        by_user: dict[int, set[MissingGrant]] = defaultdict(set)
        for (pk, number), mask in candidates.items() if self.prefer == Prefer.NARROWEST else ():
            for bit in bits_of(mask):
                by_user[bit].update(grants_on(stage, pk, (number,)))
        extra = ExtraGrants(stage, candidates)
        side_effects = self._joint_side_effects(stage, extra) if self.prefer == Prefer.NARROWEST else {}
        wanted: dict[int, list[Question]] = defaultdict(list)
        for node, pair, mask in needs:
            for bit in bits_of(mask & users_meeting(pair.after, StageSource(stage, node, extra))):
                wanted[bit].append(self._question(bit, node, pair))
        for bit, questions in sorted(wanted.items()):
            self._choose_for_user(stage, bit, questions, by_user[bit], side_effects.get(bit, []))

    def _choose_for_user(
        self,
        stage: Stage,
        bit: int,
        questions: list[Question],
        allowed: set[MissingGrant],
        side_effects: list[Question],
    ) -> None:
        facts, chosen = StageFacts(stage, 1 << bit), NewGrants()
        outside = self._outside[bit]
        for grant in outside:
            chosen.add(grant)
        if side_effects:
            allowed = grants_without_side_effects(allowed - outside, questions, side_effects, facts, outside)
        denials = denials_of(questions, facts, None if self.prefer == Prefer.FEWEST else allowed | outside)
        minimal = fewest_grants(
            denials, chosen, max_grants=self.max_grants, grant_count=len(self.result.grants)
        )
        name = self.subjects.names[bit]
        self.result.grants += [(name, *grant) for grant in minimal.grants]
        self.result.only_way += minimal.only_way
        self.result.is_smallest = self.result.is_smallest and minimal.is_smallest
        outside.update(grant for grant in minimal.grants if grant[0].namespace is None)

    def _needs(self, stage: Stage) -> list[tuple[Node, RulePair, int]]:
        """Return the lost permissions: entity, requirements and users."""
        stored, needs = ExtraGrants(stage, {}), []
        for node in stage.live:
            source = StageSource(stage, node, stored)
            for pair in self.pairs[node.kind]:
                mask = (
                    users_meeting(pair.before, source)
                    & ~users_meeting(pair.after, source)
                    & self.wanted_users
                )
                if mask:
                    needs.append((node, pair, mask))
        return needs

    def _candidates(self, stage: Stage, needs: Iterable[tuple[Node, RulePair, int]]) -> dict[GrantKey, int]:
        """Return the grants that the requirements of lost permissions name, with the users who lose them."""
        candidates: dict[GrantKey, int] = defaultdict(int)
        for node, pair, mask in needs:
            read = FactsRead(pair.after)
            for leaf in read.held:
                pk = pk_at(stage, node, leaf.scope)
                if pk is not None:
                    for privilege in leaf.privileges:
                        candidates[pk, NUMBERS[privilege]] |= mask
            if read.is_at_or_below:
                inside = stage.live_inside(node, None) if node.kind in CONTAINER_KINDS else ()
                for near in (node, *inside):
                    for number in range(len(ANY)):
                        candidates[near.pk, number] |= mask
            for all_live in read.all_live:
                for inner in stage.live_inside(node, all_live.kind):
                    candidates[inner.pk, NUMBERS[all_live.privilege]] |= mask
        # who holds a privilege needs no grant of it
        return {
            (pk, number): missing
            for (pk, number), mask in candidates.items()
            if (missing := mask & ~stage.holders(pk)[number])
        }

    def _single_side_effects(self, stage: Stage, candidates: Mapping[GrantKey, int]) -> dict[GrantKey, int]:
        """Return, by candidate, the users for which it alone has a side effect."""
        bad: dict[GrantKey, int] = defaultdict(int)
        stored, inside = ExtraGrants(stage, {}), _inside_candidates(stage, candidates)
        of_containers = {
            key: ExtraGrants(stage, {key: mask})
            for key, mask in candidates.items()
            if key[0] in stage.nodes and stage.nodes[key[0]].kind in CONTAINER_KINDS
        }
        for node in stage.live:
            base = StageSource(stage, node, stored)
            near = {
                pk
                for pk in (node.pk, node.parent, node.application, node.namespace)
                if pk is not None and pk != stage.instance
            }
            extras = {
                key: of_containers.get(key) or ExtraGrants(stage, {key: candidates[key]})
                for pk in near
                for number in range(len(ANY))
                if (key := (pk, number)) in candidates
            }
            for pair in self.pairs[node.kind] if extras or node.pk in inside else ():
                permitted = users_meeting(pair.before, base) | users_meeting(pair.after, base)
                for key, extra in extras.items():
                    bad[key] |= users_meeting(pair.after, StageSource(stage, node, extra)) & ~permitted
                if node.pk in inside:
                    # any grant inside counts in the same way; those that complete a rule over all live
                    # entities follow later
                    users = ExtraGrants(stage, {})
                    users.inside[node.pk] = _union(candidates[key] for key in inside[node.pk])
                    gained = users_meeting(pair.after, StageSource(stage, node, users)) & ~permitted
                    for key in inside[node.pk] if gained else ():
                        bad[key] |= gained
        return bad

    def _joint_side_effects(self, stage: Stage, extra: ExtraGrants) -> dict[int, list[Question]]:
        """Return, by user, the side effects of all candidates together."""
        stored, questions = ExtraGrants(stage, {}), defaultdict(list)
        for node in stage.live:
            base, with_all = StageSource(stage, node, stored), StageSource(stage, node, extra)
            for pair in self.pairs[node.kind]:
                mask = (
                    users_meeting(pair.after, with_all)
                    & ~users_meeting(pair.before, base)
                    & ~users_meeting(pair.after, base)
                )
                for bit in bits_of(mask):
                    questions[bit].append(self._question(bit, node, pair))
        return questions

    def _question(self, bit: int, node: Node, pair: RulePair) -> Question:
        return Question("user", self.subjects.names[bit], pair.operations[0], node.address, self.after.name)


def count_effect(
    result: Regrants,
    subjects: Subjects,
    pairs: Mapping[str, list[RulePair]],
    wanted_users: int,
    namespace: str = "",
) -> None:
    """Evaluate all decisions with the grants of `result`, and set its counts.

    wanted_users, namespace: count kept and lost permissions only of these users, and only in this namespace
    (empty for all). Side effects and what the activation changes are counted everywhere.
    """
    by_namespace = masks_by_namespace(result.grants, subjects)
    for stage in stages(subjects):
        masks = masks_in_stage(by_namespace, stage)
        stored, extra = ExtraGrants(stage, {}), ExtraGrants(stage, masks)
        scope = wanted_users if namespace in ("", stage.namespace) else 0
        for node, pair in pairs_of(stage, pairs):
            base = StageSource(stage, node, stored)
            permitted, now = users_meeting(pair.before, base), users_meeting(pair.after, base)
            then = users_meeting(pair.after, StageSource(stage, node, extra)) if masks else now
            number = len(pair.operations)
            result.kept += number * (permitted & then & scope).bit_count()
            if kept_not := number * (permitted & ~then & scope).bit_count():
                result.kept_not += kept_not
                result.kept_not_in[stage.namespace] = result.kept_not_in.get(stage.namespace, 0) + kept_not
            result.lost += number * (permitted & ~now & scope).bit_count()
            result.beyond_gained += number * (then & ~permitted & ~now).bit_count()
            result.beyond_lost += number * (now & ~then).bit_count()
            result.given += number * (now & ~permitted).bit_count()
            result.taken += number * (permitted & ~now).bit_count()
            result.given_with_plan += number * (then & ~permitted).bit_count()
            result.taken_with_plan += number * (permitted & ~then).bit_count()


def rule_pairs(before: Generation, after: Generation) -> dict[str, list[RulePair]]:
    """Return the requirements of the operations with a rule in both generations, by kind."""
    pairs: dict[str, list[RulePair]] = {}
    for kind in KINDS:
        operations: dict[tuple[Expression, Expression], list[str]] = {}
        for operation in KINDS[kind].operations:
            policies = [generation.policy(kind, operation) for generation in (before, after)]
            requirements = [
                policy.requirement for policy in policies if policy and policy.requirement is not None
            ]
            if len(requirements) == 2:
                operations.setdefault((requirements[0], requirements[1]), []).append(operation)
        pairs[kind] = [RulePair(*key, tuple(names)) for key, names in operations.items()]
    return pairs


def masks_by_namespace(grants: Iterable[tuple[str, Address, Privilege]], subjects: Subjects) -> GrantMasks:
    """Return the masks of the users with each grant, by the name of the namespace; empty for grants outside
    of namespaces.
    """
    masks: GrantMasks = defaultdict(lambda: defaultdict(int))
    bits = {name: 1 << bit for bit, name in enumerate(subjects.names)}
    for user, address, privilege in grants:
        # a user who is inactive now gets nothing
        masks[address.namespace.key if address.namespace else ""][address, privilege] |= bits.get(user, 0)
    return masks


def masks_in_stage(by_namespace: GrantMasks, stage: Stage) -> dict[GrantKey, int]:
    """Return the masks of the grants that count in a stage: those in it, and those on the instance."""
    masks = {
        (stage.by_address[address].pk, NUMBERS[privilege]): mask
        for (address, privilege), mask in by_namespace[stage.namespace].items()
        if address in stage.by_address
    }
    return masks | {
        (stage.instance, NUMBERS[privilege]): mask
        for (address, privilege), mask in by_namespace[""].items()
        if address == instance_address()
    }


def pairs_of(stage: Stage, pairs: Mapping[str, list[RulePair]]) -> Iterator[tuple[Node, RulePair]]:
    for node in stage.live:
        for pair in pairs[node.kind]:
            yield node, pair


def _numbers_at(requirement: Expression, stage: Stage, node: Node, pk: int) -> set[int]:
    """Return the numbers of the privileges that a requirement asks for on the entity with this primary key."""
    return {
        NUMBERS[privilege]
        for leaf in FactsRead(requirement).held
        if leaf.scope != Scope.SELF and pk_at(stage, node, leaf.scope) == pk
        for privilege in leaf.privileges
    }


def _inside_candidates(stage: Stage, candidates: Mapping[GrantKey, int]) -> dict[int, list[GrantKey]]:
    """Return the candidates strictly inside each container."""
    inside: dict[int, list[GrantKey]] = defaultdict(list)
    for pk, number in candidates:
        if pk in stage.nodes:
            for container in stage.containers(stage.nodes[pk]) - {pk}:
                inside[container].append((pk, number))
    return inside


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union
