"""Every analysis on the Spark of SPARK_MASTER, each table as JSON Lines in the folder given; prints where Python workers ran.

Run as `python -m tests.analytics.spark.on_a_master FOLDER SIZE [SIZE]`, in a process of its own, because a process has one Spark.
A SIZE is `little`, as the tenant is, or `large`, as if it were; each gets a folder of its own.
"""

import json
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import django

OPTIONS = {"generation": "existing", "to_generation": "final"}


class Quiet:
    """A `computation.Progress` that nobody is told."""

    def begin_stage(self, stage) -> None:
        return None

    def check(self) -> None:
        return None

    def track_jobs(self, context) -> None:
        return None


def place_of_a_worker(_):
    """In a Python worker: its folder, what it could import of the console, and whether it has the console's settings."""
    # long enough that every executor gets a task
    time.sleep(1)
    known = tuple(name for name in ("entities", "grants", "analytics", "authzconsole") if find_spec(name))
    return os.getcwd(), known, "DJANGO_SETTINGS_MODULE" in os.environ


def tables_write(folder: Path, results: str) -> None:
    from analytics.analyses import ANALYSES
    from analytics.results.export import export_table
    from analytics.runs.computation import compute_report
    from analytics.runs.options import validated_options

    folder.mkdir()
    for name, analysis in ANALYSES.items():
        place = f"{results}/{name}"
        options = validated_options(analysis, {option: OPTIONS[option] for option in analysis.options if option in OPTIONS})
        compute_report(analysis=analysis, options=options, folder=place, max_detail_rows=None, progress=Quiet())
        for output in filter(None, (*analysis.outputs, analysis.detail)):
            export_table(output.table, place, folder / f"{name}.{output.table.name}.jsonl")


def main(folder: Path, sizes: list[str]) -> None:
    django.setup()
    from django.conf import settings

    from analytics.runs import computation
    from analytics.spark.session import spark_session, stop_spark

    most_bytes = {"little": computation.SMALL_SNAPSHOT_BYTES, "large": 0}
    try:
        for size in sizes:
            computation.SMALL_SNAPSHOT_BYTES = most_bytes[size]
            tables_write(folder / size, f"results/{folder.name}/{size}")
        context = spark_session(master=settings.SPARK_MASTER, memory=settings.SPARK_DRIVER_MEMORY).sparkContext
        places = context.parallelize(range(4), 4).map(place_of_a_worker).collect()
    finally:
        stop_spark()
    print(json.dumps(sorted(set(places))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
