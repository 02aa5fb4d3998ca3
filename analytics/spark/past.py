"""Read the tenant at an earlier moment from `analytics.tables.HISTORY_TABLES`.

These tables have their own ids of users, groups and entities, which differ from those of the other tables.
"""

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.spark.schemas import Tables

PRINCIPAL = ["principal_type", "principal_id"]
# like the texts of times in the tables of the history
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S.%f"


@dataclass(frozen=True, slots=True)
class Moment:
    """A journal line and its time, or a later time before the next line; revision 0 is before the first line."""

    revision: int
    at: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """The tenant at a moment.

    users: user_id of the active users. principals: principal_type, principal_id and user_id, for each principal the
    users who get its grants. grants: principal_type, principal_id, entity_id and privilege.
    """

    users: DataFrame
    principals: DataFrame
    grants: DataFrame


def time_text(at: datetime) -> str:
    """Return a time in UTC as the tables of the history have it."""
    return at.strftime(_TIME_FORMAT)


def moment_at(tables: Tables, at: datetime) -> Moment:
    """Return the moment of a time. Collects one value."""
    lines = tables.extra["journal"].where(F.col("at") <= time_text(at))
    row = lines.agg(F.max("revision").alias("revision")).first()
    return Moment((row and row["revision"]) or 0, time_text(at))


def state_at(tables: Tables, moment: Moment, users: DataFrame) -> State:
    """Return the state of those of the users who were active then."""
    active = lasting(tables.extra["past_users"], moment).where("is_active").select("user_id")
    active = active.join(users, on="user_id", how="left_semi")
    own = active.select(
        F.lit("user").alias("principal_type"), F.col("user_id").alias("principal_id"), "user_id"
    )
    members = (
        _in_force(tables.extra["past_memberships"], moment)
        .join(active, on="user_id", how="left_semi")
        .select(F.lit("group").alias("principal_type"), F.col("group_id").alias("principal_id"), "user_id")
    )
    grants = _in_force(tables.extra["past_grants"], moment).select(*PRINCIPAL, "entity_id", "privilege")
    return State(active, own.union(members), grants)


def lasting(periods: DataFrame, moment: Moment) -> DataFrame:
    """Return the periods that include the journal line of the moment."""
    is_over = F.col("until_revision") <= moment.revision
    return periods.where((F.col("from_revision") <= moment.revision) & ~F.coalesce(is_over, F.lit(False)))


def past_addresses(tables: Tables) -> DataFrame:
    """Return entity_id and entity (the address)."""
    return tables.extra["past_addresses"].select("entity_id", F.concat_ws(":", "kind", "key").alias("entity"))


def _in_force(periods: DataFrame, moment: Moment) -> DataFrame:
    """Return the periods in force at the moment."""

    def is_true_or_null(condition: Column) -> Column:
        return F.coalesce(condition, F.lit(True))

    return lasting(periods, moment).where(
        is_true_or_null(F.col("valid_from") <= moment.at) & is_true_or_null(F.col("valid_until") > moment.at)
    )
