"""Read the tenant at an earlier moment from `analytics.tables.HISTORY_TABLES`.

These tables have their own ids of users, groups and entities, which differ from those of the other tables.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.spark.schemas import Tables
from entities.frozen import frozen

PRINCIPAL = ["principal_type", "principal_id"]
# like the texts of times in the tables of the history
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S.%f"


@frozen
class Moment:
    """A journal line and its time, or a later time before the next line; revision 0 is before the first line."""

    revision: int
    at: str = ""


@frozen
class State:
    """The tenant at some moments. Each frame has a row for each key at any of them, and a flag for each moment.

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


def state_at(tables: Tables, users: DataFrame, **moments: Moment) -> State:
    """Return the state of these users. moments: by the name of their flags."""
    past_users = tables.extra["past_users"].where("is_active")
    active = _keys_with_flags(past_users, ["user_id"], moments, lasting).join(
        users, on="user_id", how="left_semi"
    )
    own = active.select(
        F.lit("user").alias("principal_type"), F.col("user_id").alias("principal_id"), "user_id", *moments
    )
    members = (
        _keys_with_flags(tables.extra["past_memberships"], ["user_id", "group_id"], moments, _in_force)
        .join(active.withColumnsRenamed({name: f"{name}_active" for name in moments}), on="user_id")
        .select(
            F.lit("group").alias("principal_type"),
            F.col("group_id").alias("principal_id"),
            "user_id",
            *((F.col(name) & F.col(f"{name}_active")).alias(name) for name in moments),
        )
    )
    key = [*PRINCIPAL, "entity_id", "privilege"]
    grants = _keys_with_flags(tables.extra["past_grants"], key, moments, _in_force)
    return State(active, own.union(members), grants)


def lasting(moment: Moment) -> Column:
    """Return whether a period includes the journal line of the moment."""
    is_over = F.col("until_revision") <= moment.revision
    return (F.col("from_revision") <= moment.revision) & ~F.coalesce(is_over, F.lit(False))


def past_addresses(tables: Tables) -> DataFrame:
    """Return entity_id and entity (the address)."""
    return tables.extra["past_addresses"].select("entity_id", F.concat_ws(":", "kind", "key").alias("entity"))


def _keys_with_flags(
    periods: DataFrame,
    key: list[str],
    moments: Mapping[str, Moment],
    is_included: Callable[[Moment], Column],
) -> DataFrame:
    """Return the keys with a period that includes one of the moments, and whether one includes each moment."""
    flags = [is_included(moment).alias(name) for name, moment in moments.items()]
    return (
        periods.select(*key, *flags)
        .where(reduce(or_, map(F.col, moments)))
        .groupBy(*key)
        .agg(*(F.bool_or(name).alias(name) for name in moments))
    )


def _in_force(moment: Moment) -> Column:
    """Return whether a period is in force at the moment."""

    def is_true_or_null(condition: Column) -> Column:
        return F.coalesce(condition, F.lit(True))

    return (
        lasting(moment)
        & is_true_or_null(F.col("valid_from") <= moment.at)
        & is_true_or_null(F.col("valid_until") > moment.at)
    )
