"""Read a snapshot with Spark."""

from django.conf import settings
from pyspark.sql import SparkSession

from analytics.models import RunStage
from analytics.report import Progress
from analytics.snapshots.snapshot import Snapshot
from analytics.spark.schemas import Tables, read_snapshot
from analytics.spark.session import session_for_small_tenant, spark_session

# A snapshot of at most this size has some hundred thousand rows, which one core reads in well under a second.
SMALL_SNAPSHOT_BYTES = 1_000_000


def tables_of_snapshot(snapshot: Snapshot, progress: Progress) -> Tables:
    """Start or reuse the Spark session, and return the tables of the snapshot. All later Spark jobs of this
    thread are tracked.

    Raise SparkUnavailable, or SparkExited if Java ended.
    """
    progress.begin_stage(RunStage.SPARK)
    spark = spark_session(
        master=settings.SPARK_MASTER,
        memory=settings.SPARK_DRIVER_MEMORY,
        settings=settings.SPARK_CONF,
        patience_seconds=min(settings.SPARK_START_SECONDS, settings.RUN_TIMEOUT_SECONDS),
        scratch_parent=settings.TEMP_DIR,
    )
    progress.track_jobs(spark.sparkContext)
    return _read(spark, snapshot)


def _read(spark: SparkSession, snapshot: Snapshot) -> Tables:
    is_small = snapshot.size_bytes <= SMALL_SNAPSHOT_BYTES
    return read_snapshot(
        session_for_small_tenant(spark) if is_small else spark, snapshot.uri, is_small=is_small
    )
