"""Spark, snapshots, results and the limits of runs."""

import json

from django.core.exceptions import ImproperlyConfigured

from .environment import STATE_DIR, env


def _spark_conf() -> dict[str, str]:
    """Return further Spark settings by name, read from a JSON object; booleans and numbers are written as
    Spark expects them.
    """
    text = env.str("SPARK_CONF", default="") or "{}"
    example = """SPARK_CONF='{"spark.executor.memory": "4g"}'"""
    try:
        conf = json.loads(text)
    except ValueError as error:
        raise ImproperlyConfigured(f"SPARK_CONF is not valid JSON ({error}); write it as {example}") from None
    if not isinstance(conf, dict):
        raise ImproperlyConfigured(f"SPARK_CONF must be one JSON object, such as {example}")
    variable_names = {
        "spark.master": "SPARK_MASTER",
        "spark.driver.memory": "SPARK_DRIVER_MEMORY",
        "spark.pyspark.python": "PYSPARK_PYTHON",
    }
    for name, value in conf.items():
        if name in variable_names:
            raise ImproperlyConfigured(
                f"SPARK_CONF: {name} has its own environment variable: set {variable_names[name]}"
            )
        if not name.startswith("spark.") or not isinstance(value, str | int | float):
            # the message omits the value, which can be a secret
            raise ImproperlyConfigured(
                f"SPARK_CONF: each name must start with `spark.` and each value must be a string, a "
                f"number or a boolean, but `{name}` is not; write it as {example}"
            )
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in conf.items()}


SPARK_MASTER = env.str("SPARK_MASTER", default="local[*]")
SPARK_DRIVER_MEMORY = env.str("SPARK_DRIVER_MEMORY", default="2g")
SPARK_CONF = _spark_conf()
SNAPSHOT_URI = env.str("SNAPSHOT_URI", default=str(STATE_DIR / "snapshots"))
SNAPSHOTS_KEPT = env.int("SNAPSHOTS_KEPT", default=3)
# for each analysis with its options; the newest report is always kept, and 0 days means no limit
RESULTS_KEPT = env.int("RESULTS_KEPT", default=10)
RESULTS_KEPT_DAYS = env.int("RESULTS_KEPT_DAYS", default=90)
# how long the figures of runs are kept for trends, also after their report was removed
FIGURES_KEPT_DAYS = env.int("FIGURES_KEPT_DAYS", default=730)
if FIGURES_KEPT_DAYS < 1:
    raise ImproperlyConfigured(f"FIGURES_KEPT_DAYS is {FIGURES_KEPT_DAYS}, but must be at least 1")
# how long the console keeps the bundle of evidence
EVIDENCE_KEPT_DAYS = env.int("EVIDENCE_KEPT_DAYS", default=30)
# a run that takes longer is stopped; starting Spark has a shorter limit
RUN_TIMEOUT_SECONDS = env.int("RUN_TIMEOUT_SECONDS", default=3_600)
SPARK_START_SECONDS = env.int("SPARK_START_SECONDS", default=120)
# The worker of the runs starts a local Spark with itself, and not only for the first run.
SPARK_STARTS_EARLY = env.bool("SPARK_STARTS_EARLY", default=True) and SPARK_MASTER.startswith("local")
for name, seconds in (
    ("RUN_TIMEOUT_SECONDS", RUN_TIMEOUT_SECONDS),
    ("SPARK_START_SECONDS", SPARK_START_SECONDS),
):
    if seconds < 1:
        raise ImproperlyConfigured(f"{name} is {seconds}, but must be at least 1")
# a run without a heartbeat for this long has lost its worker; it is repeated a limited number of times
RUN_LOST_AFTER_SECONDS = env.int("RUN_LOST_AFTER_SECONDS", default=60)
RUN_ATTEMPTS_MOST = env.int("RUN_ATTEMPTS_MOST", default=3)
# the detail table can have as many rows as users times entities; only the command writes larger ones
RUN_DETAIL_ROWS_MOST = env.int("RUN_DETAIL_ROWS_MOST", default=5_000_000)
# each analysis runs once as soon as there are entities, so that a new console has reports
FIRST_ANALYSES = env.bool("FIRST_ANALYSES", default=True)
