"""Run every analysis with SPARK_MASTER, write each table as JSON Lines, and print a description of the Python
workers.

Run as `python -m tests.analytics.spark.run_analyses FOLDER` in a separate process, because a process has only one Spark
session. The tenant is processed as a large one, whatever its size.
"""

import json
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import django

OPTIONS = {"generation": "existing", "to_generation": "final"}


def describe_worker(_):
    """Return (folder, packages of the console that can be imported, whether there are Django settings) of a
    Python worker.
    """
    # long enough for every executor to get a task
    time.sleep(1)
    packages = tuple(name for name in ("entities", "grants", "analytics", "authzconsole") if find_spec(name))
    return os.getcwd(), packages, "DJANGO_SETTINGS_MODULE" in os.environ


def write_tables(folder: Path, results_folder: str) -> None:
    from analytics.analyses import ANALYSES
    from analytics.computation import Progress
    from analytics.results.export import export_table
    from analytics.runs.execution import compute_report
    from analytics.runs.services import validated_options

    folder.mkdir()
    for name, analysis in ANALYSES.items():
        report_folder = f"{results_folder}/{name}"
        options = validated_options(
            analysis, {option: OPTIONS[option] for option in analysis.options if option in OPTIONS}
        )
        compute_report(
            analysis=analysis,
            options=options,
            folder=report_folder,
            writes_detail=lambda rows: True,
            progress=Progress(),
        )
        for output in analysis.written_outputs:
            export_table(output.table, report_folder, folder / f"{name}.{output.table.name}.jsonl")


def main(folder: Path) -> None:
    django.setup()
    from django.conf import settings

    from analytics import computation
    from analytics.spark.session import spark_session, stop_spark

    computation.SMALL_SNAPSHOT_BYTES = 0
    try:
        write_tables(folder, f"results/{folder.name}")
        context = spark_session(
            master=settings.SPARK_MASTER, memory=settings.SPARK_DRIVER_MEMORY
        ).sparkContext
        workers = context.parallelize(range(4), 4).map(describe_worker).collect()
    finally:
        stop_spark()
    print(json.dumps(sorted(set(workers))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
