"""The `redundant` analysis: direct grants that a group gives too, memberships without effect, and grants of inactive
users.

A grant or a membership is redundant only if the other one does not end sooner. Grants, entities and pairs of grants on
the same entity grow with the tenant: they are never broadcast.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.engine.rules import PRIVILEGES
from analytics.spark.joins import direct_grants, group_text, live_addresses, user_names, with_addresses
from analytics.spark.schemas import Tables

# later than the end of every period
_NEVER = "9999-12-31T23:59:59Z"


def rows(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.REDUNDANT: one row per direct grant of an active user on a live entity that a group gives too."""
    tables = analysis_input.tables
    direct = _permissions_of(tables, "user").withColumnRenamed("principal_id", "user_id")
    of_groups = _permissions_of(tables, "group").select(
        F.col("principal_id").alias("group_id"), "permission", F.col("valid_until").alias("group_until")
    )
    given_too = (
        direct.join(of_groups.hint("shuffle_hash"), on="permission")
        .join(_memberships(tables), on=["user_id", "group_id"])
        .where(F.least(_ends("group_until"), "member_ends") >= _ends())
        .join(
            tables.groups.select(F.col("id").alias("group_id"), F.col("name").alias("group")), on="group_id"
        )
        .groupBy("user_id", "permission")
        .agg(F.min(group_text(F.col("group"))).alias("through"))
        .select(
            "user_id",
            F.expr(f"permission div {len(PRIVILEGES)}").alias("entity_id"),
            F.get(F.array(*map(F.lit, PRIVILEGES)), F.col("permission") % len(PRIVILEGES)).alias("privilege"),
            "through",
        )
    )
    return (
        with_addresses(tables, given_too, live_addresses(tables))
        .join(_principals(tables.users), on="user_id")
        .select("principal", "entity", "privilege", "through")
    )


def memberships(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.REDUNDANT_MEMBERSHIPS: one row per membership of an active user through which the user gets nothing
    that another group of the user does not give. Memberships in roles with groups, and in these groups, are left out: the
    one follows from the other.

    If several groups give the same, only the membership that ends last has an effect. If several end last, it is the
    one in the first group by name.
    """
    tables = analysis_input.tables
    names = tables.groups.select(F.col("id").alias("group_id"), F.col("name").alias("group"))
    members = _memberships(tables).join(user_names(tables), on="user_id").join(names, on="group_id")
    gives = _grants_of(tables, "group").join(
        _existing_entities(tables).hint("merge"), on="entity_id", how="left_semi"
    )
    others = members.select(
        "user_id",
        F.col("group_id").alias("other_id"),
        F.col("group").alias("other"),
        F.col("member_ends").alias("other_ends"),
    )
    is_later = (F.col("other_ends") > F.col("member_ends")) | (
        (F.col("other_ends") == F.col("member_ends")) & (F.col("other") < F.col("group"))
    )
    connected = tables.extra["role_groups"].select(
        F.explode(F.array("role_id", "group_id")).alias("group_id")
    )
    members = members.join(F.broadcast(connected), on="group_id", how="left_anti")
    covered = (
        members.join(_groups_within_others(gives), on="group_id")
        .join(others, on=["user_id", "other_id"])
        .where((F.col("other_ends") >= F.col("member_ends")) & (~F.col("is_same") | is_later))
        .groupBy("user", "group")
        .agg(F.min(group_text(F.col("other"))).alias("through"))
    )
    empty = members.join(
        gives.select(F.col("principal_id").alias("group_id")).distinct(), on="group_id", how="left_anti"
    )
    return covered.unionByName(empty.select("user", "group", F.lit("").alias("through")))


def inactive(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.REDUNDANT_INACTIVE: one row per direct grant of an inactive user, on an address in any state."""
    tables = analysis_input.tables
    addresses = tables.entities.select(
        F.col("id").alias("entity_id"), F.concat_ws(":", "kind", "key").alias("entity"), "state"
    )
    held = (
        _grants_of(tables, "user")
        .withColumnRenamed("principal_id", "user_id")
        .join(_principals(tables.inactive_users), on="user_id")
    )
    return with_addresses(tables, held, addresses).select("principal", "entity", "privilege", "state")


def groups(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.REDUNDANT_GROUPS: the groups that make direct grants redundant."""
    return (
        analysis_input.earlier["rows"]
        .groupBy("through")
        .agg(F.count("*").alias("grants"), F.count_distinct("principal").alias("users"))
    )


def _groups_within_others(gives: DataFrame) -> DataFrame:
    """Return group_id, other_id and is_same (whether each gives what the other gives) of the pairs of groups of which
    the other one gives everything, and for as long.
    """
    own = gives.select(F.col("principal_id").alias("group_id"), "entity_id", "privilege", "ends")
    other = gives.select(
        F.col("principal_id").alias("other_id"), "entity_id", "privilege", F.col("ends").alias("other_ends")
    )
    within = (
        own.join(other.hint("merge"), on=["entity_id", "privilege"])
        .where((F.col("group_id") != F.col("other_id")) & (F.col("other_ends") >= F.col("ends")))
        .groupBy("group_id", "other_id")
        .agg(F.count("*").alias("shared"))
        .join(own.groupBy("group_id").agg(F.count("*").alias("given")), on="group_id")
        .where(F.col("shared") == F.col("given"))
        .select("group_id", "other_id")
    )
    reverse = within.select(
        F.col("group_id").alias("other_id"), F.col("other_id").alias("group_id"), F.lit(True).alias("is_same")
    )
    return within.join(reverse, on=["group_id", "other_id"], how="left").withColumn(
        "is_same", F.coalesce("is_same", F.lit(False))
    )


def _ends(column: str = "valid_until") -> Column:
    return F.coalesce(column, F.lit(_NEVER))


def _permissions_of(tables: Tables, principal_type: str) -> DataFrame:
    """Return principal_id, permission and valid_until of the grants to users or to groups.

    A permission is one number for the entity and the privilege, which Spark exchanges and compares faster than texts.
    """
    privilege = F.array_position(F.array(*map(F.lit, PRIVILEGES)), F.col("privilege")) - 1
    return _of_type(tables, principal_type).select(
        "principal_id", (F.col("entity_id") * len(PRIVILEGES) + privilege).alias("permission"), "valid_until"
    )


def _grants_of(tables: Tables, principal_type: str) -> DataFrame:
    """Return principal_id, entity_id, privilege and ends of the grants to users or to groups."""
    return _of_type(tables, principal_type).select(
        "principal_id", "entity_id", "privilege", _ends().alias("ends")
    )


def _of_type(tables: Tables, principal_type: str) -> DataFrame:
    """Return the direct grants to users, or all grants to groups."""
    grants = direct_grants(tables) if principal_type == "user" else tables.grants
    return grants.where(F.col("principal_type") == principal_type)


def _memberships(tables: Tables) -> DataFrame:
    return tables.memberships.select("user_id", "group_id", _ends().alias("member_ends"))


def _principals(users: DataFrame) -> DataFrame:
    return users.select(F.col("id").alias("user_id"), F.concat(F.lit("user:"), "name").alias("principal"))


def _existing_entities(tables: Tables) -> DataFrame:
    return tables.entities.where(F.col("state") != "deleted").select(F.col("id").alias("entity_id"))
