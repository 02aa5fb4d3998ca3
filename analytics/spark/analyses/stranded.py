"""The `stranded` analysis: live entities with fewer than two active ADMIN holders.

The administrators of an entity are not counted. For each principal, the first and the last user that it
reaches are enough: an entity has fewer than two ADMIN holders if and only if the first user over all its
grants of ADMIN is also the last.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.schemas import Tables
from entities.vocabulary import MIN_ADMINISTRATORS, Privilege


def rows(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.STRANDED: one row per live entity with no active administrator, or with one."""
    return (
        _live_with_admins(analysis_input.tables)
        .where(_is_stranded())
        .join(
            analysis_input.tables.users.select(F.col("id").alias("first_user"), F.col("name").alias("user")),
            on="first_user",
            how="left",
        )
        .select(
            "entity",
            F.col("user").isNotNull().cast("long").alias("admins"),
            F.coalesce("user", F.lit("")).alias("admin"),
        )
    )


def kinds(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.STRANDED_KINDS: the number of live entities of each kind, and of those with no or one
    administrator.
    """
    has_no_admin = F.col("first_user").isNull()
    return (
        _live_with_admins(analysis_input.tables)
        .groupBy("kind")
        .agg(
            F.count("*").alias("live"),
            F.count_if(has_no_admin).alias("nobody"),
            F.count_if(_is_stranded() & ~has_no_admin).alias("one"),
        )
    )


def _is_stranded() -> Column:
    # Comparing the first with the last user detects fewer than two ADMIN holders, and no other number.
    assert MIN_ADMINISTRATORS == 2
    return F.col("first_user").isNull() | (F.col("first_user") == F.col("last_user"))


def _live_with_admins(tables: Tables) -> DataFrame:
    """Return kind, entity, first_user and last_user of every live entity. The users are null if there is no
    administrator.

    The administered entities grow with the tenant, so they are joined by sorting and never broadcast.
    """
    administered = (
        tables.grants.where(F.col("privilege") == Privilege.ADMIN.value)
        .join(_first_and_last_users(tables), on=["principal_type", "principal_id"], how="inner")
        .groupBy(F.col("entity_id").alias("id"))
        .agg(F.min("first_user").alias("first_user"), F.max("last_user").alias("last_user"))
    )
    return (
        tables.entities.where(F.col("state") == "live")
        .select("id", "kind", F.concat_ws(":", "kind", "key").alias("entity"))
        .join(administered.hint("merge"), on="id", how="left")
        .select("kind", "entity", "first_user", "last_user")
    )


def _first_and_last_users(tables: Tables) -> DataFrame:
    """Return principal_type, principal_id, first_user and last_user of every active user, and of every group
    with active members.

    first_user, last_user: the lowest and the highest id of the users that its grants apply to; equal for a
    single user. A snapshot contains no inactive users.
    """
    users = tables.users.select(
        F.lit("user").alias("principal_type"),
        F.col("id").alias("principal_id"),
        F.col("id").alias("first_user"),
        F.col("id").alias("last_user"),
    )
    active = tables.users.select(F.col("id").alias("user_id"))
    groups = (
        tables.memberships.join(F.broadcast(active), on="user_id", how="left_semi")
        .groupBy(F.lit("group").alias("principal_type"), F.col("group_id").alias("principal_id"))
        .agg(F.min("user_id").alias("first_user"), F.max("user_id").alias("last_user"))
    )
    return users.unionByName(groups)
