"""The `unused` analysis: effective grants without a recorded use in a window.

A use is a permitted decision about an entity, or an imported one; it does not tell which privilege permitted it. Before the
first recorded use, nothing is known to be unused: without records, the tables have no rows.
Grants and uses grow with the tenant: they are joined by sorting, and never broadcast.
"""

from collections.abc import Callable, Iterator
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.analyses import DEFAULT_SINCE_DAYS
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.batches import text_array
from analytics.spark.engine.directory import Directory
from analytics.spark.engine.rows import Array
from analytics.spark.joins import live_addresses, principal_names, users_of_principals
from analytics.spark.schemas import Tables, schema_of
from analytics.spark.sorted_table import SortedTable
from analytics.spark.user_grants import RowBuilder, UserGrants, user_grants
from analytics.tables import UNUSED, UNUSED_COVERAGE, UNUSED_PEOPLE, Table
from entities.frozen import frozen


def rows(analysis_input: AnalysisInput) -> SortedTable | DataFrame:
    """Return tables.UNUSED: one row per active user, live entity, privilege and principal that holds it, without a use in
    the window.
    """
    return _table(analysis_input, UNUSED, _unused_rows)


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
        .select(
            "principal",
            "entity",
            "privilege",
            "granted_at",
            "users",
            F.coalesce("last_day", F.lit("")).alias("last_use"),
        )
    )


def coverage(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.UNUSED_COVERAGE: what the records cover."""
    window = _Window.of(analysis_input)
    row = (window.recorded_since, window.since, window.covered, window.days)
    spark = analysis_input.tables.users.sparkSession
    return spark.createDataFrame([row], schema_of(UNUSED_COVERAGE))


def people(analysis_input: AnalysisInput) -> SortedTable | DataFrame:
    """Return tables.UNUSED_PEOPLE: how many entities and privileges on them each user does not use."""
    return _table(analysis_input, UNUSED_PEOPLE, _people_rows)


def _table(
    analysis_input: AnalysisInput, table: Table, builder_since: Callable[[str], RowBuilder]
) -> SortedTable | DataFrame:
    """Return a table about the grants that each user does not use. builder_since: returns its builder for a window that
    begins on this day.
    """
    tables, window = analysis_input.tables, _Window.of(analysis_input)
    if not window.days:
        return tables.users.sparkSession.createDataFrame([], schema_of(table))
    grants = _grants(tables).join(principal_names(tables), on=["principal_type", "principal_id"])
    return user_grants(tables, grants, _uses(tables), table, builder_since(window.since))


def _unused_rows(since: str) -> RowBuilder:
    def build(directory: Directory, held: UserGrants) -> Iterator[pa.RecordBatch]:
        texts = {
            name: held.table[name].combine_chunks().dictionary_encode()
            for name in ("entity", "privilege", "principal", "granted_at")
        }
        for rows in _without_use(held, since).batches():
            entity, privilege, principal, granted_at = (
                text_array(encoded.indices.to_numpy()[rows.grants], encoded.dictionary)
                for encoded in texts.values()
            )
            yield pa.record_batch(
                {
                    "user": text_array(rows.users, directory.user_names),
                    "entity": entity,
                    "privilege": privilege,
                    "through": principal,
                    "granted_at": granted_at,
                    "last_use": text_array(rows.last_uses, rows.days),
                }
            )

    return build


def _people_rows(since: str) -> RowBuilder:
    def build(directory: Directory, held: UserGrants) -> Iterator[pa.RecordBatch]:
        rows = _without_use(held, since)
        entities = _numbers_of(rows.table, "entity")[rows.grants]
        privileges = _numbers_of(rows.table, "entity", "privilege")[rows.grants]
        begins = np.flatnonzero(_is_first(rows.users))
        if len(begins):
            counts = {
                name: np.add.reduceat(_is_first(rows.users, numbers), begins, dtype=np.int64)
                for name, numbers in (("entities", entities), ("privileges", privileges))
            }
            yield pa.record_batch({"user": text_array(rows.users[begins], directory.user_names), **counts})

    return build


def _without_use(held: UserGrants, since: str) -> UserGrants:
    return held.select(pc.less(held.days, since).to_numpy(zero_copy_only=False)[held.last_uses])


def _numbers_of(table: pa.Table, *columns: str) -> Array:
    """Return a number for each row: rows that have the same values as the row before have its number."""
    return np.cumsum(
        _is_first(*(table[name].combine_chunks().dictionary_encode().indices for name in columns))
    )


def _is_first(*columns: Array | pa.Array) -> Array:
    """Return for each row whether it is the first one or differs from the row before."""
    return np.append(True, np.any([np.diff(column) != 0 for column in columns], axis=0))[: len(columns[0])]


@frozen
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


def _uses(tables: Tables) -> DataFrame:
    return tables.extra["uses"]


def _grants(tables: Tables) -> DataFrame:
    """Return principal_type, principal_id, entity_id, entity, privilege and granted_at of the grants on live entities."""
    columns = ("principal_type", "principal_id", "entity_id", "privilege", "granted_at")
    return tables.grants.select(*columns).join(live_addresses(tables).hint("merge"), on="entity_id")
