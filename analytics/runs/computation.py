"""One analysis from snapshot to tables, for a worker's run and for the command alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from django.conf import settings
from pyspark import SparkContext
from pyspark.sql import SparkSession

from analytics.analyses import Analysis, Output
from analytics.java import java_problem
from analytics.models import RunStage
from analytics.results.read import figures, sum_of, write_index
from analytics.snapshots.snapshot import Snapshot, snapshot_in_use
from analytics.spark.recipe import Recipe
from analytics.spark.schemas import snapshot_read, table_read, table_write
from analytics.spark.session import SparkUnavailable, session_for_little, spark_session
from analytics.storage import spark_uri, storage_path

# of a snapshot that one core reads in well under a second, some hundred thousand rows
LITTLE_BYTES = 1_000_000


class Progress(Protocol):
    """Who is told how far an analysis is, and may end it."""

    def stage(self, stage: RunStage) -> None: ...

    def check(self) -> None:
        """Raises what ends the analysis, where its end was asked for."""

    def watch(self, context: SparkContext) -> None:
        """What this thread does in Spark from now on belongs to this analysis."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """revision: of the snapshot. summary: the figures, and detail_rows with detail_is_written."""

    revision: int
    summary: dict


def report_compute(
    *, analysis: Analysis, options: Mapping[str, str], folder: str, detail_rows_most: int | None, progress: Progress
) -> Outcome:
    """Write the analysis's tables into `folder`, below SNAPSHOT_URI.

    detail_rows_most: the detail is left out where it would have more rows; None writes it always.
    Raises StorageError, SparkUnavailable, whatever Spark raises, and what `progress.check` raises.
    """
    if problem := java_problem():
        raise SparkUnavailable(problem)
    progress.stage(RunStage.SNAPSHOT)
    with snapshot_in_use(check=progress.check) as snapshot:
        progress.stage(RunStage.SPARK)
        spark = spark_session(master=settings.SPARK_MASTER, memory=settings.SPARK_DRIVER_MEMORY, settings=settings.SPARK_CONF,
                              patience_seconds=min(settings.SPARK_START_SECONDS, settings.RUN_TIMEOUT_SECONDS))
        progress.watch(spark.sparkContext)
        progress.stage(RunStage.COMPUTING)
        recipe = _recipe(spark, snapshot, options)
        for output in analysis.outputs:
            progress.check()
            _output_write(output, recipe, folder)
        progress.check()
        progress.stage(RunStage.WRITING)
        detail_rows = sum_of(analysis.detail_rows, analysis.rows, folder)
        detail_is_written = analysis.detail is not None and (detail_rows_most is None or detail_rows <= detail_rows_most)
        if detail_is_written:
            _output_write(analysis.detail, recipe, folder)
    summary = figures(analysis, folder) | {"detail_rows": detail_rows, "detail_is_written": detail_is_written}
    return Outcome(snapshot.revision, summary)


def _recipe(spark: SparkSession, snapshot: Snapshot, options: Mapping[str, str]) -> Recipe:
    is_little = snapshot.size_bytes <= LITTLE_BYTES
    return Recipe(
        tables=snapshot_read(session_for_little(spark) if is_little else spark, snapshot.uri, is_little=is_little),
        generation=options.get("generation", ""),
        to_generation=options.get("to_generation", ""),
        namespace=options.get("namespace", ""),
    )


def _output_write(output: Output, recipe: Recipe, folder: str) -> None:
    """Write one table, and hand what was written to those that come after it."""
    module, _, function = output.build.partition(":")
    uri = spark_uri(storage_path(f"{folder}/{output.table.name}"))
    table_write(getattr(import_module(module), function)(recipe), output.table, uri)
    write_index(output.table, folder)
    recipe.earlier[output.table.name] = table_read(recipe.tables.users.sparkSession, output.table, uri)
