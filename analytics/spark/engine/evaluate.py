"""Evaluate rules on rows of bits, for many users at once, without a loop over users or over pairs of users
and entities.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.engine.compiled import UNMET, CompiledRules, Requirement
from analytics.spark.engine.facts import FactBits, find_entries
from analytics.spark.engine.layout import ALL_BITS, NO_BITS, Unit, WordLayout, split_into_units
from analytics.spark.engine.members import Directory
from analytics.spark.engine.rows import NONE, Array, TenantRows, decode_batches

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# Users are evaluated in chunks. The bits of a chunk have at most this size, which fits into the cache of a
# core.
CHUNK_BYTES = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class RuleGroup:
    """Rules with equal requirements and neighbouring kinds in a unit; they are evaluated together.

    segments: consecutive segments of the unit.
    rules: a table with a column for each of these segments. A column has the numbers of the rules for the
        kind of the segment, and NONE in the rest of its rows.
    """

    before: Requirement
    after: Requirement
    segments: Array
    rules: Array


def group_rules(unit: Unit, rules: CompiledRules) -> Iterator[RuleGroup]:
    """Group the rules that have targets in the unit, by equal requirements and neighbouring kinds."""
    numbers_by_requirements: dict[tuple[Requirement, Requirement], dict[int, list[int]]] = {}
    for number, rule in enumerate(rules.rules):
        if rule.kind != NONE:
            numbers_by_requirements.setdefault((rule.before, rule.after), {}).setdefault(
                rule.kind, []
            ).append(number)
    for (before, after), numbers_by_kind in numbers_by_requirements.items():
        table = np.full((max(map(len, numbers_by_kind.values())), max(numbers_by_kind) + 1), NONE)
        for kind, numbers in numbers_by_kind.items():
            table[: len(numbers), kind] = numbers
        matching_segments = np.nonzero(np.isin(unit.segment_kind, list(numbers_by_kind)))[0]
        for segments in np.split(matching_segments, np.nonzero(np.diff(matching_segments) > 1)[0] + 1):
            if len(segments):
                yield RuleGroup(before, after, segments, table[:, unit.segment_kind[segments]])


def changed_bits(
    layout: WordLayout, facts: list[FactBits], fact_bits: list[Array], user_count: int, group: RuleGroup
) -> tuple[Array, Array | None]:
    """Return (gained, lost): for each user the words of the group's segments. lost is None if no user can
    lose a permission.

    fact_bits: by fact, a row of bits for each user.
    """
    begin, end = int(layout.segment_begin[group.segments[0]]), int(layout.segment_end[group.segments[-1]])
    # A fact that no rule of these kinds uses has other words; its slice is then not read.
    fact_bits = [
        bits[:, begin - fact.first_word : end - fact.first_word]
        for fact, bits in zip(facts, fact_bits, strict=True)
    ]
    mask = layout.mask[begin:end]
    after = np.broadcast_to(evaluate_requirement(group.after, fact_bits), (user_count, end - begin))
    if group.before == UNMET:
        return after & mask, None
    before = np.broadcast_to(evaluate_requirement(group.before, fact_bits), (user_count, end - begin))
    differs = (before ^ after) & mask
    return differs & after, differs & before


def evaluate_requirement(requirement: Requirement, fact_bits: Sequence[Array] | Array) -> Array | np.uint64:
    """Return the bits where the requirement is met. fact_bits: by fact.

    Raise ValueError for an unknown requirement.
    """
    operator, operands = requirement
    match operator:
        case "all":
            return _reduce_bits(np.bitwise_and, operands, fact_bits) if operands else ALL_BITS
        case "any":
            return _reduce_bits(np.bitwise_or, operands, fact_bits) if operands else NO_BITS
        case "not":
            return ~evaluate_requirement(operands[0], fact_bits)
        case "held":
            return reduce(np.bitwise_or, (fact_bits[fact] for fact in operands)) if operands else NO_BITS
    raise ValueError(f"`{operator}` is not a requirement")


def _reduce_bits(
    operation: np.ufunc, requirements: Sequence[Requirement], fact_bits: Sequence[Array] | Array
) -> Array | np.uint64:
    return reduce(operation, (evaluate_requirement(requirement, fact_bits) for requirement in requirements))


def changed_words(
    rows: TenantRows, directory: Directory, rules: CompiledRules, *, all_users: bool
) -> Iterator[tuple[Unit, Array, RuleGroup, bool, Array]]:
    """Yield (unit, user indexes, rule group, the answer after, bits): for some users, the bits of the changed
    answers.

    bits: a row for each user, with the words of the segments of the group.
    all_users: evaluate users without grants too; required if rules.is_met_without_grants returns True.
    """
    for unit, unit_rows in split_into_units(rows, directory):
        facts = [
            FactBits(directory, unit, entries) for entries in find_entries(unit, unit_rows, rules, directory)
        ]
        is_evaluated = np.full(directory.user_count, all_users)
        for fact in facts:
            fact.mark_holders(is_evaluated)
        groups = list(group_rules(unit, rules))
        for users in user_chunks(np.nonzero(is_evaluated)[0], sum(fact.word_count for fact in facts)):
            fact_bits = [fact.user_bits(users) for fact in facts]
            for group in groups:
                gained, lost = changed_bits(unit, facts, fact_bits, len(users), group)
                for after, bits in ((True, gained), (False, lost)):
                    if bits is not None:
                        yield unit, users, group, after, bits


def changed_targets(group: RuleGroup, fact_table: Array) -> tuple[Array, Array | None]:
    """Return (gained, lost), two masks with one element for each target. lost is None if no user can lose a
    permission.

    fact_table: for each fact and target, whether the fact is held. The targets are columns.
    """
    after = _is_met(group.after, fact_table)
    if group.before == UNMET:
        return after, None
    before = _is_met(group.before, fact_table)
    return after & ~before, before & ~after


def _is_met(requirement: Requirement, fact_table: Array) -> Array:
    return np.broadcast_to(evaluate_requirement(requirement, fact_table) != 0, fact_table.shape[1:])


def user_chunks(users: Array, words_per_user: int) -> Iterator[Array]:
    """Yield the users in chunks with at most CHUNK_BYTES of words, but at least one user."""
    count = max(1, CHUNK_BYTES // (8 * max(1, words_per_user)))
    return (users[first : first + count] for first in range(0, len(users), count))


def read_units(batches: Iterator[pa.RecordBatch], directory: Directory) -> Iterator[tuple[Unit, TenantRows]]:
    """Yield each unit of a partition with its rows; nothing if the partition is empty."""
    if all_batches := list(batches):
        yield from split_into_units(decode_batches(all_batches), directory)
