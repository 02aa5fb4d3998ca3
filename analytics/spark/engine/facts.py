"""Facts in a unit: which principals hold a fact at which targets, as lists of entries and as rows of bits by user."""

import sys
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from pyspark import cloudpickle

from analytics.spark.engine.compiled import CompiledFact, CompiledRules
from analytics.spark.engine.layout import ALL_BITS, WORD_BITS, Unit, WordLayout
from analytics.spark.engine.members import EVERYONE, Directory, groups_of, row_numbers
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
    take,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])

_EMPTY = np.empty(0, np.int64)
FamilyWide = list[tuple[Array, int]]
HeldRows = TypeVar("HeldRows", GrantRows, ContainerGrantRows, DescendantGrantRows, PrecomputedFactRows)
GrantedRows = TypeVar("GrantedRows", GrantRows, ContainerGrantRows, DescendantGrantRows)


@dataclass(frozen=True, slots=True, eq=False)
class FactEntries:
    """The holders of one fact in a unit.

    principal, position: of each entry. family_wide: principals who hold the fact at every target of a family, as (principals,
    family). kinds: the kind numbers whose rules use the fact.
    """

    principal: Array
    position: Array
    family_wide: FamilyWide
    kinds: frozenset[int]

    def subset(self, is_kept: Array, moved: Array) -> "FactEntries":
        """Return the entries at the kept positions, in the layout of Unit.subset."""
        kept = is_kept[self.position]
        return FactEntries(self.principal[kept], moved[self.position[kept]], self.family_wide, self.kinds)


def find_entries(unit: Unit, rows: TenantRows, rules: CompiledRules, directory: Directory) -> list[FactEntries]:
    """Return the entries of every fact, by fact number. rows: those of the unit."""
    finder = _EntryFinder(unit, rows, directory)
    entries = []
    for number, fact in enumerate(rules.facts):
        principal, position, family_wide = finder.find(number, fact)
        is_used = np.isin(unit.run_kind, list(fact.kinds))[unit.runs_at(position)]
        entries.append(FactEntries(principal[is_used], position[is_used], family_wide, fact.kinds))
    return entries


class _EntryFinder:
    """The search for the entries of facts among the rows of a unit. Principals without active users are removed first."""

    def __init__(self, unit: Unit, rows: TenantRows, directory: Directory):
        self._unit, self._directory = unit, directory
        # each with the principal numbers of its rows
        self._grants = _with_principals(rows.grants, directory)
        self._container_grants = _with_principals(rows.container_grants, directory)
        self._descendant_grants = _with_principals(rows.descendant_grants, directory)
        self._precomputed = _with_principals(rows.precomputed_facts, directory)

    def find(self, number: int, fact: CompiledFact) -> tuple[Array, Array, FamilyWide]:
        """Return (principals, positions, family_wide) of one fact."""
        grants, holder = _with_privileges(self._grants, fact.privileges)
        match fact.form:
            case "self":
                position, is_here = self._unit.positions_of(grants.entity)
                return holder[is_here], position, []
            case "precomputed":
                rows, holder = self._precomputed
                rows, holder = take(rows, which := rows.fact == number), holder[which]
                position, is_here = self._unit.positions_of(rows.entity)
                return holder[is_here], position, []
            case "application":
                return *self._in_applications(grants, holder, fact), []
            case "below":
                return *self._below(grants, holder, fact), []
            case "namespace":
                elsewhere, holder_elsewhere = self._on_containers(fact, IN_NAMESPACE)
                is_on_it = grants.entity == grants.family
                return _EMPTY, _EMPTY, _by_family([holder[is_on_it], holder_elsewhere],
                                                  [grants.family[is_on_it], elsewhere.container])
            case "instance":
                holder = self._directory.instance_principals
                holder = np.unique(holder[(fact.privileges >> self._directory.instance_privileges) & 1 == 1])
                families = np.unique(self._unit.run_family).tolist() if len(holder) else []
                return _EMPTY, _EMPTY, [(holder, family) for family in families]
            case "anywhere":
                descendants, holder_of_descendants = _with_privileges(self._descendant_grants, fact.privileges)
                is_in_family = descendants.container == descendants.family
                return _EMPTY, _EMPTY, _by_family([holder, holder_of_descendants[is_in_family]],
                                                  [grants.family, descendants.family[is_in_family]])
        raise ValueError(f"`{fact.form}` is not a form of a fact")

    def _on_containers(self, fact: CompiledFact, scope: int) -> tuple[ContainerGrantRows, Array]:
        rows, holder = _with_privileges(self._container_grants, fact.privileges)
        which = rows.scope == scope
        return take(rows, which), holder[which]

    def _in_applications(self, grants: GrantRows, holder: Array, fact: CompiledFact) -> tuple[Array, Array]:
        """Return the entries of a fact for which a grant on an application counts for every target in it."""
        elsewhere, holder_elsewhere = self._on_containers(fact, IN_APPLICATION)
        is_on_it = (grants.entity == grants.application) & (grants.application != NONE)
        application = np.concatenate([grants.application[is_on_it], elsewhere.container])
        counts, position = self._unit.positions_inside(application)
        return np.repeat(np.concatenate([holder[is_on_it], holder_elsewhere]), counts), position

    def _below(self, grants: GrantRows, holder: Array, fact: CompiledFact) -> tuple[Array, Array]:
        """Return the entries of a fact for which a grant counts for the family and the application of the granted entity."""
        elsewhere, holder_elsewhere = _with_privileges(self._descendant_grants, fact.privileges)
        position, is_here = self._unit.positions_of(
            np.concatenate([grants.family, grants.application, elsewhere.container]))
        return np.concatenate([holder, holder, holder_elsewhere])[is_here], position


def _with_principals(rows: HeldRows, directory: Directory) -> tuple[HeldRows, Array]:
    """Return (the rows whose principal reaches an active user, the principal number of each)."""
    principal, is_reached = directory.principals(rows.principal_type, rows.principal)
    return take(rows, is_reached), principal


def _with_privileges(rows_and_holders: tuple[GrantedRows, Array], privileges: int) -> tuple[GrantedRows, Array]:
    """Return the rows whose privilege is in the mask, and their holders."""
    rows, holder = rows_and_holders
    which = (privileges >> rows.privilege) & 1 == 1
    return take(rows, which), holder[which]


def _by_family(principals: list[Array], families: list[Array]) -> FamilyWide:
    principal, family = np.concatenate(principals), np.concatenate(families)
    return [(np.unique(principal[family == one]), one) for one in np.unique(family).tolist()]


class FactBits:
    """The bits of one fact by user: `width` words of a layout, from the word `begin` on.

    Groups have rows of bits that are made once; the row of a user is the OR of the user's own grants and those of its groups.
    everyone: the words that every user holds.
    """

    def __init__(self, directory: Directory, layout: WordLayout, entries: FactEntries):
        self._layout = layout
        self.begin, end = layout.word_span(entries.kinds)
        self.width = end - self.begin
        principal, position = entries.principal, entries.position - self.begin * WORD_BITS
        of_everyone = position[principal == EVERYONE]
        self.everyone = self._set_bits(1, np.zeros(len(of_everyone), np.int64), of_everyone)[0]
        rows = np.nonzero(principal >= 0)[0]
        # numpy sorts small integer types by radix.
        rows = rows[np.argsort(principal[rows].astype(np.min_scalar_type(directory.user_count)), kind="stable")]
        self._own_user, self._own_position = principal[rows], position[rows]
        self._own_families = [(np.sort(some[some >= 0]), family) for some, family in entries.family_wide]
        self._fill_group_bits(directory, principal, position, entries.family_wide)

    def _set_bits(self, count: int, row: Array, position: Array) -> Array:
        bits = np.zeros(count * self.width, np.uint64)
        np.bitwise_or.at(bits, row * self.width + position // WORD_BITS, np.uint64(1) << (position % WORD_BITS).astype(np.uint64))
        return bits.reshape(count, self.width)

    def _fill_group_bits(self, directory: Directory, principal: Array, position: Array, family_wide: FamilyWide) -> None:
        groups, wide_groups = groups_of(principal), [(groups_of(some), family) for some, family in family_wide]
        self._groups = directory.group_rows([groups, *(some for some, _ in wide_groups)])
        self._group_bits = self._set_bits(self._groups.rows, self._groups.row_of[groups], position[principal < EVERYONE])
        for some, family in wide_groups:
            self._fill_family(self._group_bits, self._groups.row_of[some], family)

    def _fill_family(self, bits: Array, rows: Array, family: int) -> None:
        layout = self._layout
        for run in np.nonzero(layout.run_family == family)[0]:
            begin = max(layout.run_begin[run], self.begin)
            end = min(layout.run_end[run], self.begin + self.width)
            if begin < end and len(rows):
                bits[rows, begin - self.begin : end - self.begin] = ALL_BITS

    def mark_holders(self, is_holder: Array) -> None:
        """Set `is_holder` for every user who holds the fact anywhere in the layout; by user index."""
        for users in (self._own_user, self._groups.users, *(some for some, _ in self._own_families)):
            is_holder[users] = True

    def of(self, users: Array) -> Array:
        """Return the bits of these users. users: ascending indexes, with every holder between the first and the last of them."""
        row_of = row_numbers(users)
        rows = self._groups.combine(self._group_bits, np.bitwise_or, users)
        if self.everyone.any():
            rows |= self.everyone
        begin, end = np.searchsorted(self._own_user, [users[0], users[-1] + 1])
        row, position = row_of[self._own_user[begin:end] - users[0]], self._own_position[begin:end]
        np.bitwise_or.at(rows.reshape(-1), row * self.width + position // WORD_BITS,
                         np.uint64(1) << (position % WORD_BITS).astype(np.uint64))
        for some, family in self._own_families:
            begin, end = np.searchsorted(some, [users[0], users[-1] + 1])
            self._fill_family(rows, row_of[some[begin:end] - users[0]], family)
        return rows
