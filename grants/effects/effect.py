"""The effect of changes on permissions: totals, people, entities and rows, divided into intended changes and those beyond.

A permission is one operation on one live entity for one user. A change of a decision is `gained` or `lost`, and it is `for` the
purpose of the changes or `beyond` it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from entities.address import Address
from grants.effects.changes import EffectChange
from grants.effects.evaluate import Evaluation, evaluate_changes
from grants.effects.masks import BitCounter, bits_of
from grants.effects.purposes import NamedChanges, Purpose
from grants.policies.policy import Generation


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
    def total(self) -> int:
        return sum(self)


class Cell(NamedTuple):
    """The users with a changed decision about one operation on one entity, in the order of `Tally`."""

    address: Address
    operation: str
    gained_for: int
    lost_for: int
    gained_beyond: int
    lost_beyond: int

    @property
    def masks(self) -> tuple[int, int, int, int]:
        return self[2:]


class EffectRow(NamedTuple):
    """One changed decision."""

    user: str
    entity: str
    operation: str
    before: bool
    after: bool
    intended: bool


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows to select. user, entity: parts of the names. operation: a name. change: `gained`, `lost` or empty for both.
    purpose: `for`, `beyond` or empty for both."""

    user: str = ""
    entity: str = ""
    operation: str = ""
    change: str = ""
    purpose: str = ""

    def masks(self, cell: Cell) -> tuple[int, int, int, int]:
        """Return the masks of a cell without the changes that are not selected."""
        wanted = (change in ("", self.change) or not self.change for change in ("gained", "lost", "gained", "lost"))
        purposes = ("for", "for", "beyond", "beyond")
        kept = [mask if is_wanted and self.purpose in ("", purpose) else 0
                for mask, is_wanted, purpose in zip(cell.masks, wanted, purposes, strict=True)]
        return kept[0], kept[1], kept[2], kept[3]

    def selects(self, cell: Cell) -> bool:
        return self.entity.lower() in str(cell.address).lower() and self.operation in ("", cell.operation)


NO_FILTER = RowFilter()


@dataclass
class Effect:
    """The effect of changes in one generation.

    names: the affected users; user number i has bit i in the masks of the cells. cells: by entity and operation.
    """

    generation: str
    names: tuple[str, ...] = ()
    cells: list[Cell] = field(default_factory=list)

    @cached_property
    def tally(self) -> Tally:
        return self._tallies(lambda cell: None).get(None, Tally())

    @property
    def has_effect(self) -> bool:
        return bool(self.cells)

    @cached_property
    def people(self) -> list[tuple[str, Tally]]:
        """The users with changes: most changes beyond the purpose first, then most changes, then by name."""
        counters = [BitCounter() for _ in range(4)]
        for cell in self.cells:
            for counter, mask in zip(counters, cell.masks, strict=True):
                if mask:
                    counter.add(mask)
        changed = counters[0].any | counters[1].any | counters[2].any | counters[3].any
        rows = [(self.names[bit], Tally(*(counter.count(bit) for counter in counters))) for bit in bits_of(changed)]
        return sorted(rows, key=lambda row: (-row[1].beyond, -row[1].total, row[0]))

    @cached_property
    def operations(self) -> list[tuple[str, str, Tally]]:
        """The tally of each kind and operation, most changes first."""
        tallies = self._tallies(lambda cell: (cell.address.kind, cell.operation))
        return sorted(((*key, tally) for key, tally in tallies.items()), key=lambda row: (-row[2].total, row[:2]))

    @cached_property
    def entities(self) -> list[tuple[Address, Tally]]:
        """The tally of each entity: most changes beyond the purpose first, then most changes, then by address."""
        tallies = self._tallies(lambda cell: cell.address)
        return sorted(tallies.items(), key=lambda row: (-row[1].beyond, -row[1].total, str(row[0])))

    def _tallies(self, key_of: Callable[[Cell], Any]) -> dict[Any, Tally]:
        totals: dict[Any, list[int]] = {}
        for cell in self.cells:
            total = totals.setdefault(key_of(cell), [0, 0, 0, 0])
            for position, mask in enumerate(cell.masks):
                if mask:
                    total[position] += mask.bit_count()
        return {key: Tally(*total) for key, total in totals.items()}

    @property
    def summary(self) -> dict[str, dict[str, int]]:
        """The totals, as in the API."""
        tally = self.tally
        return {"for": {"gained": tally.gained_for, "lost": tally.lost_for},
                "beyond": {"gained": tally.gained_beyond, "lost": tally.lost_beyond}}

    @cached_property
    def digest(self) -> str:
        """A hash of all changed decisions. Two effects with the same digest are the same."""
        changed = 0
        for cell in self.cells:
            changed |= cell.gained_for | cell.lost_for | cell.gained_beyond | cell.lost_beyond
        bits = bits_of(changed)
        content = hashlib.sha256(f"{self.generation}\n".encode())
        is_compact = len(bits) == len(self.names)
        content.update("\n".join(self.names[bit] for bit in bits).encode())
        positions = {bit: number for number, bit in enumerate(bits)}
        for cell in self.cells:
            masks = cell.masks if is_compact else [sum(1 << positions[bit] for bit in bits_of(mask)) for mask in cell.masks]
            content.update(f"\n{cell.address} {cell.operation} {' '.join(f'{mask:x}' for mask in masks)}".encode())
        return content.hexdigest()[:32]

    def rows(self, where: RowFilter = NO_FILTER, first_row: int = 0) -> Iterator[EffectRow]:
        """Yield the changed decisions by user, entity and operation, from row number `first_row`."""
        cells = self._selected(where)
        counts = _counts(masks for _, masks in cells)
        bits = [bit for bit in bits_of(counts.any) if where.user.lower() in self.names[bit].lower()]
        for bit in sorted(bits, key=lambda bit: self.names[bit]):
            count = counts.count(bit)
            if first_row >= count:
                first_row -= count
                continue
            yield from islice(self._rows_of_user(bit, cells), first_row, None)
            first_row = 0

    def row_count(self, where: RowFilter = NO_FILTER) -> int:
        """Return the number of rows that the filter selects."""
        counts = _counts(masks for _, masks in self._selected(where))
        return sum(counts.count(bit) for bit in bits_of(counts.any) if where.user.lower() in self.names[bit].lower())

    def _selected(self, where: RowFilter) -> list[tuple[Cell, tuple[int, int, int, int]]]:
        """Return the selected cells by address as text, with their selected masks."""
        cells = [(cell, where.masks(cell)) for cell in self.cells if where.selects(cell)]
        return sorted((row for row in cells if any(row[1])), key=lambda row: (str(row[0].address), row[0].operation))

    def _rows_of_user(self, bit: int, cells: Iterable[tuple[Cell, tuple[int, int, int, int]]]) -> Iterator[EffectRow]:
        name, mask = self.names[bit], 1 << bit
        for cell, (gained_for, lost_for, gained_beyond, lost_beyond) in cells:
            if (gained_for | gained_beyond) & mask:
                yield EffectRow(name, str(cell.address), cell.operation, False, True, bool(gained_for & mask))
            elif (lost_for | lost_beyond) & mask:
                yield EffectRow(name, str(cell.address), cell.operation, True, False, bool(lost_for & mask))


def effect_of(changes: Iterable[EffectChange], generation: Generation, purpose: Purpose | None = None) -> Effect:
    """Return the effect of changes that are not made yet. purpose: by default, the changed grants themselves.

    Raise EffectTooLarge. The queries are those of `evaluate_changes`.
    """
    changes = list(changes)
    purpose = purpose or NamedChanges(changes)
    evaluation = evaluate_changes(changes, generation, purpose.reference)
    return Effect(generation.name, evaluation.cast.names, list(_cells(evaluation, purpose)))


def _cells(evaluation: Evaluation, purpose: Purpose) -> Iterator[Cell]:
    for entity in evaluation.entities:
        for of_rule in entity.operations:
            for operation in of_rule.operations:
                intended = purpose.intended(evaluation.cast, entity.address, operation, of_rule)
                yield Cell(entity.address, operation, of_rule.gained & intended, of_rule.lost & intended,
                           of_rule.gained & ~intended, of_rule.lost & ~intended)


def _counts(cells: Iterable[tuple[int, int, int, int]]) -> BitCounter:
    counter = BitCounter()
    for masks in cells:
        # no user both gains and loses the same permission
        counter.add(masks[0] | masks[1] | masks[2] | masks[3])
    return counter
