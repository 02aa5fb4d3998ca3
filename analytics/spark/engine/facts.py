"""Facts in a unit: which principals hold a fact at which positions, as lists of entries and as one row of
bits for each user."""

import sys
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from pyspark import cloudpickle

from analytics.spark.engine.compiled import CompiledFact, CompiledRules
from analytics.spark.engine.layout import ALL_BITS, WORD_BITS, Unit, WordLayout
from analytics.spark.engine.members import EVERYONE, Directory, group_indexes, row_by_offset
from analytics.spark.engine.rows import (
    IN_APPLICATION,
    IN_NAMESPACE,
    NONE,
    Array,
    ContainerGrantRows,
    DescendantGrantRows,
    GrantRows,
    PrecomputedFactRows,
    TenantRows,
    select_rows,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])

_EMPTY = np.empty(0, np.int64)
# (principal numbers, subtree): principals who hold a fact at every target of the subtree
SubtreeHolders = list[tuple[Array, int]]
PrincipalRowsT = TypeVar(
    "PrincipalRowsT", GrantRows, ContainerGrantRows, DescendantGrantRows, PrecomputedFactRows
)
GrantRowsT = TypeVar("GrantRowsT", GrantRows, ContainerGrantRows, DescendantGrantRows)


@dataclass(frozen=True, slots=True, eq=False)
class FactEntries:
    """The holders of one fact in a unit.

    principal, position: the principal number and the position of each entry.
    subtree_holders: principals who hold the fact at every target of a subtree. They have no entries.
    kinds: the numbers of the kinds with a rule that uses the fact.
    """

    principal: Array
    position: Array
    subtree_holders: SubtreeHolders
    kinds: frozenset[int]

    def subset(self, is_kept: Array, new_position: Array) -> "FactEntries":
        """Return the entries at the kept positions, in the layout that Unit.subset returns.

        Both arrays are by position.
        """
        is_entry_kept = is_kept[self.position]
        return FactEntries(
            self.principal[is_entry_kept],
            new_position[self.position[is_entry_kept]],
            self.subtree_holders,
            self.kinds,
        )


def find_entries(
    unit: Unit, rows: TenantRows, rules: CompiledRules, directory: Directory
) -> list[FactEntries]:
    """Return the entries of every fact, by fact number. rows: those of the unit."""
    finder = _EntryFinder(unit, rows, directory)
    entries = []
    for number, fact in enumerate(rules.facts):
        principal, position, subtree_holders = finder.find(number, fact)
        is_used = np.isin(unit.segment_kind, list(fact.kinds))[unit.segments_at(position)]
        entries.append(FactEntries(principal[is_used], position[is_used], subtree_holders, fact.kinds))
    return entries


class _EntryFinder:
    """Finds the entries of facts in the rows of a unit.

    Rows with principals without an active user are removed first.
    """

    def __init__(self, unit: Unit, rows: TenantRows, directory: Directory):
        self._unit, self._directory = unit, directory
        # each as (rows, the principal number of each row)
        self._grants = _rows_and_principals(rows.grants, directory)
        self._container_grants = _rows_and_principals(rows.container_grants, directory)
        self._descendant_grants = _rows_and_principals(rows.descendant_grants, directory)
        self._precomputed_facts = _rows_and_principals(rows.precomputed_facts, directory)

    def find(self, number: int, fact: CompiledFact) -> tuple[Array, Array, SubtreeHolders]:
        """Return (principals, positions, subtree_holders) of one fact."""
        grants, principals = _select_privileges(self._grants, fact.privileges)
        match fact.form:
            case "self":
                positions, is_target = self._unit.entity_positions(grants.entity)
                return principals[is_target], positions, []
            case "precomputed":
                rows, principals = self._precomputed_facts
                is_fact = rows.fact == number
                positions, is_target = self._unit.entity_positions(rows.entity[is_fact])
                return principals[is_fact][is_target], positions, []
            case "application":
                return *self._application_entries(grants, principals, fact), []
            case "below":
                return *self._below_entries(grants, principals, fact), []
            case "namespace":
                container_grants, other_principals = self._select_container_grants(fact, IN_NAMESPACE)
                is_on_namespace = grants.entity == grants.subtree
                return (
                    _EMPTY,
                    _EMPTY,
                    _holders_by_subtree(
                        [principals[is_on_namespace], other_principals],
                        [grants.subtree[is_on_namespace], container_grants.container],
                    ),
                )
            case "instance":
                has_privilege = (fact.privileges >> self._directory.instance_privileges) & 1 == 1
                principals = np.unique(self._directory.instance_principals[has_privilege])
                subtrees = np.unique(self._unit.segment_subtree).tolist() if len(principals) else []
                return _EMPTY, _EMPTY, [(principals, subtree) for subtree in subtrees]
            case "anywhere":
                descendants, other_principals = _select_privileges(self._descendant_grants, fact.privileges)
                is_in_subtree = descendants.container == descendants.subtree
                return (
                    _EMPTY,
                    _EMPTY,
                    _holders_by_subtree(
                        [principals, other_principals[is_in_subtree]],
                        [grants.subtree, descendants.subtree[is_in_subtree]],
                    ),
                )
        raise ValueError(f"`{fact.form}` is not a valid form of a fact")

    def _select_container_grants(self, fact: CompiledFact, scope: int) -> tuple[ContainerGrantRows, Array]:
        rows, principals = _select_privileges(self._container_grants, fact.privileges)
        has_scope = rows.scope == scope
        return select_rows(rows, has_scope), principals[has_scope]

    def _application_entries(
        self, grants: GrantRows, principals: Array, fact: CompiledFact
    ) -> tuple[Array, Array]:
        """Return the entries of a fact for which a grant on an application counts for every target in it."""
        other_grants, other_principals = self._select_container_grants(fact, IN_APPLICATION)
        is_on_application = (grants.entity == grants.application) & (grants.application != NONE)
        applications = np.concatenate([grants.application[is_on_application], other_grants.container])
        counts, positions = self._unit.application_positions(applications)
        return np.repeat(np.concatenate([principals[is_on_application], other_principals]), counts), positions

    def _below_entries(self, grants: GrantRows, principals: Array, fact: CompiledFact) -> tuple[Array, Array]:
        """Return the entries of a fact for which a grant counts for the namespace and the application of the
        granted entity.
        """
        other_grants, other_principals = _select_privileges(self._descendant_grants, fact.privileges)
        positions, is_target = self._unit.entity_positions(
            np.concatenate([grants.subtree, grants.application, other_grants.container])
        )
        return np.concatenate([principals, principals, other_principals])[is_target], positions


def _rows_and_principals(rows: PrincipalRowsT, directory: Directory) -> tuple[PrincipalRowsT, Array]:
    """Return (the rows of principals with at least one active user, the principal number of each row)."""
    principals, is_active = directory.principal_numbers(rows.principal_type, rows.principal)
    return select_rows(rows, is_active), principals


def _select_privileges(
    rows_and_principals: tuple[GrantRowsT, Array], privileges: int
) -> tuple[GrantRowsT, Array]:
    """Return the rows with a privilege in the mask, and their principal numbers."""
    rows, principals = rows_and_principals
    has_privilege = (privileges >> rows.privilege) & 1 == 1
    return select_rows(rows, has_privilege), principals[has_privilege]


def _holders_by_subtree(principals: list[Array], subtrees: list[Array]) -> SubtreeHolders:
    principal, subtree = np.concatenate(principals), np.concatenate(subtrees)
    return [(np.unique(principal[subtree == number]), number) for number in np.unique(subtree).tolist()]


class FactBits:
    """The bits of one fact by user: `word_count` words of a layout, starting with the word `first_word`.

    Each group has a row of bits that is computed once. The row of a user is the OR of the bits of the user's
    own grants and the rows of the user's groups.
    everyone_bits: the bits that every user has.
    """

    def __init__(self, directory: Directory, layout: WordLayout, entries: FactEntries):
        self._layout = layout
        self.first_word, end = layout.word_span(entries.kinds)
        self.word_count = end - self.first_word
        principal, position = entries.principal, entries.position - self.first_word * WORD_BITS
        everyone_positions = position[principal == EVERYONE]
        self.everyone_bits = self._build_bits(
            1, np.zeros(len(everyone_positions), np.int64), everyone_positions
        )[0]
        rows = np.nonzero(principal >= 0)[0]
        # numpy sorts small integer types by radix.
        rows = rows[
            np.argsort(principal[rows].astype(np.min_scalar_type(directory.user_count)), kind="stable")
        ]
        self._own_users, self._own_positions = principal[rows], position[rows]
        self._own_subtrees = [
            (np.sort(principals[principals >= 0]), subtree) for principals, subtree in entries.subtree_holders
        ]
        self._set_group_bits(directory, principal, position, entries.subtree_holders)

    def _build_bits(self, row_count: int, rows: Array, positions: Array) -> Array:
        """Return `row_count` rows of words with these bits set. positions: relative to `first_word`."""
        bits = np.zeros(row_count * self.word_count, np.uint64)
        self._set_bits(bits, rows, positions)
        return bits.reshape(row_count, self.word_count)

    def _set_bits(self, bits: Array, rows: Array, positions: Array) -> None:
        """Set one bit in each of these rows. bits: the words of all rows, one row after the other."""
        words = rows * self.word_count + positions // WORD_BITS
        np.bitwise_or.at(bits, words, np.uint64(1) << (positions % WORD_BITS).astype(np.uint64))

    def _set_group_bits(
        self, directory: Directory, principal: Array, position: Array, subtree_holders: SubtreeHolders
    ) -> None:
        groups = group_indexes(principal)
        subtree_groups = [(group_indexes(principals), subtree) for principals, subtree in subtree_holders]
        self._group_rows = directory.group_row_index(
            [groups, *(groups_of_subtree for groups_of_subtree, _ in subtree_groups)]
        )
        self._group_bits = self._build_bits(
            self._group_rows.row_count, self._group_rows.row_by_group[groups], position[principal < EVERYONE]
        )
        for groups_of_subtree, subtree in subtree_groups:
            self._set_subtree_bits(
                self._group_bits, self._group_rows.row_by_group[groups_of_subtree], subtree
            )

    def _set_subtree_bits(self, bits: Array, rows: Array, subtree: int) -> None:
        """Set all bits of a subtree in these rows."""
        layout = self._layout
        for segment in np.nonzero(layout.segment_subtree == subtree)[0]:
            begin = max(layout.segment_begin[segment], self.first_word)
            end = min(layout.segment_end[segment], self.first_word + self.word_count)
            if begin < end and len(rows):
                bits[rows, begin - self.first_word : end - self.first_word] = ALL_BITS

    def mark_holders(self, is_holder: Array) -> None:
        """Set `is_holder[user index]` for each user who meets the fact anywhere in the layout."""
        for users in (self._own_users, self._group_rows.users, *(users for users, _ in self._own_subtrees)):
            is_holder[users] = True

    def user_bits(self, users: Array) -> Array:
        """Return a row of bits for each of these users.

        users: ascending indexes, with every holder between the first and the last of them.
        """
        row_of_offset = row_by_offset(users)
        bits = self._group_rows.combine(self._group_bits, np.bitwise_or, users)
        if self.everyone_bits.any():
            bits |= self.everyone_bits
        begin, end = np.searchsorted(self._own_users, [users[0], users[-1] + 1])
        self._set_bits(
            bits.reshape(-1),
            row_of_offset[self._own_users[begin:end] - users[0]],
            self._own_positions[begin:end],
        )
        for subtree_users, subtree in self._own_subtrees:
            begin, end = np.searchsorted(subtree_users, [users[0], users[-1] + 1])
            self._set_subtree_bits(bits, row_of_offset[subtree_users[begin:end] - users[0]], subtree)
        return bits
