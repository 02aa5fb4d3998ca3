"""Evaluate rules on rows of bits, for many users at once, without a loop over users or over pairs of users
and entities.

The holders of a fact are entries: a principal at a position, or at all positions of a subtree. Each group
has a row of bits, which is computed once. The row of a user is the OR of the bits of the user's own entries
and the rows of the user's groups.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

import numpy as np

from analytics.spark.engine.compiled import UNMET, CompiledFact, CompiledRules, Requirement
from analytics.spark.engine.directory import Directory, GroupRows
from analytics.spark.engine.rows import (
    ANYWHERE,
    BELOW,
    GRANT,
    NAMESPACE_GRANT,
    NONE,
    PRECOMPUTED,
    Array,
    Rows,
)
from analytics.spark.engine.units import ALL_BITS, NO_BITS, WORD_BITS, Unit, concatenated_ranges

# Users are evaluated in chunks. The bits of a chunk have at most this size, which fits into the cache of a
# core.
CHUNK_BYTES = 4_000_000
_NO_NUMBERS = np.empty(0, np.int64)
# the forms of facts that are true of whole subtrees
SUBTREE_FORMS = frozenset({"instance", "namespace", "anywhere"})
# the forms of rows that make a fact true
_FORMS = {
    "self": (GRANT,),
    "application": (GRANT,),
    "namespace": (GRANT, NAMESPACE_GRANT),
    "instance": (),
    "below": (GRANT, BELOW),
    "anywhere": (GRANT, ANYWHERE),
    "precomputed": (PRECOMPUTED,),
}


@dataclass(frozen=True, slots=True, eq=False)
class ChangedBits:
    """The changed answers of some users under one rule.

    users: ascending user indexes. rule: the number of the rule.
    segments: the first of the segments that the rule covers, and the segment after their last.
    gained, lost: for each user the words of these segments. lost is None if no user can lose a permission.
    """

    users: Array
    rule: int
    segments: tuple[int, int]
    gained: Array
    lost: Array | None


def changed_bits(unit: Unit, rules: CompiledRules, directory: Directory) -> Iterator[ChangedBits]:
    """Evaluate all rules. Yield the users whose answers change, as bits."""
    facts = [FactBits(unit, fact, directory) for fact in rules.facts]
    no_facts = [NO_BITS for _ in facts]
    is_evaluated = np.full(
        directory.user_count,
        any(
            evaluate_requirement(requirement, no_facts)
            for rule in rules.rules
            for requirement in (rule.before, rule.after)
        ),
    )
    for fact in facts:
        fact.mark_holders(is_evaluated)
    users = np.flatnonzero(is_evaluated)
    words_per_user = max(1, sum(fact.word_count for fact in facts))
    step = max(1, CHUNK_BYTES // (8 * words_per_user))
    for first in range(0, len(users), step):
        yield from _changes_of_users(unit, rules, facts, users[first : first + step])


def _changes_of_users(
    unit: Unit, rules: CompiledRules, facts: list["FactBits"], users: Array
) -> Iterator[ChangedBits]:
    bits_by_fact = [fact.user_rows(users) for fact in facts]
    for number, rule in enumerate(rules.rules):
        segments = unit.segments_of(frozenset({rule.kind}))
        begin, end = unit.words_of(segments)
        if begin == end:
            continue
        # A fact that the rule does not use may have other words; its slice is then not read.
        fact_bits = [
            bits[:, begin - fact.first_word : end - fact.first_word]
            for fact, bits in zip(facts, bits_by_fact, strict=True)
        ]
        shape, mask = (len(users), end - begin), unit.mask[begin:end]
        after = np.broadcast_to(evaluate_requirement(rule.after, fact_bits), shape)
        if rule.before == UNMET:
            yield ChangedBits(users, number, segments, after & mask, None)
        else:
            before = np.broadcast_to(evaluate_requirement(rule.before, fact_bits), shape)
            changed = (before ^ after) & mask
            yield ChangedBits(users, number, segments, changed & after, changed & before)


def evaluate_requirement(
    requirement: Requirement, fact_bits: Sequence[Array | np.uint64]
) -> Array | np.uint64:
    """Return the bits where the requirement is met. fact_bits: by fact.

    Raise ValueError for an unknown requirement.
    """
    operator, operands = requirement
    match operator:
        case "all":
            parts: list[Array | np.uint64] = [evaluate_requirement(part, fact_bits) for part in operands]
            return reduce(and_, [*parts, ALL_BITS])
        case "any":
            parts = [evaluate_requirement(part, fact_bits) for part in operands]
            return reduce(or_, [*parts, NO_BITS])
        case "held":
            return reduce(or_, [fact_bits[fact] for fact in operands])
    raise ValueError(f"`{operator}` is not a requirement")


class HolderRows:
    """A row of numbers for each user, such as the words of bits. It combines what the user's own entries and the user's
    groups have in each column.
    """

    def __init__(
        self,
        directory: Directory,
        width: int,
        combination: np.ufunc,
        *entries: tuple[Array, Array, Callable[[Array, Array, Array], None]],
    ) -> None:
        """combination: combines two numbers of a column. entries: principal numbers, places, and the function that writes
        entries into rows of a table. It gets the table, and the row and the place of each entry.
        """
        user_count = directory.user_count
        principals = np.concatenate([holders for holders, *_ in entries])
        self._groups = GroupRows(directory, principals[principals >= user_count] - user_count)
        self._group_table = np.zeros((self._groups.row_count, width), np.uint64)
        self._combination = combination
        # (users, places, the function), by user
        self._own = []
        for holders, places, write in entries:
            is_user = holders < user_count
            rows = self._groups.row_by_group[holders[~is_user] - user_count]
            write(self._group_table, rows, places[~is_user])
            by_user = np.argsort(holders[is_user])
            self._own.append((holders[is_user][by_user], places[is_user][by_user], write))

    def mark_holders(self, is_holder: Array) -> None:
        """Set `is_holder[user index]` for each user with an entry, or in a group with one."""
        for users in (self._groups.users, *(users for users, *_ in self._own)):
            is_holder[users] = True

    def user_rows(self, users: Array) -> Array:
        """Return the row of each of these users.

        users: ascending indexes, with every holder between the first and the last of them.
        """
        table = self._groups.combine(self._group_table, users, self._combination)
        for holders, places, write in self._own:
            begin, end = np.searchsorted(holders, [users[0], users[-1] + 1])
            write(table, np.searchsorted(users, holders[begin:end]), places[begin:end])
        return table


class FactBits(HolderRows):
    """The bits of one fact by user: `word_count` words of a unit, starting with the word `first_word`."""

    def __init__(self, unit: Unit, fact: CompiledFact, directory: Directory):
        self._unit, self._segments = unit, unit.segments_of(fact.kinds)
        self.first_word, end = unit.words_of(self._segments)
        self.word_count = end - self.first_word
        principals, positions = fact_entries(unit, fact)
        # drops entries at no target, or at a target of a kind without a rule that uses the fact
        is_used = (positions >= self.first_word * WORD_BITS) & (positions < end * WORD_BITS)
        super().__init__(
            directory,
            self.word_count,
            np.bitwise_or,
            (principals[is_used], positions[is_used] - self.first_word * WORD_BITS, set_positions),
            (*_subtree_entries(unit, fact, directory), self._set_subtrees),
        )

    def _set_subtrees(self, bits: Array, rows: Array, subtrees: Array) -> None:
        """Set all bits of one subtree in each of these rows."""
        unit, (first, end) = self._unit, self._segments
        by_subtree = first + np.argsort(unit.segment_subtree[first:end])
        known_subtrees = unit.segment_subtree[by_subtree]
        begins = np.searchsorted(known_subtrees, subtrees)
        counts = np.searchsorted(known_subtrees, subtrees, side="right") - begins
        segments = by_subtree[concatenated_ranges(begins, counts)]
        word_counts = unit.segment_end[segments] - unit.segment_begin[segments]
        words = concatenated_ranges(unit.segment_begin[segments] - self.first_word, word_counts)
        bits[np.repeat(np.repeat(rows, counts), word_counts), words] = ALL_BITS


def set_positions(bits: Array, rows: Array, positions: Array) -> None:
    """Set one bit in each of these rows."""
    words = rows * bits.shape[1] + positions // WORD_BITS
    np.bitwise_or.at(bits.reshape(-1), words, np.uint64(1) << (positions % WORD_BITS).astype(np.uint64))


def _holdings(unit: Unit, fact: CompiledFact) -> Rows:
    """Return the holdings that make the fact true somewhere."""
    holdings = unit.holdings
    return holdings.select(
        np.isin(holdings.form, _FORMS[fact.form]) & np.isin(holdings.selector, fact.selectors)
    )


def fact_entries(unit: Unit, fact: CompiledFact) -> tuple[Array, Array]:
    """Return (principal numbers, positions) of the fact. Some positions may be NONE."""
    held = _holdings(unit, fact)
    match fact.form:
        case "self" | "precomputed":
            return held.principal, unit.entity_positions(held.entity)
        case "application":
            held = held.select((held.entity == held.application) & (held.application != NONE))
            counts, positions = unit.application_positions(held.application)
            return np.repeat(held.principal, counts), positions
        case "below":
            # a grant counts for the namespace and the application of the granted entity
            containers = np.concatenate([held.subtree, held.application])
            return np.tile(held.principal, 2), unit.entity_positions(containers)
    return _NO_NUMBERS, _NO_NUMBERS


def _subtree_entries(unit: Unit, fact: CompiledFact, directory: Directory) -> tuple[Array, Array]:
    """Return (principal numbers, subtrees) where the fact is true of every target in the subtree."""
    if fact.form not in SUBTREE_FORMS:
        return _NO_NUMBERS, _NO_NUMBERS
    if fact.form == "instance":
        has_privilege = np.isin(directory.instance_privileges, fact.selectors)
        principals = np.unique(directory.instance_principals[has_privilege])
        subtrees = np.unique(unit.segment_subtree)
        return np.repeat(principals, len(subtrees)), np.tile(subtrees, len(principals))
    held = _holdings(unit, fact)
    if fact.form == "namespace":
        held = held.select((held.form != GRANT) | (held.entity == held.subtree))
    principals, subtrees = np.unique(np.stack([held.principal, held.subtree]), axis=1)
    return principals, subtrees
