"""The `unused` analysis: effective grants without a recorded use in a window.

A use is a permitted decision about an entity, or an imported one; it does not tell which privilege permitted it. Before the
first recorded use, nothing is known to be unused: without records, the tables have no rows.
Grants, uses and their pairs grow with the tenant: they are joined by sorting, and never broadcast.
"""

from dataclasses import dataclass
from datetime import date, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.analyses import DEFAULT_SINCE_DAYS
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.joins import live_addresses, principal_names, user_names, users_of_principals
from analytics.spark.schemas import Tables, schema_of
from analytics.tables import UNUSED_COVERAGE


def rows(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.UNUSED: one row per active user, live entity, privilege and principal that holds it, without a use in
    the window.
    """
    tables = analysis_input.tables
    held = (
        _grants(tables)
        .join(users_of_principals(tables), on=["principal_type", "principal_id"])
        .join(_uses(tables).hint("merge"), on=["user_id", "entity_id"], how="left")
        .where(_Window.of(analysis_input).is_unused)
    )
    return (
        held.join(user_names(tables), on="user_id")
        .join(principal_names(tables), on=["principal_type", "principal_id"])
        .select("user", "entity", "privilege", F.col("principal").alias("through"), "granted_at", _last_use())
    )


def grants(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.UNUSED_GRANTS: one row per grant of a principal with active users, none of whom used the entity in
    the window.
    """
    tables = analysis_input.tables
    users = users_of_principals(tables)
    uses = (
        _uses(tables)
        .join(users, on="user_id")
        .groupBy("principal_type", "principal_id", "entity_id")
        .agg(F.max("last_day").alias("last_day"))
    )
    counts = users.groupBy("principal_type", "principal_id").agg(F.count("*").alias("users"))
    return (
        _grants(tables)
        .join(counts, on=["principal_type", "principal_id"])
        .join(uses.hint("merge"), on=["principal_type", "principal_id", "entity_id"], how="left")
        .where(_Window.of(analysis_input).is_unused)
        .join(principal_names(tables), on=["principal_type", "principal_id"])
        .select("principal", "entity", "privilege", "granted_at", "users", _last_use())
    )


def coverage(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.UNUSED_COVERAGE: what the records cover."""
    window = _Window.of(analysis_input)
    row = (window.recorded_since, window.since, window.covered, window.days)
    spark = analysis_input.tables.users.sparkSession
    return spark.createDataFrame([row], schema_of(UNUSED_COVERAGE))


def people(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.UNUSED_PEOPLE: how many entities and privileges on them each user does not use."""
    return (
        analysis_input.earlier["rows"]
        .groupBy("user")
        .agg(
            F.count_distinct("entity").alias("entities"),
            F.count_distinct("entity", "privilege").alias("privileges"),
        )
    )


@dataclass(frozen=True, slots=True)
class _Window:
    """The days without a use. recorded_since, since: the first day with records and that of the window; empty if there is none.

    covered, days: the days since these days.
    """

    recorded_since: str = ""
    since: str = ""
    covered: int = 0
    days: int = 0

    @staticmethod
    def of(analysis_input: AnalysisInput) -> "_Window":
        """Return the window of a run. It does not begin before the records. Collects one value."""
        assert analysis_input.at is not None
        today = analysis_input.at.date()
        row = _uses(analysis_input.tables).agg(F.min("first_day").alias("first_day")).first()
        if row is None or row.first_day is None:
            return _Window()
        covered = max(0, (today - date.fromisoformat(row.first_day)).days)
        days = min(covered, int(analysis_input.option("since") or DEFAULT_SINCE_DAYS))
        return _Window(row.first_day, (today - timedelta(days=days)).isoformat(), covered, days)

    @property
    def is_unused(self) -> Column:
        """The condition on `last_day`. In an empty window, nothing is known to be unused."""
        return F.lit(self.days > 0) & (F.col("last_day").isNull() | (F.col("last_day") < self.since))


def _last_use() -> Column:
    return F.coalesce("last_day", F.lit("")).alias("last_use")


def _uses(tables: Tables) -> DataFrame:
    return tables.extra["uses"]


def _grants(tables: Tables) -> DataFrame:
    """Return principal_type, principal_id, entity_id, entity, privilege and granted_at of the grants on live entities."""
    columns = ("principal_type", "principal_id", "entity_id", "privilege", "granted_at")
    return tables.grants.select(*columns).join(live_addresses(tables).hint("merge"), on="entity_id")
