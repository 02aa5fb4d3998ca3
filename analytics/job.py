"""Run one analysis on a stored snapshot with Spark, without Django and without a database.

    python -m analytics.job ANALYSIS --snapshot URI --output URI

works by itself and under spark-submit, which gets the path of this file. The rows are those of `manage.py analyze`.
docs/guides/standalone-jobs.md describes it.
"""

import argparse
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from types import SimpleNamespace
from typing import Any

if __name__ == "__main__" and __package__ in (None, ""):
    # spark-submit adds the folder of this file to the path, where modules hide others of the same names
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

import pyarrow.compute as pc
import pyarrow.dataset as ds

from analytics.analyses import ANALYSES, OPTIONS, Analysis, AnalysisError, analysis_by_name
from analytics.computation import Progress, compute_tables, detail_choice
from analytics.failures import USER_ERRORS, computation_failure
from analytics.java import java_problem
from analytics.options import LIVE, add_analysis_arguments, add_force_argument, checked_options
from analytics.results.database import dataset_of_files
from analytics.results.index import write_index
from analytics.results.stored import write_result_manifest
from analytics.settings import use_settings
from analytics.snapshots.stored import Snapshot, stored_snapshot
from analytics.spark.lost_executors import limit_lost_executors
from analytics.spark.schemas import read_table
from analytics.spark.session import SparkUnavailable, submitted_session
from analytics.spark.set_form import SetFormDiffers, write_set_form
from analytics.stages import RunStage
from analytics.storage import (
    Place,
    StorageError,
    discard_path,
    parquet_paths,
    place_of,
    shown_uri,
    without_credentials,
)
from analytics.tables import ENTITIES, JOURNAL, SET_ENTITIES, SET_PRINCIPALS, USES, VISIBILITY_DETAIL, Table
from entities.address import set_instance_name
from entities.errors import Refusal
from entities.frozen import frozen
from entities.vocabulary import KINDS, Kind, OperationClass, register_kind
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import rules_digest

# what the settings of the console are in a job
_NAMES = {
    "SNAPSHOT_URI": "--output",
    "SPARK_DRIVER_MEMORY": "spark.driver.memory",
    "SPARK_MASTER": "--master",
    "SPARK_CONF": "the settings of Spark",
    "STATE_DIR": "TMPDIR",
}


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="analytics.job", description="Run one analysis on a stored snapshot with Spark."
    )
    add_analysis_arguments(parser)
    parser.add_argument(
        "--snapshot", metavar="URI", required=True, help="the snapshot that `manage.py snapshot` wrote"
    )
    parser.add_argument(
        "--output", metavar="URI", required=True, help="write the result table to this new folder, as Parquet"
    )
    parser.add_argument(
        "--detail", metavar="URI", default="", help="write the detail table to this new folder"
    )
    parser.add_argument(
        "--tables",
        metavar="URI",
        default="",
        help="write the other tables of the analysis to this new folder, each in a folder of its own",
    )
    parser.add_argument(
        "--sets",
        metavar="URI",
        default="",
        help="write the detail as sets to this new folder: `principals` with the users of each set, and `entities` with its "
        f"entities ({', '.join(name for name, analysis in ANALYSES.items() if analysis.has_sets)} only)",
    )
    add_force_argument(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return the exit status: 0, or 1 after an error, of which nothing is left in the folders."""
    given = argument_parser().parse_args(arguments)
    use_settings(
        SimpleNamespace(
            SNAPSHOT_URI=given.output,
            TEMP_DIR=tempfile.gettempdir(),
            SPARK_MASTER="of spark-submit",
            SPARK_DRIVER_MEMORY="of spark-submit",
        )
    )
    try:
        _run(given)
    except Exception as error:
        message = (
            str(error)
            if isinstance(error, (*USER_ERRORS, Refusal))
            else computation_failure(error, details="the log of Spark has details")
        )
        for name, option in _NAMES.items():
            message = message.replace(name, option)
        print(f"analytics.job: {message}", file=sys.stderr)
        return 1
    return 0


def _run(given: argparse.Namespace) -> None:
    analysis = analysis_by_name(given.name)
    folders = _folders(analysis, given)
    try:
        with stored_snapshot(given.snapshot) as (snapshot, contents):
            _register_names(contents)
            options = checked_options(
                analysis, {name: getattr(given, name) for name in OPTIONS}, _SnapshotFacts(snapshot, contents)
            )
            stored = {file.path.partition("/")[0] for file in snapshot.files}
            if missing := {table.name for table in analysis.tables_read(options)} - stored:
                raise AnalysisError(
                    f"the snapshot has no {min(missing)}, which {analysis.name} reads: write one with manage.py snapshot"
                )
            _check_rules(options, contents)
            summary = _compute(analysis, options, snapshot, folders.tables, given)
            if folders.sets is not None:
                summary |= {"sets": _write_sets(folders.tables["detail"], folders.sets)}
        members = {
            "analysis": analysis.name,
            "options": options,
            "revision": snapshot.revision,
            "snapshot": contents["snapshot"],
            "summary": summary,
        }
        results = [(analysis.table(name), place) for name, place in folders.tables.items()]
        if folders.sets is not None:
            results += [(table, folders.sets.child(table.name)) for table in (SET_PRINCIPALS, SET_ENTITIES)]
        for table, place in results:
            if not place.path.startswith(f"{folders.temporary.path}/"):
                rows = write_result_manifest(place, table, members)
                print(f"{table.name}: {rows:,} rows in {place.spark_uri}", file=sys.stderr)
    except BaseException:
        for place in folders.chosen:
            discard_path(place.filesystem, place.path)
        raise
    finally:
        discard_path(folders.temporary.filesystem, folders.temporary.path)


@frozen
class _Folders:
    """The new folders of a job.

    tables: of each table to write, by name. sets: of the set form, if it is wanted. chosen: those of the command line.
    temporary: the one that contains the tables that are not kept.
    """

    tables: dict[str, Place]
    sets: Place | None
    chosen: tuple[Place, ...]
    temporary: Place


def _folders(analysis: Analysis, given: argparse.Namespace) -> _Folders:
    """Return the folders. Raise AnalysisError or StorageError if one cannot be used."""
    if given.sets and not analysis.has_sets:
        raise AnalysisError(f"{analysis.name} has no sets: leave --sets out")
    if given.detail and analysis.detail is None:
        raise AnalysisError(f"{analysis.name} has no detail table: use --output, which writes the same rows")
    for option in ("snapshot", "output"):
        if not getattr(given, option):
            raise AnalysisError(f"--{option} is empty: enter a path or a URI")
    chosen = {
        option: place_of(getattr(given, option), f"--{option}")
        for option in ("output", "detail", "tables", "sets")
        if getattr(given, option)
    }
    paths = {"snapshot": place_of(given.snapshot, "--snapshot").path}
    for option, place in chosen.items():
        if place.path.endswith((".csv", ".jsonl")):
            raise AnalysisError(
                f"--{option} {shown_uri(getattr(given, option))}: a job writes a folder of Parquet files, so choose another name"
            )
        if place.exists:
            raise AnalysisError(
                f"--{option} {shown_uri(getattr(given, option))} exists already: choose a new folder, or remove it"
            )
        for other, path in paths.items():
            if f"{place.path}/".startswith(f"{path}/") or f"{path}/".startswith(f"{place.path}/"):
                raise AnalysisError(f"--{option} and --{other} are in one another: use separate folders")
        paths[option] = place.path
        _check_writable(place, f"--{option} {shown_uri(getattr(given, option))}")
    temporary = _sibling(chosen["output"])
    others = chosen.get("tables", temporary)
    places = {output.table.name: others.child(output.table.name) for output in analysis.outputs}
    places["rows"] = chosen["output"]
    if given.detail or given.sets:
        places["detail"] = chosen.get("detail") or temporary.child("detail")
    return _Folders(places, chosen.get("sets"), tuple(chosen.values()), temporary)


def _check_writable(place: Place, name: str) -> None:
    """Raise StorageError if no folder can be made beside a folder. name: of the folder, for the message."""
    sibling = _sibling(place)
    try:
        sibling.filesystem.create_dir(sibling.path)
    except OSError as error:
        raise StorageError(
            f"{name} cannot be written: {without_credentials(str(error), place.spark_uri)}"
        ) from None
    discard_path(sibling.filesystem, sibling.path)


def _sibling(place: Place) -> Place:
    """Return a new folder beside a folder."""
    parent, _, name = place.path.rpartition("/")
    sibling = f"_{name}-{secrets.token_hex(4)}"
    return Place(place.filesystem, f"{parent}/{sibling}", f"{place.spark_uri.rpartition('/')[0]}/{sibling}")


def _register_names(contents: Mapping[str, Any]) -> None:
    """Use the name of the instance and the kinds of the console that wrote the snapshot."""
    set_instance_name(contents["instance"])
    for members in contents["kinds"]:
        if members["name"] not in KINDS:
            classes = tuple((operation, OperationClass(name)) for operation, name in members["classes"])
            register_kind(Kind(**{**members, "operations": tuple(members["operations"]), "classes": classes}))


def _check_rules(options: Mapping[str, str], contents: Mapping[str, Any]) -> None:
    """Raise AnalysisError if the console that wrote the snapshot has other rules, which would give other rows."""
    for name in filter(None, (options.get("generation"), options.get("to_generation"))):
        # the active generation of a newer console may be unknown here
        if name not in GENERATIONS or contents.get("rules", {}).get(name) != rules_digest(GENERATIONS[name]):
            raise AnalysisError(
                f"the rules of `{name}` in this version of the pipeline differ from those of the console that wrote the "
                f"snapshot: install the pipeline of that version"
            )


class _SnapshotFacts:
    """The facts for the checks of options, from a snapshot."""

    def __init__(self, snapshot: Snapshot, contents: Mapping[str, Any]):
        self._snapshot, self._contents = snapshot, contents

    @property
    def usage_kept_days(self) -> int:
        return self._contents["usage_kept_days"]

    def today(self) -> date:
        return self._snapshot.at.date()

    def active_generation(self) -> str:
        return self._contents["generation"]

    def first_day_of_use(self) -> date | None:
        days = [
            pc.min(batch["first_day"]).as_py()
            for batch in self._table(USES).to_batches(columns=["first_day"])
            if batch.num_rows
        ]
        return date.fromisoformat(min(days)) if days else None

    def days_of_history(self) -> int:
        begin = pc.min(self._table(JOURNAL).to_table(columns=["at"])["at"]).as_py()
        return max(0, (self._snapshot.at - datetime.fromisoformat(f"{begin}+00:00")).days) if begin else 0

    def newest_revision(self) -> int:
        revisions = self._table(JOURNAL).to_table(columns=["revision"])["revision"]
        return pc.max(revisions).as_py() or 0

    def namespace_state(self, key: str) -> str | None:
        is_key = (ds.field("kind") == "namespace") & (ds.field("key") == key)
        states = self._table(ENTITIES).to_table(columns=["state"], filter=is_key)["state"].to_pylist()
        return states[0] if states else None

    def live_namespaces(self, count: int) -> list[str]:
        is_live = (ds.field("kind") == "namespace") & (ds.field("state") == LIVE)
        names = self._table(ENTITIES).to_table(columns=["key"], filter=is_live)["key"].to_pylist()
        return sorted(names)[:count]

    def _table(self, table: Table) -> ds.Dataset:
        place = self._snapshot.place.child(table.name)
        return dataset_of_files(table, place.filesystem, parquet_paths(place.filesystem, place.path))


def _compute(
    analysis: Analysis,
    options: Mapping[str, str],
    snapshot: Snapshot,
    places: Mapping[str, Place],
    given: argparse.Namespace,
) -> dict[str, Any]:
    """Write the tables and return the summary of the report."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ and (problem := java_problem()):
        raise SparkUnavailable(problem)
    start = time.monotonic()

    def begin_stage(stage: RunStage) -> None:
        print(f"{time.monotonic() - start:6.1f} s  {stage.label}", file=sys.stderr)

    begin_stage(RunStage.SPARK)
    session = submitted_session()
    with limit_lost_executors(session):
        return compute_tables(
            analysis,
            options,
            snapshot,
            session,
            places=places,
            writes_detail=detail_choice(is_wanted="detail" in places, is_forced=given.force),
            progress=Progress(begin_stage),
        )


def _write_sets(detail: Place, sets: Place) -> dict[str, int | float]:
    """Write the set form of a detail table, and return its sizes. Raise AnalysisError if it differs from the detail table."""
    pairs = read_table(submitted_session(), VISIBILITY_DETAIL, detail.spark_uri)
    places = [sets.child(table.name) for table in (SET_PRINCIPALS, SET_ENTITIES)]
    try:
        sizes = write_set_form(pairs, *(place.spark_uri for place in places))
    except SetFormDiffers as error:
        raise AnalysisError(
            f"The set form is not equal to the detail table: {error}. Run the job again."
        ) from None
    for table, place in zip((SET_PRINCIPALS, SET_ENTITIES), places, strict=True):
        write_index(table, place)
    print(
        f"{sizes['sets']:,} sets in {sizes['principal_rows'] + sizes['entity_rows']:,} rows instead of {sizes['pairs']:,} "
        f"pairs: ratio {sizes['ratio']}",
        file=sys.stderr,
    )
    return sizes


if __name__ == "__main__":
    sys.exit(main())
