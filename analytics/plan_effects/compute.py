"""Compute the effect of a plan or of single changes of any size in the worker, and write its rows as the
report of a run.

The evaluator is that of small effects, namespace by namespace (`grants.effects.evaluate`). Everything is read
in one transaction. The figures count all changed decisions; the rows are written up to a limit.
"""

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics.arrow import arrow_schema
from analytics.models import RunStage
from analytics.plan_effects.sources import EffectSource
from analytics.report import ComputedReport, Progress
from analytics.results.files import table_path, write_index
from analytics.snapshots.snapshot import consistent_read, data_head
from analytics.storage import storage_root
from analytics.tables import PLAN_EFFECT_TABLES, Table
from grants.effects.changes import MAX_TIMES, EffectChange, changes_at, effect_times, next_limit
from grants.effects.effect import Cell, cells_of
from grants.effects.evaluate import evaluation_by_namespace
from grants.effects.masks import BitCounter, bits_of
from grants.effects.strandings import strandings_of
from grants.policies.catalogue import generation_by_name
from grants.policies.times import format_time
from grants.validity import at_time, next_change_of_time, question_time

# how many of the most affected users and entities the summary names
MAX_TOP = 20
ROWS_PER_FILE = 250_000


@dataclass
class _Rows:
    """The changed decisions of an effect, as numbers of users and cells."""

    cells: list[tuple[str, str]] = field(default_factory=list)
    users: array = field(default_factory=lambda: array("I"))
    cell_numbers: array = field(default_factory=lambda: array("I"))
    # 1 for a permission that is given, 2 for the purpose
    flags: bytearray = field(default_factory=bytearray)

    def add(self, cell: Cell) -> None:
        number = len(self.cells)
        self.cells.append((str(cell.address), cell.operation))
        for flags, mask in zip((3, 2, 1, 0), cell.masks, strict=True):
            if mask:
                bits = bits_of(mask)
                self.users.extend(bits)
                self.cell_numbers.extend([number] * len(bits))
                self.flags.extend(bytes((flags,)) * len(bits))

    def write(self, names: Sequence[str], table: Table, folder: str) -> None:
        """Write the rows by user, entity and operation. names: of the users, sorted."""
        filesystem, _ = storage_root()
        path = table_path(table, folder)
        filesystem.create_dir(path, recursive=True)
        count = len(self.users)
        ranks = array("I", bytes(4 * len(self.cells)))
        for rank, number in enumerate(sorted(range(len(self.cells)), key=self.cells.__getitem__)):
            ranks[number] = rank
        numbers = _arrow_array(self.cell_numbers)
        rows = pa.table(
            {"user": _arrow_array(self.users), "rank": _arrow_array(ranks).take(numbers), "cell": numbers}
        )
        order = pc.sort_indices(rows, sort_keys=[("user", "ascending"), ("rank", "ascending")])
        flags = pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(bytes(self.flags))])
        users = pa.array(names, pa.string())
        entities, operations = (
            (pa.array(values, pa.string()) for values in zip(*self.cells, strict=True))
            if count
            else (pa.array([], pa.string()),) * 2
        )
        schema = arrow_schema(table)
        for start in range(0, max(1, count), ROWS_PER_FILE):
            chosen = order.slice(start, ROWS_PER_FILE)
            cell, flag = numbers.take(chosen), flags.take(chosen)
            is_given = pc.not_equal(pc.bit_wise_and(flag, 1), 0)
            values = {
                "user": users.take(rows["user"].combine_chunks().take(chosen)),
                "entity": entities.take(cell),
                "operation": operations.take(cell),
                "before": pc.invert(is_given),
                "after": is_given,
                "intended": pc.not_equal(pc.bit_wise_and(flag, 2), 0),
            }
            part = pa.table([values[name] for name in schema.names], schema=schema)
            pq.write_table(part, f"{path}/part-{start // ROWS_PER_FILE:05}.parquet", filesystem=filesystem)
        write_index(table, folder)


class _Figures:
    """The totals of an effect, and its rows if there are at most `max_rows`. Tallies have the order of
    `Tally`.
    """

    def __init__(self, cells: Iterable[Cell], names: Sequence[str], max_rows: int):
        self.names, self.totals = names, [0, 0, 0, 0]
        self.operations: dict[tuple[str, str], list[int]] = {}
        self.entity_count = 0
        self._counters = [BitCounter() for _ in range(4)]
        self.rows: _Rows | None = _Rows()
        self.max_rows = max_rows
        self.top_entities = nsmallest(MAX_TOP, self._read(cells), key=_order)
        self.people = self._people()

    def _read(self, cells: Iterable[Cell]) -> Iterator[tuple[str, list[int]]]:
        """Count the cells, and yield the tally of each entity."""
        for address, of_entity in groupby(cells, key=lambda cell: cell.address):
            tally = [0, 0, 0, 0]
            for cell in of_entity:
                counts = [mask.bit_count() for mask in cell.masks]
                for totals in (
                    tally,
                    self.operations.setdefault((address.kind, cell.operation), [0, 0, 0, 0]),
                ):
                    totals[:] = map(sum, zip(totals, counts, strict=True))
                for counter, mask in zip(self._counters, cell.masks, strict=True):
                    if mask:
                        counter.add(mask)
                if self.rows is not None:
                    self.rows.add(cell)
            self.entity_count += 1
            self.totals = list(map(sum, zip(self.totals, tally, strict=True)))
            if self.row_count > self.max_rows:
                self.rows = None
            yield str(address), tally

    @property
    def row_count(self) -> int:
        return sum(self.totals)

    def _people(self) -> list[tuple[str, list[int]]]:
        changed = 0
        for counter in self._counters:
            changed |= counter.any
        return [
            (self.names[bit], [counter.count(bit) for counter in self._counters]) for bit in bits_of(changed)
        ]

    def as_json(self, table: Table) -> dict:
        operations = sorted(self.operations.items(), key=lambda row: (-sum(row[1]), row[0]))
        return {
            "table": table.name,
            "tally": self.totals,
            "people": nsmallest(MAX_TOP, self.people, key=_order),
            "people_count": len(self.people),
            "entities": self.top_entities,
            "entity_count": self.entity_count,
            "operations": [[*key, totals] for key, totals in operations],
        }


def compute_effect(source: EffectSource, *, folder: str, max_rows: int, progress: Progress) -> ComputedReport:
    """Write the changed decisions into `folder`, below SNAPSHOT_URI. Return the figures as the summary.

    The effect is evaluated at the same times as by `grants.effects.effect.effect_of`, and has a table of rows
    for each of them.
    max_rows: the rows of a time are left out if they and those of the earlier times are more. Raise
    AnalysisError if the changes cannot be made any more, StorageError, and the exceptions of
    `progress.check`.
    """
    progress.begin_stage(RunStage.COMPUTING)
    effects, left_out = [], {}
    with consistent_read(), at_time() as now:
        head, changes = data_head(), source.changes()
        times = effect_times(changes)
        for table, at in zip(PLAN_EFFECT_TABLES, times[:MAX_TIMES], strict=False):
            with at_time(at):
                figures, values = _compute_at_time(source, changes, table, max_rows, progress)
            effects.append(values)
            if figures.rows is None:
                left_out[table.name] = figures.row_count
            else:
                max_rows -= figures.row_count
                figures.rows.write(figures.names, table, folder)
        limits = [
            limit for limit in (next_limit(changes, now), next_change_of_time(now)) if limit is not None
        ]
    summary = _summary(source, head.hash, effects, times) | {
        "tables_left_out": left_out,
        "other_beginnings": len(times[MAX_TIMES:]),
        "last_beginning": format_time(times[-1]) if times[MAX_TIMES:] else "",
        "valid_until": format_time(min(limits)) if limits else "",
    }
    return ComputedReport(head.revision, summary)


def _compute_at_time(
    source: EffectSource, all_changes: Sequence[EffectChange], table: Table, max_rows: int, progress: Progress
) -> tuple[_Figures, dict]:
    """Return the figures at the time of the question."""

    def on_progress(done: int, total: int) -> None:
        progress.show_progress(done, total)
        progress.check()

    changes = changes_at(all_changes, question_time())
    purpose = source.purpose(changes)
    evaluation = evaluation_by_namespace(
        changes, generation_by_name(source.generation), purpose.reference, on_progress
    )
    figures = _Figures(cells_of(evaluation, purpose), evaluation.affected.names, max_rows)
    values = figures.as_json(table)
    if source.counts_strandings:
        without_admin, one_admin, entities = strandings_of(changes, MAX_TOP, evaluation.affected)
        values["strandings"] = {
            "without_admin": without_admin,
            "one_admin": one_admin,
            "entities": [[str(row.address), row.admin_count] for row in entities],
        }
    return figures, values


def _order(row: tuple[str, list[int]]) -> tuple[int, int, str]:
    name, tally = row
    return -sum(tally[2:]), -sum(tally), name


def _arrow_array(numbers: array) -> pa.Array:
    return pa.Array.from_buffers(pa.uint32(), len(numbers), [None, pa.py_buffer(numbers)])


def _summary(source: EffectSource, head_hash: str, effects: list[dict], times: Sequence[datetime]) -> dict:
    """Return the figures at the first time with an effect, and if there are several times, those at each time
    as `times`.
    """
    # The digest follows from the changes and the data. Without the present time, it is that of a repeated run.
    content = json.dumps([source.identity, source.generation, head_hash, effects])
    for values, at in zip(effects, times, strict=False):
        values["at"] = format_time(at)
    main = next((values for values in effects if any(values["tally"])), effects[0])
    return main | {
        "generation": source.generation,
        "digest": hashlib.sha256(content.encode()).hexdigest()[:32],
        "times": effects if len(effects) > 1 else [],
        "detail_rows": sum(sum(values["tally"]) for values in effects),
    }
