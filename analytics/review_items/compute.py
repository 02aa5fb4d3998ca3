"""Compute the items of a review with Spark and write them as Parquet, in the order in which the review lists
them.
"""

from collections.abc import Iterable

import pyarrow as pa
from django.conf import settings
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.analyses import AnalysisError
from analytics.java import java_problem
from analytics.models import RunStage
from analytics.report import ComputedReport, Progress
from analytics.review_items.tables import arrow_schema_of, write_tables
from analytics.snapshots.snapshot import consistent_read
from analytics.spark.session import SparkUnavailable, session_for_small_tenant, spark_session
from analytics.storage import discard_path, spark_uri, storage_root
from grants.errors import GrantError
from grants.history.catch_up import catch_up
from grants.journal import current_revision
from grants.models.reviews import Campaign, CampaignState, ItemSource, ReviewItem
from grants.reviews.preparation import statement_values
from grants.reviews.preparation_rules import PreparationRules, preparation_rules
from grants.reviews.preparation_sql import ITEM_COLUMNS, items_query
from grants.reviews.scope import parse_scope

# up to this number of copied rows, planning a Spark job takes longer than the work
SMALL_ROWS = 100_000
# the queries that several others read
_SHARED_PARTS = ("b", "sources")
_SETTINGS = {
    # the statements quote some names, as the databases do
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_SPARK_TYPES = {
    pa.bool_(): "boolean",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.date32(): "date",
    pa.int64(): "bigint",
    pa.string(): "string",
}
_ALL_ROWS = (0, 2**63 - 1)


def compute_review_items(*, number: int, folder: str, progress: Progress) -> ComputedReport:
    """Write the items of a review that is being prepared into `folder`, below SNAPSHOT_URI, one table for
    each source.

    All data are read in one transaction, so they have one revision. Raise AnalysisError if the review is not
    being prepared any more, StorageError, SparkUnavailable, and the exceptions of Spark and of
    `progress.check`.
    """
    if problem := java_problem():
        raise SparkUnavailable(problem)
    progress.begin_stage(RunStage.SNAPSHOT)
    campaign = Campaign.objects.filter(pk=number, state=CampaignState.PREPARING).first()
    if campaign is None:
        raise AnalysisError(f"review {number} is not being prepared any more")
    scope = parse_scope(campaign.scope)
    sources = [ItemSource(source) for source in scope.reviewed_sources]
    if ItemSource.MEMBERSHIP in sources:
        # the history knows since when memberships exist
        catch_up()
    filesystem, root = storage_root()
    tables = f"{root}/{folder}/tables"
    with consistent_read():
        revision = current_revision()
        try:
            rules = preparation_rules(campaign, scope)
        except GrantError as error:
            raise AnalysisError(str(error)) from error
        counts = write_tables(filesystem, tables, campaign, progress.check)
    progress.begin_stage(RunStage.SPARK)
    spark = spark_session(
        master=settings.SPARK_MASTER,
        memory=settings.SPARK_DRIVER_MEMORY,
        settings=settings.SPARK_CONF,
        patience_seconds=min(settings.SPARK_START_SECONDS, settings.RUN_TIMEOUT_SECONDS),
        scratch_parent=settings.TEMP_DIR,
    )
    progress.track_jobs(spark.sparkContext)
    progress.begin_stage(RunStage.COMPUTING)
    is_small = sum(counts.values()) <= SMALL_ROWS
    session = _session(spark, tables, counts, is_small=is_small)
    for source in sources:
        progress.check()
        _write_items(session, rules, source, spark_uri(f"{root}/{folder}/{source.value}"), is_small=is_small)
    discard_path(filesystem, tables)
    return ComputedReport(revision, {})


def _session(spark: SparkSession, tables: str, counts: dict[str, int], *, is_small: bool) -> SparkSession:
    """Return a session with a view for each copied table, under the name of the table in the database."""
    session = session_for_small_tenant(spark) if is_small else spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    for name in counts:
        session.read.parquet(spark_uri(f"{tables}/{name}")).createOrReplaceTempView(name)
    return session


def _write_items(
    session: SparkSession, rules: PreparationRules, source: ItemSource, uri: str, *, is_small: bool
) -> None:
    query = items_query(rules, source)
    # each stored query makes the plans of those that read it smaller
    stored_parts = query.parts if is_small else _SHARED_PARTS
    stored = []
    try:
        for name, sql in query.parts.items():
            frame = _query(
                session, sql, [*_ALL_ROWS, *statement_values(query.parameters)] if name == "b" else ()
            )
            if name in stored_parts:
                stored.append(frame.persist(StorageLevel.DISK_ONLY))
            frame.createOrReplaceTempView(name)
        types = {field.name: _SPARK_TYPES[field.type] for field in arrow_schema_of(ReviewItem, ITEM_COLUMNS)}
        rows = _query(session, query.select)
        rows.select(*[F.col(name).cast(types[name]).alias(name) for name in ITEM_COLUMNS]).write.mode(
            "overwrite"
        ).parquet(uri)
    finally:
        for frame in stored:
            frame.unpersist()


def _query(session: SparkSession, sql: str, parameters: Iterable = ()) -> DataFrame:
    """Return the result of a statement with placeholders in the form of Django."""
    return session.sql(sql.replace("%s", "?").replace("%%", "%"), args=list(parameters) or None)
