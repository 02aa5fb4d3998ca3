"""Count the targets on which each user holds a fact, for rules that require nothing else.

A target with one holder, a user or a group, is counted for this holder. The count of a user is the sum of the user's own count and
the counts of the user's groups. If a target has several holders, this sum could count it twice for a user. So these targets, and only
these, have bits. In large tenants, few targets have several holders of the same privilege.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from analytics.spark.engine.bits import CHUNK_BYTES, SUBTREE_FORMS, HolderRows, fact_entries, set_positions
from analytics.spark.engine.compiled import (
    UNMET,
    CompiledFact,
    CompiledRule,
    CompiledRules,
    Requirement,
    fact_numbers,
)
from analytics.spark.engine.directory import Directory
from analytics.spark.engine.rows import NONE, Array
from analytics.spark.engine.units import WORD_BITS, Unit, concatenated_ranges


class HeldRules(NamedTuple):
    """Rules that permit what one of these facts permits, and nothing else. numbers: of the rules, by kind."""

    facts: list[CompiledFact]
    numbers: dict[int, list[int]]


def split_rules(rules: CompiledRules) -> tuple[list[HeldRules], CompiledRules]:
    """Return the rules that `held_counts` counts, and the others, which keep their numbers."""
    counted: dict[Requirement, dict[int, list[int]]] = {}
    others, used = list(rules.rules), set()
    for number, rule in enumerate(rules.rules):
        if _is_counted(rules, rule):
            counted.setdefault(rule.after, {}).setdefault(rule.kind, []).append(number)
            others[number] = replace(rule, kind=NONE)
        else:
            used |= fact_numbers(rule.before) | fact_numbers(rule.after)
    facts = [
        fact if number in used else replace(fact, kinds=frozenset())
        for number, fact in enumerate(rules.facts)
    ]
    held = [
        HeldRules([rules.facts[number] for number in fact_numbers(requirement)], numbers)
        for requirement, numbers in counted.items()
    ]
    return held, CompiledRules(tuple(others), tuple(facts))


def _is_counted(rules: CompiledRules, rule: CompiledRule) -> bool:
    """Return whether the rule permits what one of some facts permits, and nothing before. Facts about subtrees have many
    holders for each target.
    """
    operator, numbers = rule.after
    return (
        rule.kind != NONE
        and rule.before == UNMET
        and operator == "held"
        and all(rules.facts[number].form not in SUBTREE_FORMS for number in numbers)
    )


def held_counts(
    unit: Unit, rules: HeldRules, directory: Directory, by_segment: bool
) -> Iterator[tuple[int, Array, Array, Array]]:
    """Yield (rule, user indexes, segments, counts): on how many targets users hold one of the facts, if it is not zero.

    by_segment: otherwise the counts of all segments of a kind are added up, and the first
    segment stands for them.
    """
    first, end = unit.segments_of(frozenset(rules.numbers))
    # the first segment of each column
    begins = (
        np.arange(first, end)
        if by_segment
        else first + np.flatnonzero(_is_first(unit.segment_kind[first:end]))
    )
    principals, positions = _holders(unit, rules.facts, directory, unit.words_of((first, end)))
    if not len(positions):
        return
    is_first = _is_first(positions)
    column_ends = np.searchsorted(positions, unit.segment_begin[begins[1:]] * WORD_BITS)
    columns = np.repeat(np.arange(len(begins)), np.diff(column_ends, prepend=0, append=len(positions)))
    is_shared = ~(is_first & np.append(is_first[1:], True))
    sole = HolderRows(
        directory, len(begins), np.add, (principals[~is_shared], columns[~is_shared], _add_ones)
    )
    # the shared targets of each column begin with a new word
    shared_counts = np.bincount(columns[is_shared & is_first], minlength=len(begins))
    word_counts = -(-shared_counts // WORD_BITS)
    word_begins, has_words = np.cumsum(word_counts) - word_counts, word_counts > 0
    places = concatenated_ranges(word_begins * WORD_BITS, shared_counts)[np.cumsum(is_first[is_shared]) - 1]
    shared = HolderRows(
        directory, int(word_counts.sum()), np.bitwise_or, (principals[is_shared], places, set_positions)
    )
    is_holder = np.zeros(directory.user_count, bool)
    sole.mark_holders(is_holder)
    shared.mark_holders(is_holder)
    holders = np.flatnonzero(is_holder)
    step = max(1, CHUNK_BYTES // (8 * (len(begins) + int(word_counts.sum()))))
    for begin in range(0, len(holders), step):
        users = holders[begin : begin + step]
        counts = sole.user_rows(users)
        if has_words.any():
            bits = np.bitwise_count(shared.user_rows(users))
            counts[:, has_words] += np.add.reduceat(bits, word_begins[has_words], axis=1, dtype=np.uint64)
        for kind, numbers in rules.numbers.items():
            of_kind = np.flatnonzero(unit.segment_kind[begins] == kind)
            rows, places = np.nonzero(counts[:, of_kind])
            gained = counts[rows, of_kind[places]].astype(np.int64)
            yield from ((number, users[rows], begins[of_kind][places], gained) for number in numbers)


def _holders(
    unit: Unit, facts: list[CompiledFact], directory: Directory, words: tuple[int, int]
) -> tuple[Array, Array]:
    """Return (principal numbers, positions) of the holders of the facts in these words, each once, ordered by position."""
    entries = [fact_entries(unit, fact) for fact in facts]
    principals, positions = (np.concatenate(column) for column in zip(*entries, strict=True))
    is_used = (positions >= words[0] * WORD_BITS) & (positions < words[1] * WORD_BITS)
    principal_count = directory.user_count + directory.group_count
    keys = np.sort(positions[is_used] * principal_count + principals[is_used])
    keys = keys[_is_first(keys)]
    positions = keys // principal_count
    return keys - positions * principal_count, positions


def _is_first(numbers: Array) -> Array:
    """Return for each number whether it differs from the one before it."""
    return np.append(True, np.diff(numbers) != 0)[: len(numbers)]


def _add_ones(counts: Array, rows: Array, columns: Array) -> None:
    """Add one in each of these rows."""
    np.add.at(counts.reshape(-1), rows * counts.shape[1] + columns, np.uint64(1))
