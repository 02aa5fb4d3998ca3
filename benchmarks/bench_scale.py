"""Measure analyses at two sizes, and compare the growth with the scale model in docs/reference/performance.md.

The second tenant has ten times as many rows in every table, and Spark ten times as many partitions. So the bytes of an analysis
may grow ten times, and its largest task has a fixed limit. The counters are those of Spark's event log.
"""

import json
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import astuple, dataclass
from importlib import import_module
from math import inf
from pathlib import Path

from pyspark.sql import SparkSession

from analytics.analyses import ANALYSES
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.schemas import read_snapshot, write_table
from analytics.spark.session import spark_session, stop_spark
from analytics.spark.temporary import release_temporary
from benchmarks.memory import measure_peak_memory
from benchmarks.parquet_tenants import write_parquet_tenant
from benchmarks.size import Size

NAMES = ("redundant", "delete-readiness", "visibility", "blast-radius")
TIMES = 10
SMALL = Size(entities=1_000_000, namespaces=200, users=5_000, groups=200, grants=2_000_000)
LARGE = Size(*(TIMES * number for number in astuple(SMALL)))
MEMORY, PARTITIONS = "3g", 16
# Spark merges small partitions to tasks of 64 MB, and reads files in parts of 128 MB
MAX_GROWTH, MAX_GIGABYTES, MAX_TASK_MEGABYTES = 11.0, 8.0, 128.0
# numbers ten times as large are compressed less
MAX_GROWTH_OF_BYTES = 12.0


@dataclass(slots=True)
class Work:
    """The work of some tasks. read, exchange_bytes, driver_bytes: bytes from files, for other tasks, and for the driver.

    largest: the most bytes that one task gets from files and other tasks. longest: the seconds of a task.
    """

    tasks: int = 0
    read: int = 0
    exchange_bytes: int = 0
    driver_bytes: int = 0
    largest: int = 0
    longest: float = 0.0

    def add(self, metrics: dict) -> None:
        """Add a task with these metrics of the event log."""
        read = metrics["Input Metrics"]["Bytes Read"]
        shuffle = metrics["Shuffle Read Metrics"]
        self.tasks += 1
        self.read += read
        self.exchange_bytes += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
        self.driver_bytes += metrics["Result Size"]
        self.largest = max(self.largest, read + shuffle["Remote Bytes Read"] + shuffle["Local Bytes Read"])
        self.longest = max(self.longest, metrics["Executor Run Time"] / 1_000)


@dataclass(frozen=True, slots=True)
class Run:
    """A run of an analysis. stages: in their order. output: bytes of its first table."""

    seconds: float
    gigabytes: float
    output: int
    stages: list[Work]

    @property
    def exchange_bytes(self) -> int:
        """The bytes that tasks send to other tasks."""
        return sum(stage.exchange_bytes for stage in self.stages)

    @property
    def driver_bytes(self) -> int:
        """The bytes that tasks send to the driver."""
        return sum(stage.driver_bytes for stage in self.stages)

    @property
    def largest(self) -> int:
        """The most bytes that a task gets."""
        return max(stage.largest for stage in self.stages)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="console-scale-") as name:
        folder = Path(name)
        for title, size in (("small", SMALL), ("large", LARGE)):
            write_parquet_tenant(folder / title, size)
        results = [_compare_sizes(analysis, folder) for analysis in NAMES]
    return 0 if all(results) else 1


def _compare_sizes(name: str, folder: Path) -> bool:
    """Print the counters of both sizes and their growth. Return whether it is within the limits."""
    small = _measured_run(name, folder / "small", PARTITIONS)
    large = _measured_run(name, folder / "large", TIMES * PARTITIONS)
    # the exchange of counts grows with the result, which can have a row for each user and namespace
    growth = max(MAX_GROWTH_OF_BYTES, large.output / small.output)
    figures = (
        ("seconds", small.seconds, large.seconds, MAX_GROWTH, inf),
        ("GB of memory of all processes", small.gigabytes, large.gigabytes, inf, MAX_GIGABYTES),
        ("MB exchanged", small.exchange_bytes / 1e6, large.exchange_bytes / 1e6, growth, inf),
        ("MB for the driver", small.driver_bytes / 1e6, large.driver_bytes / 1e6, MAX_GROWTH_OF_BYTES, inf),
        ("MB of the largest task", small.largest / 1e6, large.largest / 1e6, inf, MAX_TASK_MEGABYTES),
        ("MB of the result", small.output / 1e6, large.output / 1e6, inf, inf),
    )
    results = []
    for title, before, after, most_times, most in figures:
        results.append(after <= most and after <= before * most_times)
        print(
            f"{'ok ' if results[-1] else 'LOW'} {name}, {title}: {before:.1f} and {after:.1f}, {after / before:.1f} times "
            f"(at most {most:g}, and {most_times:g} times)",
            flush=True,
        )
    for run in (small, large):
        for number, stage in enumerate(run.stages):
            print(
                f"        stage {number}: {stage.tasks} tasks read {stage.read / 1e6:.1f} MB, send {stage.exchange_bytes / 1e6:.1f} MB; "
                f"the largest gets {stage.largest / 1e6:.1f} MB, the longest takes {stage.longest:.1f} s",
                flush=True,
            )
    return all(results)


def _measured_run(name: str, tenant: Path, partitions: int) -> Run:
    """Run the analysis in a new session, after a run on the small tenant that lets Java compile the code."""
    log, result = tenant / f"{name}.log", tenant / f"{name}.result"
    log.mkdir()
    settings = {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    spark = spark_session(master="local[*]", memory=MEMORY, settings=settings)
    try:
        _write_table(spark, name, tenant.parent / "small", result)
        began_at = time.time()
        with measure_peak_memory() as peak:
            _write_table(spark, name, tenant, result)
        seconds = time.time() - began_at
    finally:
        stop_spark()
    size = sum(path.stat().st_size for path in result.glob("*.parquet"))
    return Run(seconds, peak.gigabytes, size, _stages(log, began_at))


def _write_table(spark: SparkSession, name: str, tenant: Path, result: Path) -> None:
    """Write the first table of the analysis."""
    output = ANALYSES[name].outputs[0]
    module, _, function = output.build.partition(":")
    analysis_input = AnalysisInput(read_snapshot(spark, str(tenant)), {"generation": "final"})
    with release_temporary():
        write_table(getattr(import_module(module), function)(analysis_input), output.table, str(result))


def _stages(log: Path, began_at: float) -> list[Work]:
    """Return the work of the stages in the event log of a session. began_at: leave earlier tasks out."""
    stages: defaultdict[int, Work] = defaultdict(Work)
    (path,) = log.glob("[!.]*")
    with path.open(encoding="utf-8") as lines:
        for event in map(json.loads, lines):
            if (
                event["Event"] == "SparkListenerTaskEnd"
                and event["Task Info"]["Launch Time"] >= began_at * 1_000
            ):
                stages[event["Stage ID"]].add(event["Task Metrics"])
    return [stages[number] for number in sorted(stages)]


if __name__ == "__main__":
    sys.exit(main())
