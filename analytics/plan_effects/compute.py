"""Compute the effect of a plan or of single changes of any size with Spark, and write its rows as the report
of a run.

A snapshot is the state before the changes. The changes are read from the database (`sources`) in the
transaction of the snapshot. Grants and memberships begin and end, so each of the times at which the effect is
evaluated has a snapshot; times with the same state share it. The figures count all changed decisions; the
rows are written up to a limit.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import pyarrow.parquet as pq

from analytics.arrow import arrow_schema
from analytics.java import java_problem
from analytics.models import RunStage
from analytics.plan_effects.changes import EffectInput, read_effect_input
from analytics.plan_effects.sources import EffectSource
from analytics.report import ComputedReport, Progress
from analytics.results.files import table_path, write_index
from analytics.snapshots.snapshot import Snapshot, lease_snapshot
from analytics.snapshots.spark_tables import tables_of_snapshot
from analytics.spark.effects.rules import effect_rules
from analytics.spark.effects.tallies import COUNTS, EffectFigures, Tallies
from analytics.spark.effects.tenant import marked_tables
from analytics.spark.engine import PairTable, evaluate_rules, release_broadcasts
from analytics.spark.schemas import Tables, write_table
from analytics.spark.session import SparkUnavailable
from analytics.storage import spark_uri, storage_path, storage_root
from analytics.tables import PLAN_EFFECT_TABLES, Table
from grants.administrators import Strandings
from grants.effects.changes import MAX_TIMES, changes_at, effect_times, next_limit
from grants.effects.strandings import strandings_of
from grants.policies.times import format_time
from grants.validity import at_time, next_change_of_time, question_time

# how many of the most affected users and entities the summary names
MAX_TOP = 20


@dataclass(frozen=True, slots=True)
class _TimedFigures:
    """The effect at one time.

    table: of its rows. snapshot: the state before the changes. is_written: whether the rows were written.
    strandings: None if the source does not count them.
    """

    at: datetime
    table: Table
    snapshot: Snapshot
    figures: EffectFigures
    is_written: bool
    strandings: Strandings | None

    @property
    def row_count(self) -> int:
        return sum(self.figures.totals)

    def as_json(self) -> dict:
        """Return the figures; each tally is a list in the order of `Tally`."""
        operations = sorted(self.figures.operations.items(), key=lambda row: (-sum(row[1]), row[0]))
        values = asdict(self.figures)
        content = (
            {"table": self.table.name, "tally": values.pop("totals")}
            | values
            | {"operations": [[*key, totals] for key, totals in operations]}
        )
        if self.strandings is None:
            return content
        without_admin, one_admin, entities = self.strandings
        return content | {
            "strandings": {
                "without_admin": without_admin,
                "one_admin": one_admin,
                "entities": [[str(row.address), row.admin_count] for row in entities],
            }
        }


def compute_effect(source: EffectSource, *, folder: str, max_rows: int, progress: Progress) -> ComputedReport:
    """Write the changed decisions into `folder`, below SNAPSHOT_URI. Return the figures as the summary.

    The effect is evaluated at the same times as by `grants.effects.effect.effect_of`, and has a table of rows
    for each of them.
    max_rows: the rows of a time are left out if they and those of the earlier times are more. Raise
    AnalysisError if the changes cannot be made any more, SparkUnavailable (SparkExited if Java ended),
    StorageError, the exceptions of Spark and those of `progress.check`.
    """
    if problem := java_problem():
        raise SparkUnavailable(problem)
    progress.begin_stage(RunStage.SNAPSHOT)
    changes = source.changes()
    effects: list[_TimedFigures] = []
    with at_time() as now:
        times = effect_times(changes)
        for table, at in zip(PLAN_EFFECT_TABLES, times[:MAX_TIMES], strict=False):
            free_rows = max_rows - sum(effect.row_count for effect in effects if effect.is_written)
            with at_time(at):
                effects.append(_compute_at_time(source, table, folder, free_rows, progress))
        limits = [
            limit for limit in (next_limit(changes, now), next_change_of_time(now)) if limit is not None
        ]
    summary = _summary(source, effects) | {
        "other_beginnings": len(times[MAX_TIMES:]),
        "last_beginning": format_time(times[-1]) if times[MAX_TIMES:] else "",
        "valid_until": format_time(min(limits)) if limits else "",
    }
    # A later snapshot may have a later revision. If a line until then can change a decision, the effect is
    # outdated at once.
    return ComputedReport(effects[0].snapshot.revision, summary)


def _compute_at_time(
    source: EffectSource, table: Table, folder: str, max_rows: int, progress: Progress
) -> _TimedFigures:
    """Return the figures at the time of the question.

    Write the rows, or an index without rows, if there are not too many.
    """
    inputs: list[tuple[EffectInput, Strandings | None]] = []
    progress.begin_stage(RunStage.SNAPSHOT)
    with lease_snapshot(check=progress.check, read=lambda: inputs.append(_read_input(source))) as snapshot:
        effect_input, strandings = inputs[-1]
        figures = _no_figures()
        if effect_input.changes.users:
            tables = tables_of_snapshot(snapshot, progress)
            progress.begin_stage(RunStage.COMPUTING)
            figures = _compute(tables, effect_input, table, folder, max_rows, progress)
    row_count = sum(figures.totals)
    if not row_count:
        _write_no_rows(table, folder)
    if is_written := row_count <= max_rows:
        write_index(table, folder)
    return _TimedFigures(question_time(), table, snapshot, figures, is_written, strandings)


def _read_input(source: EffectSource) -> tuple[EffectInput, Strandings | None]:
    changes = changes_at(source.changes(), question_time())
    strandings = strandings_of(changes, MAX_TOP) if source.counts_strandings else None
    return read_effect_input(changes, source.purpose(changes), source.generation), strandings


def _compute(
    tables: Tables, effect_input: EffectInput, table: Table, folder: str, max_rows: int, progress: Progress
) -> EffectFigures:
    """Return the figures. Write the rows if there is at least one and at most `max_rows`."""
    tenant = marked_tables(tables, effect_input.changes, effect_input.question)
    rule_set = effect_rules(effect_input.question)
    with (
        release_broadcasts(),
        Tallies(tenant, rule_set, [name for _, name in effect_input.changes.users]) as tallies,
    ):
        figures = tallies.figures(MAX_TOP)
        progress.check()
        progress.begin_stage(RunStage.WRITING)
        if 0 < sum(figures.totals) <= max_rows:
            rows = evaluate_rules(tenant, rule_set, PairTable(table, tallies.pair_counts))
            write_table(rows, table, spark_uri(storage_path(f"{folder}/{table.name}")))
    return figures


def _no_figures() -> EffectFigures:
    return EffectFigures([0] * len(COUNTS), [], 0, [], 0, {})


def _write_no_rows(table: Table, folder: str) -> None:
    filesystem, _ = storage_root()
    path = table_path(table, folder)
    filesystem.create_dir(path, recursive=True)
    pq.write_table(arrow_schema(table).empty_table(), f"{path}/part-00000.parquet", filesystem=filesystem)


def _summary(source: EffectSource, effects: Sequence[_TimedFigures]) -> dict:
    """Return the figures at the first time with an effect, and if there are several times, those at each time
    as `times`.
    """
    of_times = [effect.as_json() for effect in effects]
    # The digest follows from the changes and the states of the data. Without the present time, it is that of
    # a repeated run.
    content = json.dumps(
        [source.identity, source.generation, [effect.snapshot.state for effect in effects], of_times]
    )
    for values, effect in zip(of_times, effects, strict=True):
        values["at"] = format_time(effect.at)
    main = next(
        (values for values, effect in zip(of_times, effects, strict=True) if effect.row_count), of_times[0]
    )
    summary = main | {
        "generation": source.generation,
        "digest": hashlib.sha256(content.encode()).hexdigest()[:32],
        "times": of_times if len(of_times) > 1 else [],
        "detail_rows": sum(effect.row_count for effect in effects),
        "tables_left_out": {
            effect.table.name: effect.row_count for effect in effects if not effect.is_written
        },
    }
    faults = [effect.snapshot.replaced_fault for effect in effects if effect.snapshot.replaced_fault]
    return summary | {"snapshot_fault": faults[0]} if faults else summary
