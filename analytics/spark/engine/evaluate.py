"""Evaluate rules on rows of bits, for many users at once, without a loop over users or over pairs of users and entities."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.engine.compiled import UNMET, CompiledRules, Requirement
from analytics.spark.engine.facts import FactBits
from analytics.spark.engine.layout import ALL_BITS, NO_BITS, Unit, WordLayout, split_into_units
from analytics.spark.engine.members import Directory
from analytics.spark.engine.rows import NONE, Array, TenantRows, decode

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# The bits of the users that are evaluated at once: as much as fits into the cache of a core.
CHUNK_BYTES = 4_000_000




@dataclass(frozen=True, slots=True, eq=False)
class RuleGroup:
    """Rules with the same requirements whose kinds are neighbours in a unit; they are evaluated together.

    runs: consecutive runs of the unit. rules: each row holds by run a rule number, or NONE where no (further) rule of the group
    is about the kind of that run.
    """

    before: Requirement
    after: Requirement
    runs: Array
    rules: Array


def group_rules(unit: Unit, rules: CompiledRules) -> Iterator[RuleGroup]:
    """Group the rules that have targets in the unit, by equal requirements and neighbouring kinds."""
    alike: dict[tuple[Requirement, Requirement], dict[int, list[int]]] = {}
    for number, rule in enumerate(rules.rules):
        if rule.kind != NONE:
            alike.setdefault((rule.before, rule.after), {}).setdefault(rule.kind, []).append(number)
    for (before, after), numbers_of in alike.items():
        by_kind = np.full((max(map(len, numbers_of.values())), max(numbers_of) + 1), NONE)
        for kind, numbers in numbers_of.items():
            by_kind[: len(numbers), kind] = numbers
        found = np.nonzero(np.isin(unit.run_kind, list(numbers_of)))[0]
        for runs in np.split(found, np.nonzero(np.diff(found) > 1)[0] + 1):
            if len(runs):
                yield RuleGroup(before, after, runs, by_kind[:, unit.run_kind[runs]])


def changed_bits(layout: WordLayout, facts: list[FactBits], held: list[Array], users: int,
                 group: RuleGroup) -> tuple[Array, Array | None]:
    """Return (gained, lost): for each user the words of the group's runs. lost is None if no user can lose a permission.

    held: by fact, the bits of the users.
    """
    begin, end = int(layout.run_begin[group.runs[0]]), int(layout.run_end[group.runs[-1]])
    # A fact that no rule of these kinds uses has other words; the slice is then not read.
    held = [bits[:, begin - fact.begin : end - fact.begin] for fact, bits in zip(facts, held, strict=True)]
    mask = layout.mask[begin:end]
    after = np.broadcast_to(evaluate_requirement(group.after, held), (users, end - begin))
    if group.before == UNMET:
        return after & mask, None
    before = np.broadcast_to(evaluate_requirement(group.before, held), (users, end - begin))
    differs = (before ^ after) & mask
    return differs & after, differs & before


def evaluate_requirement(requirement: Requirement, held: Sequence[Array] | Array) -> Array | np.uint64:
    """Return the bits where the requirement is met. held: by fact, bits. Raise ValueError for an unknown requirement."""
    word, parts = requirement
    match word:
        case "all":
            return reduce(np.bitwise_and, (evaluate_requirement(part, held) for part in parts)) if parts else ALL_BITS
        case "any":
            return reduce(np.bitwise_or, (evaluate_requirement(part, held) for part in parts)) if parts else NO_BITS
        case "held":
            return reduce(np.bitwise_or, (held[fact] for fact in parts)) if parts else NO_BITS
    raise ValueError(f"`{word}` is not a requirement")


def evaluate_targets(group: RuleGroup, held: Array) -> tuple[Array, Array | None]:
    """Return (gained, lost) as masks, for the facts in each column of `held` (facts by targets); lost as in changed_bits."""
    after = _is_met(group.after, held)
    if group.before == UNMET:
        return after, None
    before = _is_met(group.before, held)
    return after & ~before, before & ~after


def _is_met(requirement: Requirement, held: Array) -> Array:
    return np.broadcast_to(evaluate_requirement(requirement, held) != 0, held.shape[1:])


def chunk_users(users: Array, width: int) -> Iterator[Array]:
    """Yield the users in chunks that fit into CHUNK_BYTES. width: the number of words for each user."""
    count = max(1, CHUNK_BYTES // (8 * max(1, width)))
    return (users[first : first + count] for first in range(0, len(users), count))


def read_units(batches: Iterator[pa.RecordBatch], directory: Directory) -> Iterator[tuple[Unit, TenantRows]]:
    """Yield each unit of a partition with its rows; nothing if the partition is empty."""
    if received := list(batches):
        yield from split_into_units(decode(received), directory)
