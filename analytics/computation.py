"""Compute the tables of an analysis from a snapshot: for a run of the console, `manage.py analyze` and a standalone job."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.analyses import DETAIL_ROWS_MOST, Analysis, AnalysisError, Output
from analytics.arrow import arrow_schema
from analytics.results.advance import advance_table, with_dictionaries
from analytics.results.database import figures, sum_of_rows
from analytics.results.index import write_index
from analytics.snapshots.stored import Snapshot
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.area_input import Area, area_input
from analytics.spark.schemas import read_snapshot, read_table, write_table
from analytics.spark.session import session_for_small_tenant
from analytics.spark.sorted_table import SortedTable, is_shared
from analytics.spark.temporary import release_temporary
from analytics.stages import RunStage
from analytics.storage import Place
from entities.frozen import frozen
from grants.policies.times import format_time

# a snapshot of at most this size has some hundred thousand rows, which one core reads in well under a second
SMALL_SNAPSHOT_BYTES = 1_000_000


@frozen
class BaseResult:
    """An older result of the same analysis and options, and the areas that changed since then.

    places: of its tables, by name.
    """

    places: Mapping[str, Place]
    areas: Sequence[Area]


@dataclass(slots=True)
class Progress:
    """Functions that receive the progress of an analysis, and can end it; by default they do nothing.

    begin_stage: records that the analysis begins this stage. check: raises the exception that ends the analysis,
    if its end was requested. track_jobs: treats all Spark jobs that this thread starts later as jobs of this
    analysis.
    """

    begin_stage: Callable[[RunStage], None] = lambda stage: None
    check: Callable[[], None] = lambda: None
    track_jobs: Callable[[SparkContext], None] = lambda context: None


def is_small_tenant(snapshot: Snapshot) -> bool:
    """Return whether one core computes all tables faster than Spark plans its joins."""
    return snapshot.size_bytes <= SMALL_SNAPSHOT_BYTES


def compute_tables(
    analysis: Analysis,
    options: Mapping[str, str],
    snapshot: Snapshot,
    spark: SparkSession,
    *,
    places: Mapping[str, Place],
    writes_detail: Callable[[int], bool],
    progress: Progress,
    base: BaseResult | None = None,
) -> dict:
    """Write the tables of the analysis, each with an index, and return the summary of the report.

    places: of all tables of the analysis, by name. writes_detail: whether to write a detail table with this many rows.
    base: advance this result where only some areas must be computed; ignored for a small tenant, and on storage of
    another machine.
    The summary has the figures of the report, `detail_rows`, `detail_is_written` and `at`. Raise StorageError, the
    exceptions of Spark, and those of `writes_detail` and `progress.check`.
    """
    is_small = is_small_tenant(snapshot)
    tables = read_snapshot(
        session_for_small_tenant(spark) if is_small else spark,
        snapshot.uri,
        is_small=is_small,
        extra_tables=analysis.tables_read(options),
    )
    progress.begin_stage(RunStage.COMPUTING)
    analysis_input = AnalysisInput(tables, options, snapshot.at)
    if is_small or not is_shared(places["rows"].spark_uri):
        base = None
    areas = [(area, area_input(analysis_input, area)) for area in base.areas] if base else []
    changed = {name for area in base.areas for name in area.namespaces or ()} if base else set()
    for output in analysis.outputs:
        progress.check()
        if base is None or not output.has_areas:
            _write_output(output, analysis_input, places)
        elif "user" in output.table.column_names:
            changed |= _advance_output(output, analysis_input, areas, base, places)
        else:
            area = Area(None, frozenset(changed))
            _advance_output(
                output, analysis_input, [(area, _with_earlier(analysis_input, area))], base, places
            )
    progress.check()
    progress.begin_stage(RunStage.WRITING)
    detail_rows = sum_of_rows(analysis, places, analysis.detail_rows)
    detail_is_written = analysis.detail is not None and writes_detail(detail_rows)
    if detail_is_written and analysis.detail is not None:
        _write_output(analysis.detail, analysis_input, places)
    return figures(analysis, places) | {
        "detail_rows": detail_rows,
        "detail_is_written": detail_is_written,
        "at": format_time(snapshot.at),
    }


def detail_choice(*, is_wanted: bool, is_forced: bool) -> Callable[[int], bool]:
    """Return a function for `writes_detail` that raises AnalysisError if a detail table that is wanted has more than
    DETAIL_ROWS_MOST rows, unless it is forced.
    """

    def writes_detail(rows: int) -> bool:
        if is_wanted and rows > DETAIL_ROWS_MOST and not is_forced:
            raise AnalysisError(
                f"The detail table would have {rows:,} rows, which is more than {DETAIL_ROWS_MOST:,}: leave --detail out, "
                f"limit the analysis with its options, or write it anyway with --force."
            )
        return is_wanted

    return writes_detail


def _write_output(output: Output, analysis_input: AnalysisInput, places: Mapping[str, Place]) -> None:
    """Write one table and its index."""
    place = places[output.table.name]
    with release_temporary():
        write_table(_build(output, analysis_input), output.table, place.spark_uri)
    _finish_output(output, analysis_input, place)


def _advance_output(
    output: Output,
    analysis_input: AnalysisInput,
    areas: Sequence[tuple[Area, AnalysisInput]],
    base: BaseResult,
    places: Mapping[str, Place],
) -> frozenset[str]:
    """Write one table like `_write_output`, with new rows in the areas only. Return the namespaces of rows that differ."""
    table, fresh = output.table, [arrow_schema(output.table).empty_table()]
    for number, (area, input_of_area) in enumerate(areas):
        with release_temporary():
            built = _build(output, input_of_area)
            frame = built.frame if isinstance(built, SortedTable) else built
            rows = with_dictionaries(frame.select(*table.column_names).toArrow())
        rows = rows.filter(pa.array(area.mask(rows)))
        input_of_area.earlier[table.name] = frame.sparkSession.createDataFrame(rows.cast(arrow_schema(table)))
        for other, _ in areas[:number]:
            rows = rows.filter(pa.array(~other.mask(rows)))
        fresh.append(rows.cast(arrow_schema(table)))
    place = places[table.name]
    changed = advance_table(
        table, base.places[table.name], place, pa.concat_tables(fresh), [area for area, _ in areas]
    )
    _finish_output(output, analysis_input, place)
    return changed


def _with_earlier(analysis_input: AnalysisInput, area: Area) -> AnalysisInput:
    """Return the input for a row of each namespace of an area, with the rows of these namespaces in the preceding tables."""
    is_inside = F.col("namespace").isin(*area.namespaces or ())
    earlier = {name: frame.where(is_inside) for name, frame in analysis_input.earlier.items()}
    return replace(area_input(analysis_input, area), earlier=earlier)


def _build(output: Output, analysis_input: AnalysisInput) -> DataFrame | SortedTable:
    module, _, function = output.build.partition(":")
    return getattr(import_module(module), function)(analysis_input)


def _finish_output(output: Output, analysis_input: AnalysisInput, place: Place) -> None:
    """Write the index of a table. Tables that are built later can read it from `analysis_input.earlier`."""
    write_index(output.table, place)
    analysis_input.earlier[output.table.name] = read_table(
        analysis_input.tables.users.sparkSession, output.table, place.spark_uri
    )
