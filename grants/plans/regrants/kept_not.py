"""List the permissions that a plan of regrants does not keep, each with the reason."""

from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import NamedTuple, cast

from entities.address import Address
from entities.models import State
from entities.vocabulary import CONTAINER_KINDS, Privilege, join_words
from grants.change_set import ActivateGeneration
from grants.effects.holders import NUMBERS
from grants.effects.kind_rules import RulePair, rule_pairs_by_kind
from grants.effects.masks import bits_of
from grants.effects.nodes import Node
from grants.effects.situations import affected_users
from grants.models import Plan, PlanVerb
from grants.plans.create import PlanOrigin
from grants.plans.regrants.compute import RegrantScope, regrant_scope, users_in_scope
from grants.plans.regrants.stages import (
    Decision,
    ExtraGrants,
    Stage,
    StageFacts,
    decisions,
    masks_by_namespace,
    stages,
)
from grants.policies.catalogue import generation_by_name
from grants.policies.explain import MissingGrant, grant_order, minimal_grant_sets
from grants.policies.policy import Generation
from grants.policies.question import Question

# how many ways to keep a permission are compared, and how many grants of one way are named
MAX_WAYS, MAX_NAMED = 8, 3


class KeptNot(NamedTuple):
    """A permission of the generation before that the plan does not keep. user, entity, operation: names."""

    user: str
    entity: str
    operation: str
    why: str


def kept_not_of_plan(plan: Plan, first_row: int = 0) -> Iterator[KeptNot]:
    """Yield what a proposed plan of regrants does not keep, from row number `first_row`; nothing for other
    plans.

    See `kept_not_rows`. Its grants are kept in memory.
    """
    recipe = plan.recipe
    if plan.origin != PlanOrigin.POLICY_IMPACT or not plan.is_proposed:
        return
    grants = [
        (item.principal_name, item.address, item.privilege)
        for item in plan.items.filter(verb=PlanVerb.GRANT).order_by("position").iterator(chunk_size=2_000)
    ]
    scope = regrant_scope(*(recipe.get(name, "") for name in ("user", "group", "namespace")))
    yield from kept_not_rows(
        generation_by_name(recipe["generation"]),
        generation_by_name(recipe["to_generation"]),
        grants,
        scope=scope,
        namespaces=recipe.get("kept_not_in"),
        first_row=first_row,
    )


def kept_not_rows(
    before: Generation,
    after: Generation,
    grants: Iterable[tuple[str, Address, Privilege]],
    *,
    scope: RegrantScope,
    namespaces: Collection[str] | None = None,
    first_row: int = 0,
) -> Iterator[KeptNot]:
    """Yield the permissions of `before` that are not permitted in `after` with these grants.

    Sorted by namespace, kind, key, operation and user. namespaces: the only ones with such permissions, if
    they are known; the empty name stands for what is outside of namespaces. Runs three queries for each
    namespace; memory is that of the largest namespace.
    """
    users, pairs = affected_users([ActivateGeneration(after)]), rule_pairs_by_kind(before, after)
    wanted, masks = users_in_scope(users, scope), masks_by_namespace(grants, users)
    for stage in stages(users, {scope.namespace} if scope.namespace else namespaces):
        extra = ExtraGrants.of(stage, masks)
        reasons = _Reasons(stage, pairs, extra, after)
        for decision in decisions(stage, pairs, extra):
            lost = decision.permitted & wanted & ~decision.then
            for operation in decision.pair.operations if lost else ():
                count = lost.bit_count()
                if first_row >= count:
                    first_row -= count
                    continue
                for bit in bits_of(lost)[first_row:]:
                    name = users.names[bit]
                    yield KeptNot(
                        name, str(decision.node.address), operation, reasons.reason(bit, name, decision)
                    )
                first_row = 0


class _Reasons:
    """Find out why permissions in one stage are not kept. extra: the grants of the plan."""

    def __init__(self, stage: Stage, pairs: dict[str, list[RulePair]], extra: ExtraGrants, after: Generation):
        self.stage, self.pairs, self.extra, self.after = stage, pairs, extra, after
        self._facts = cache(lambda bit: StageFacts(stage, 1 << bit))
        # for every user
        self._effects = cache(self._effects_of)
        self._side_effects = cache(self._side_effects_of)

    def reason(self, bit: int, name: str, decision: Decision) -> str:
        """Return the reason as a sentence. bit, name: of the user."""
        pair = decision.pair
        question = Question("user", name, pair.operations[0], decision.node.address, self.after.name)
        # the facts of a stage list every missing grant
        ways = cast(list[frozenset[MissingGrant]], minimal_grant_sets(pair.after, question, self._facts(bit)))
        if not ways:
            return f"No grant permits it in generation {self.after.name}."
        shortest = sorted(ways, key=lambda way: (len(way), sorted(map(grant_order, way))))[:MAX_WAYS]
        best = min(shortest, key=lambda way: self._side_effects(bit, way, is_joint=False)[0])
        count, text = self._side_effects(bit, best, is_joint=False)
        if count:
            start = (
                "Every way to keep it gives more: "
                if len(ways) > 1
                else "The only way to keep it gives more: "
            )
            return f"{start}{_grants_in_words(best)} would also give {text}."
        count, text = self._side_effects(bit, best, is_joint=True)
        if count:
            return (
                f"{_grants_in_words(best)}, together with other grants of the plan, would also give {text}."
            )
        if any(address.kind == "instance" for address, _ in best):
            return f"{_grants_in_words(best)} would also give more in other namespaces."
        return f"Left out by the search for grants that give nothing else; {_grants_in_words(best)} would keep it."

    def _side_effects_of(self, bit: int, way: frozenset[MissingGrant], *, is_joint: bool) -> tuple[int, str]:
        """Return how many permissions the grants would give the user beyond the purpose, and these as text."""
        effects = [
            effect for effect in self._effects(way, is_joint=is_joint) if effect.side_effect >> bit & 1
        ]
        count = sum(len(effect.pair.operations) for effect in effects)
        text = f"{effects[0].pair.operations[0]} on {effects[0].node.address}" if effects else ""
        more = f" and {count - 1:,} more permission{'' if count == 2 else 's'}" if count > 1 else ""
        return count, text + more

    def _effects_of(self, way: frozenset[MissingGrant], *, is_joint: bool) -> list[Decision]:
        """Return the decisions that these grants would change beyond the purpose, if every user got them.
        is_joint: together with the grants of the plan.
        """
        masks = dict(self.extra.masks) if is_joint else {}
        keys = [(self.stage.pk_of(address) or 0, NUMBERS[privilege]) for address, privilege in way]
        masks |= dict.fromkeys(keys, self.stage.everyone)
        near = self._near({pk for pk, _ in keys})
        found = decisions(self.stage, self.pairs, ExtraGrants(self.stage, masks), near)
        return [decision for decision in found if decision.side_effect]

    def _near(self, pks: set[int]) -> list[Node]:
        """Return the live entities whose decisions can depend on grants on these entities."""
        nodes = [self.stage.nodes[pk] for pk in pks if pk in self.stage.nodes]
        around = {pk for node in nodes for pk in (node.pk, *self.stage.containers(node))}
        if len(nodes) < len(pks):
            # a grant on the instance
            return self.stage.live
        if all(node.kind not in CONTAINER_KINDS for node in nodes):
            return [node for pk in around if (node := self.stage.nodes[pk]).state == State.LIVE]
        return [
            node
            for node in self.stage.live
            if node.pk in around or {node.parent, *self.stage.containers(node)} & pks
        ]


def _grants_in_words(way: Collection[MissingGrant]) -> str:
    """Return grants such as `READ on dataset:sales.orders`."""
    names = [f"{privilege} on {address}" for address, privilege in sorted(way, key=grant_order)]
    if len(names) <= MAX_NAMED:
        return join_words(names)
    return f"{len(names):,} grants, such as {names[0]},"
