"""The effect of changes on permissions: totals, people, entities and rows, divided into intended changes and
those beyond.

A permission is one operation on one live entity for one user. A change of a decision is `gained` or `lost`,
and it is `for` the purpose of the changes or `beyond` it.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, reduce
from heapq import nsmallest
from itertools import compress, groupby, islice
from operator import and_, attrgetter, or_
from typing import Any, NamedTuple, TypeVar

from entities.address import Address
from entities.frozen import frozen
from grants.administrators import Strandings
from grants.effects.changes import MAX_TIMES, EffectChange, effect_times
from grants.effects.evaluate import EffectEvaluation, evaluate_changes
from grants.effects.masks import BitCounter, bits_of
from grants.effects.purposes import NamedChanges, Purpose
from grants.effects.situations import AffectedUsers
from grants.effects.strandings import strandings_of
from grants.policies.catalogue import generation_by_name
from grants.policies.levels import LEVELS, Level, LevelCount, level_of, operations_by_level
from grants.policies.policy import Generation
from grants.validity import at_time, question_time

# counting the levels of all 10,000 people would take as long as the rest of an effect
MAX_PEOPLE_WITH_LEVELS = 20
# the digest of an effect lists the bits of masks with at most this many, and has all digits of the others
MAX_LISTED_BITS = 100
# the purpose in a filter that selects what is beyond the purpose and does not come with the grants
SIDE_EFFECTS = "side-effects"
# the digest of an effect that is too large to be computed
TOO_LARGE = "too-large"


class Tally(NamedTuple):
    """Numbers of changed decisions."""

    gained_for: int = 0
    lost_for: int = 0
    gained_beyond: int = 0
    lost_beyond: int = 0

    @property
    def beyond(self) -> int:
        return self.gained_beyond + self.lost_beyond

    @property
    def lost(self) -> int:
        return self.lost_for + self.lost_beyond

    @property
    def total(self) -> int:
        return sum(self)


class Cell(NamedTuple):
    """The users with a changed decision about one operation on one entity, in the order of `Tally`. needs_no_grant: see
    `OperationEffect`.
    """

    address: Address
    operation: str
    gained_for: int
    lost_for: int
    gained_beyond: int
    lost_beyond: int
    needs_no_grant: bool = False

    @property
    def masks(self) -> tuple[int, int, int, int]:
        return self[2:6]


class EffectRow(NamedTuple):
    """One changed decision."""

    user: str
    entity: str
    operation: str
    before: bool
    after: bool
    intended: bool


@frozen
class RowFilter:
    """Which rows to select. user, entity: parts of the names. operation: a name. change: `gained`, `lost` or
    empty for both.
    purpose: `for`, `beyond`, SIDE_EFFECTS or empty for all."""

    user: str = ""
    entity: str = ""
    operation: str = ""
    change: str = ""
    purpose: str = ""

    @property
    def part(self) -> str:
        """The part of a cell that is selected: `for`, `beyond` or empty for both."""
        return "beyond" if self.purpose == SIDE_EFFECTS else self.purpose

    def masks(self, cell: Cell) -> tuple[int, int, int, int]:
        """Return the masks of a cell without the changes that are not selected."""
        if not self.change and not self.purpose:
            return cell.masks
        wanted = (self.change in ("", change) for change in ("gained", "lost", "gained", "lost"))
        purposes = ("for", "for", "beyond", "beyond")
        kept = [
            mask if is_wanted and self.part in ("", purpose) else 0
            for mask, is_wanted, purpose in zip(cell.masks, wanted, purposes, strict=True)
        ]
        return kept[0], kept[1], kept[2], kept[3]

    def selects(self, cell: Cell) -> bool:
        return self.operation in ("", cell.operation) and (
            not self.entity or self.entity.lower() in str(cell.address).lower()
        )


NO_FILTER = RowFilter()


Levels = dict[Level, Tally]


class Figures(NamedTuple):
    """The totals of an effect at one time.

    levels: by access level, the number of (user, entity) with a changed decision about one of its operations.
    An entity with intended changes at a level is not counted beyond the purpose too. levels_by_person: the
    same for the first MAX_PEOPLE_WITH_LEVELS people with a change at a level, in the order of `people`. grantless: how many of the decisions are about operations that need
    no grant; no level counts them.
    people, entities: most changes beyond the purpose first, then most changes, then by name. There can be
    fewer than `people_count` and `entity_count`. operations: by kind and operation, most changes first.
    """

    tally: Tally
    people: Sequence[tuple[str, Tally]]
    people_count: int
    entities: Sequence[tuple[Address, Tally]]
    entity_count: int
    operations: Sequence[tuple[str, str, Tally]]
    levels: Levels
    levels_by_person: Mapping[str, Levels]
    grantless: int = 0


def figures_of(
    cells: Iterable[Cell], names: Sequence[str], generation: Generation, *, max_top: int | None = None
) -> Figures:
    """Count the cells, of which those of an entity follow each other. names: of the bits.

    max_top: how many people and entities are named; by default, all.
    """
    operations: dict[tuple[str, str], list[int]] = {}
    counters = _four_counters()
    by_level: dict[Level, list[BitCounter]] = defaultdict(_four_counters)
    level_cells = LevelCells(generation)
    entity_count = grantless = 0

    def tally_by_entity() -> Iterator[tuple[Address, Tally]]:
        nonlocal entity_count, grantless
        for address, of_entity in groupby(cells, key=attrgetter("address")):
            entity_count += 1
            tally = [0, 0, 0, 0]
            cells_of_entity = list(of_entity)
            for level, masks in level_cells.masks_by_level(cells_of_entity).items():
                for counter, mask in zip(by_level[level], masks, strict=True):
                    counter.add(mask)
            for cell in cells_of_entity:
                total = operations.setdefault((address.kind, cell.operation), [0, 0, 0, 0])
                grantless += cell.needs_no_grant * sum(mask.bit_count() for mask in cell.masks)
                for position, mask in enumerate(cell.masks):
                    if mask:
                        counters[position].add(mask)
                        count = mask.bit_count()
                        tally[position] += count
                        total[position] += count
            yield address, Tally(*tally)

    entities = _first_rows(tally_by_entity(), max_top)
    changed = counters[0].any | counters[1].any | counters[2].any | counters[3].any
    counts = [counter.counts for counter in counters]
    bits = {names[bit]: bit for bit in bits_of(changed)}
    tallies = {name: Tally(*(of_change.get(bit, 0) for of_change in counts)) for name, bit in bits.items()}
    at_levels = reduce(or_, (counter.any for of_level in by_level.values() for counter in of_level), 0)
    return Figures(
        Tally(*map(sum, zip(*operations.values(), strict=True))) if operations else Tally(),
        _first_rows(tallies.items(), max_top),
        len(bits),
        entities,
        entity_count,
        sorted(
            ((*key, Tally(*total)) for key, total in operations.items()),
            key=lambda row: (-row[2].total, row[:2]),
        ),
        {
            level: Tally(*(counter.total for counter in by_level[level]))
            for level in LEVELS
            if level in by_level
        },
        {
            name: {
                level: tally
                for level, of_level in by_level.items()
                if (tally := _tally_of(of_level, bits[name])).total
            }
            for name, _ in _first_rows(
                ((name, tally) for name, tally in tallies.items() if at_levels >> bits[name] & 1),
                MAX_PEOPLE_WITH_LEVELS,
            )
        },
        grantless,
    )


def _four_counters() -> list[BitCounter]:
    return [BitCounter() for _ in range(4)]


def _tally_of(counters: Sequence[BitCounter], bit: int) -> Tally:
    return Tally(*(counter.count(bit) for counter in counters))


class LevelCells:
    """Group the cells of an entity by access level."""

    def __init__(self, generation: Generation):
        self._generation = generation
        self._levels: dict[tuple[str, str], Level] = {}

    def masks_by_level(self, cells: Iterable[Cell]) -> dict[Level, tuple[int, int, int, int]]:
        """Return the users with a change of at least one operation of each level, in the order of `Tally`.

        A user with an intended change at a level does not count beyond the purpose too. Operations that need no grant do not
        count.
        """
        grouped: dict[Level, list[int]] = {}
        for cell in cells:
            if cell.needs_no_grant:
                continue
            masks = grouped.setdefault(self.level(cell), [0, 0, 0, 0])
            for position, mask in enumerate(cell.masks):
                masks[position] |= mask
        return {
            level: (gained_for, lost_for, gained_beyond & ~gained_for, lost_beyond & ~lost_for)
            for level, (gained_for, lost_for, gained_beyond, lost_beyond) in grouped.items()
        }

    def complete_masks(self, cells: Iterable[Cell]) -> dict[Level, tuple[int, int]]:
        """Return the users who gain, and those who lose, all operations of each level on an entity."""
        by_level: dict[Level, list[Cell]] = defaultdict(list)
        for cell in cells:
            by_level[self.level(cell)].append(cell)
        return {
            level: (
                reduce(and_, (cell.gained_for | cell.gained_beyond for cell in of_level)),
                reduce(and_, (cell.lost_for | cell.lost_beyond for cell in of_level)),
            )
            for level, of_level in by_level.items()
            if len(of_level) == len(operations_by_level(self._generation, of_level[0].address.kind)[level])
        }

    def level(self, cell: Cell) -> Level:
        key = cell.address.kind, cell.operation
        if key not in self._levels:
            level = level_of(self._generation, *key)
            assert level is not None, "a decision without a rule does not change"
            self._levels[key] = level
        return self._levels[key]


class LevelChanges(NamedTuple):
    """What one user gains and loses, counted by access level, kind and namespace."""

    gained_for: Sequence[LevelCount] = ()
    lost_for: Sequence[LevelCount] = ()
    gained_beyond: Sequence[LevelCount] = ()
    lost_beyond: Sequence[LevelCount] = ()


Row = TypeVar("Row", bound=tuple)


def _first_rows(rows: Iterable[Row], max_rows: int | None) -> list[Row]:
    def order(row: Row) -> tuple[int, int, str]:
        return -row[1].beyond, -row[1].total, str(row[0])

    return sorted(rows, key=order) if max_rows is None else nsmallest(max_rows, rows, key=order)


class KnownEffect:
    """The effect of changes in one generation: computed at once (`Effect`) or by a job
    (`grants.effects.large.LargeEffect`).

    at: the time of the decisions. digest: two effects with the same digest are the same.
    times: the effects now and at later beginnings, by time, among them this one; empty if nothing begins
    later.
    other_beginnings: the number of later beginnings at which the effect was not evaluated. last_beginning:
    the last of them.
    strandings: the entities that the changes strand; None if the effect does not include them. has_rows:
    whether the rows can be listed.
    """

    generation: str
    at: datetime
    digest: Any
    figures: Any
    strandings: Any
    has_rows: Any = True
    times: Sequence["KnownEffect"]
    other_beginnings: int
    last_beginning: datetime | None

    def filtered_effect(self, where: RowFilter) -> "KnownEffect | None":
        """Return the effect at this time with only the changes that the filter selects; None if it is not
        known.
        """
        raise NotImplementedError

    @property
    def people_with_levels(self) -> Sequence[tuple[str, Tally]]:
        """Those of `people` with changes about other operations than those that need no grant; empty if it is not known."""
        return ()

    def level_changes(self, users: Sequence[str]) -> Mapping[str, LevelChanges]:
        """Return what each of these users gains and loses, by namespace; empty if it is not known."""
        return {}

    def row_count(self, where: RowFilter = NO_FILTER) -> int:
        """Return the number of rows that the filter selects."""
        raise NotImplementedError

    def rows(self, where: RowFilter = NO_FILTER, first_row: int = 0) -> Iterator[EffectRow]:
        """Yield the changed decisions by user, entity and operation, from row number `first_row`."""
        raise NotImplementedError

    @property
    def tally(self) -> Tally:
        return self.figures.tally

    @property
    def has_effect(self) -> bool:
        return bool(self.tally.total)

    @property
    def people(self) -> Sequence[tuple[str, Tally]]:
        return self.figures.people

    @property
    def people_count(self) -> int:
        return self.figures.people_count

    @property
    def entities(self) -> Sequence[tuple[Address, Tally]]:
        return self.figures.entities

    @property
    def entity_count(self) -> int:
        return self.figures.entity_count

    @property
    def operations(self) -> Sequence[tuple[str, str, Tally]]:
        return self.figures.operations

    @property
    def levels(self) -> Levels:
        return self.figures.levels

    @property
    def operation_names(self) -> list[str]:
        return sorted({operation for _, operation, _ in self.operations})

    @property
    def summary(self) -> dict[str, dict[str, int]]:
        """The totals, as in the API."""
        return summary_of(self.tally)

    @property
    def max_gained_beyond(self) -> int:
        """The largest number of permissions that are given beyond the purpose at one of the times."""
        return max(effect.tally.gained_beyond for effect in self.times or [self])

    @property
    def with_attached_intended(self) -> "KnownEffect":
        """The effect as pages describe it: what the changed grants bring with them counts for the purpose. It is not known for
        the effect of a job, which then counts all of it beyond the purpose.
        """
        return self

    @property
    def attached_gains(self) -> int:
        """How many of the permissions that are given beyond the purpose come with the grants."""
        return self.tally.gained_beyond - self.with_attached_intended.tally.gained_beyond

    @property
    def max_side_effects(self) -> int:
        """The largest number of permissions that are given beyond the purpose at one of the times, without those that the
        changed grants bring with them.
        """
        return max(effect.with_attached_intended.tally.gained_beyond for effect in self.times or [self])

    def is_attached(self, row: EffectRow) -> bool:
        """Return whether the changed grants bring the change with them, although it is beyond the purpose."""
        return False


@dataclass
class Effect(KnownEffect):
    """The effect of changes, with all changed decisions.

    names: the affected users; user number i has bit i in the masks of the cells. cells: by entity and
    operation.
    changes, affected: as they count at the time of the decisions. purpose: of the changes.
    """

    generation: str
    names: tuple[str, ...] = ()
    cells: list[Cell] = field(default_factory=list)
    at: datetime = field(default_factory=question_time)
    changes: Sequence[EffectChange] = field(default=(), repr=False, compare=False)
    affected: AffectedUsers | None = field(default=None, repr=False, compare=False)
    purpose: Purpose | None = field(default=None, repr=False, compare=False)
    times: Sequence["Effect"] = field(default=(), repr=False, compare=False)
    other_beginnings: int = 0
    last_beginning: datetime | None = None

    @cached_property
    def strandings(self) -> Strandings:
        """The entities that the changes strand.

        Read this before the changes are made. Runs the queries of `stranded_entities`.
        """
        with at_time(self.at):
            return strandings_of(self.changes, affected=self.affected)

    @cached_property
    def figures(self) -> Figures:
        return figures_of(self.cells, self.names, generation_by_name(self.generation))

    @cached_property
    def with_attached_intended(self) -> "Effect":
        """The effect in which what the changed grants bring with them counts for the purpose.

        A grant brings with it the operations on its entity, up to the access level that the purpose needs, and shows the
        containers of the entity. No narrower grant would leave them out.
        """
        if self.affected is None or self.purpose is None or not self.tally.beyond:
            return self
        users, needed_level = self.purpose.attachment(self.affected, generation_by_name(self.generation))
        level_cells = LevelCells(generation_by_name(self.generation))
        own: dict[Address, int] = defaultdict(int)
        shown: dict[Address, int] = defaultdict(int)
        before, after = self.affected.before, self.affected.after
        for principal, address, _ in after.added | after.removed:
            mask = users & (before.bits.get(principal, 0) | after.bits.get(principal, 0))
            own[address] |= mask
            for entity in (address, *address.ancestors):
                shown[entity] |= mask
        needed = {address: LEVELS[LEVELS.index(needed_level(address)) :] for address in own}

        def describe(cell: Cell) -> Cell:
            if not cell.gained_beyond | cell.lost_beyond:
                return cell
            level = level_cells.level(cell)
            mask = own.get(cell.address, 0) if level in needed.get(cell.address, ()) else 0
            mask |= shown.get(cell.address, 0) if level == Level.SEES else 0
            return cell._replace(
                gained_for=cell.gained_for | cell.gained_beyond & mask,
                lost_for=cell.lost_for | cell.lost_beyond & mask,
                gained_beyond=cell.gained_beyond & ~mask,
                lost_beyond=cell.lost_beyond & ~mask,
            )

        cells = list(map(describe, self.cells))
        # the figures of the same cells are known already
        return self if cells == self.cells else replace(self, cells=cells, purpose=None, times=())

    def is_attached(self, row: EffectRow) -> bool:
        return not row.intended and bool(
            self._attached_masks.get((row.entity, row.operation), 0) >> self.names.index(row.user) & 1
        )

    @cached_property
    def _attached_masks(self) -> dict[tuple[str, str], int]:
        """The users with a change that a grant brings with it, by entity and operation."""
        return {
            (str(cell.address), cell.operation): mask
            for cell, described in zip(self.cells, self.with_attached_intended.cells, strict=True)
            if (mask := (described.gained_for | described.lost_for) & (cell.gained_beyond | cell.lost_beyond))
        }

    @property
    def has_effect(self) -> bool:
        return bool(self.cells)

    @cached_property
    def digest(self) -> str:
        """A hash of all changed decisions, at all times. Two effects with the same digest are the same."""
        if not self.times:
            return self._own_digest
        return hashlib.sha256("\n".join(effect._own_digest for effect in self.times).encode()).hexdigest()[
            :32
        ]

    @cached_property
    def _own_digest(self) -> str:
        changed = 0
        for cell in self.cells:
            changed |= cell.gained_for | cell.lost_for | cell.gained_beyond | cell.lost_beyond
        bits = bits_of(changed)
        content = hashlib.sha256(f"{self.generation}\n".encode())
        content.update("\n".join(self.names[bit] for bit in bits).encode())
        # without the users without changes, because they do not belong to the effect
        width, ranks = len(self.names), {bit: str(rank) for rank, bit in enumerate(bits)}
        kept = None if len(bits) == width else [digit == "1" for digit in f"{changed:0{width}b}"]
        # many cells have the same masks
        hashes: dict[int, str] = {0: ""}
        for cell in self.cells:
            for mask in cell.masks:
                if mask in hashes:
                    continue
                if mask.bit_count() <= MAX_LISTED_BITS:
                    text = ",".join(ranks[bit] for bit in bits_of(mask))
                else:
                    digits = f"{mask:0{width}b}"
                    text = "".join(compress(digits, kept)) if kept else digits
                hashes[mask] = hashlib.sha256(text.encode()).hexdigest()[:32]
            content.update(
                f"\n{cell.address} {cell.operation} {' '.join(hashes[mask] for mask in cell.masks)}".encode()
            )
        return content.hexdigest()[:32]

    @property
    def people_with_levels(self) -> list[tuple[str, Tally]]:
        changed = reduce(
            or_, (mask for cell in self.cells if not cell.needs_no_grant for mask in cell.masks), 0
        )
        names = {self.names[bit] for bit in bits_of(changed)}
        return [(name, tally) for name, tally in self.people if name in names]

    def level_changes(self, users: Sequence[str]) -> dict[str, LevelChanges]:
        """Return what each of these users gains and loses, counted by access level, kind and namespace."""
        bits = {self.names.index(name): name for name in users}
        mask = sum(1 << bit for bit in bits)
        found: dict[str, list[dict]] = {name: [{} for _ in range(4)] for name in users}
        level_cells = LevelCells(generation_by_name(self.generation))
        for address, group in groupby(self.cells, key=attrgetter("address")):
            namespace, cells = address.namespace, list(group)
            complete = level_cells.complete_masks(cells)
            for level, masks in level_cells.masks_by_level(cells).items():
                in_full = complete.get(level, (0, 0))
                for position, changed in enumerate(masks):
                    for bit in bits_of(changed & mask) if changed & mask else ():
                        is_partial = not in_full[position % 2] >> bit & 1
                        key = level, address.kind, namespace.key if namespace else "", is_partial
                        # the number of entities, and the first of them
                        found[bits[bit]][position].setdefault(key, [0, address])[0] += 1
        return {
            name: LevelChanges(
                *(
                    [
                        LevelCount(level, kind, namespace, count, address if count == 1 else None, is_partial)
                        for (level, kind, namespace, is_partial), (count, address) in of_user.items()
                    ]
                    for of_user in of_all
                )
            )
            for name, of_all in found.items()
        }

    def rows(self, where: RowFilter = NO_FILTER, first_row: int = 0) -> Iterator[EffectRow]:
        cells = self._selected_cells(where)
        counts = _counts(masks for _, masks in cells).counts if first_row else {}
        # the names are sorted, so their bits are too
        for bit in self._selected_bits(where, cells):
            if first_row and first_row >= counts[bit]:
                first_row -= counts[bit]
                continue
            yield from islice(self._rows_of_user(bit, cells), first_row, None)
            first_row = 0

    def filtered_effect(self, where: RowFilter) -> "Effect":
        users = sum(1 << bit for bit, name in enumerate(self.names) if where.user.lower() in name.lower())
        cells = (
            Cell(
                cell.address,
                cell.operation,
                *(mask & users for mask in masks),
                needs_no_grant=cell.needs_no_grant,
            )
            for cell, masks in self._selected_cells(where)
        )
        return replace(self, cells=[cell for cell in cells if any(cell.masks)], times=())

    def row_count(self, where: RowFilter = NO_FILTER) -> int:
        if where == NO_FILTER:
            return self.tally.total
        cells = self._selected_cells(where)
        counts = _counts(masks for _, masks in cells).counts
        return sum(counts[bit] for bit in self._selected_bits(where, cells))

    def _selected_cells(self, where: RowFilter) -> list[tuple[Cell, tuple[int, int, int, int]]]:
        """Return the selected cells with their selected masks."""
        effect = self.with_attached_intended if where.purpose == SIDE_EFFECTS else self
        cells = [(cell, where.masks(cell)) for cell in effect.cells if where.selects(cell)]
        return [row for row in cells if any(row[1])]

    def _selected_bits(
        self, where: RowFilter, cells: Iterable[tuple[Cell, tuple[int, int, int, int]]]
    ) -> list[int]:
        """Return the selected users with a change in these cells."""
        changed = 0
        for _, masks in cells:
            changed |= masks[0] | masks[1] | masks[2] | masks[3]
        return [bit for bit in bits_of(changed) if where.user.lower() in self.names[bit].lower()]

    def _rows_of_user(
        self, bit: int, cells: Iterable[tuple[Cell, tuple[int, int, int, int]]]
    ) -> Iterator[EffectRow]:
        name, mask, rows = self.names[bit], 1 << bit, []
        for cell, (gained_for, lost_for, gained_beyond, lost_beyond) in cells:
            if (gained_for | gained_beyond) & mask:
                rows.append((str(cell.address), cell.operation, False, True, bool(gained_for & mask)))
            elif (lost_for | lost_beyond) & mask:
                rows.append((str(cell.address), cell.operation, True, False, bool(lost_for & mask)))
        for row in sorted(rows):
            yield EffectRow(name, *row)


def summary_of(tally: Tally) -> dict[str, dict[str, int]]:
    """Return a tally as in the API."""
    return {
        "for": {"gained": tally.gained_for, "lost": tally.lost_for},
        "beyond": {"gained": tally.gained_beyond, "lost": tally.lost_beyond},
    }


def effect_of(
    changes: Iterable[EffectChange],
    generation: Generation,
    purpose: Purpose | None = None,
    at: datetime | None = None,
) -> Effect:
    """Return the effect of changes that are not made yet.

    purpose: by default, the changed grants themselves. at: evaluate the effect at this time only. By default,
    evaluate it now and at later beginnings, MAX_TIMES times in all, and return the effect now. If there is
    none now, return the one at the first beginning with an effect. If there is none at any time, return the
    one at the first time at which entities are stranded. The `times` of the result contains all of them.
    Raise EffectTooLarge. Runs the queries of `evaluate_changes` for each time.
    """
    changes = list(changes)
    times = [at] if at else effect_times(changes)
    effects = [_effect_at(changes, generation, purpose, time) for time in times[:MAX_TIMES]]
    relevant = [effect for effect in effects if effect.has_effect] or [
        effect for effect in effects if effect.strandings.entities
    ]
    effect, others = (relevant or effects)[0], times[MAX_TIMES:]
    if len(effects) > 1:
        effect.times, effect.other_beginnings, effect.last_beginning = (
            effects,
            len(others),
            others[-1] if others else None,
        )
    return effect


def _effect_at(
    changes: list[EffectChange], generation: Generation, purpose: Purpose | None, at: datetime
) -> Effect:
    # the masks of named changes are those of one time
    purpose = purpose or NamedChanges(changes)
    evaluation = evaluate_changes(changes, generation, purpose.reference, at)
    return Effect(
        generation.name,
        evaluation.affected.names,
        list(cells_of(evaluation, purpose)),
        evaluation.at,
        evaluation.changes,
        evaluation.affected,
        purpose,
    )


def cells_of(evaluation: EffectEvaluation, purpose: Purpose) -> Iterator[Cell]:
    """Yield the changed decisions by entity and operation, divided into intended changes and those beyond the
    purpose.
    """
    for entity in evaluation.entities:
        for of_rule in entity.operations:
            for operation in of_rule.operations:
                intended = purpose.intended_users(evaluation.affected, entity.address, operation, of_rule)
                yield Cell(
                    entity.address,
                    operation,
                    of_rule.gained & intended,
                    of_rule.lost & intended,
                    of_rule.gained & ~intended,
                    of_rule.lost & ~intended,
                    of_rule.needs_no_grant,
                )


def _counts(cells: Iterable[tuple[int, int, int, int]]) -> BitCounter:
    counter = BitCounter()
    for masks in cells:
        # no user both gains and loses the same permission
        counter.add(masks[0] | masks[1] | masks[2] | masks[3])
    return counter
