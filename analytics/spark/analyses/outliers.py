"""The `outliers` analysis: what a member of a group holds and almost no other member does.

Who holds a privilege on an entity depends only on the set of the principals that have this grant, and many entities have
the same set. So the members of each group that a set reaches are counted once for each set, and a set of which one
principal alone reaches too many members of a group is left out before its users are compared.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.joins import live_addresses, live_entities, user_names, users_of_principals
from analytics.spark.schemas import Tables
from grants.policies.principals import ROLE_PREFIX

# in smaller groups, a single member is a large share
MIN_MEMBERS = 5


def rows(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.OUTLIERS: one row per active user, group of the user, live entity and privilege that the user holds, but
    not through the group, and with at most the share of its active members.
    """
    tables, share = analysis_input.tables, float(analysis_input.option("share"))
    granted = _granted_sets(tables, analysis_input.option("namespace"))
    members = _members_of_large_groups(tables)
    users = users_of_principals(tables).select(_principal(), "user_id")
    most = F.floor(F.col("members") * F.lit(share) + F.lit(1e-9))
    reached = (
        users.join(members, on="user_id")
        .groupBy("principal", "group_id", "members")
        .agg(F.count("*").alias("reached"))
    )
    sets = granted.select("principals").distinct().withColumn("principal", F.explode("principals"))
    candidates = (
        sets.join(reached, on="principal")
        .groupBy("principals", "group_id", "members")
        .agg(F.max("reached").alias("reached"))
        .where(F.col("reached") <= most)
        # through the group itself, all members hold it
        .where(~F.array_contains("principals", F.col("group_id") * 2 + 1))
        .select("principals", "group_id", "members")
    )
    holders = (
        candidates.withColumn("principal", F.explode("principals"))
        .join(users, on="principal")
        .join(members.select("user_id", "group_id"), on=["user_id", "group_id"], how="left_semi")
        .groupBy("principals", "group_id", "members")
        .agg(F.collect_set("user_id").alias("users"))
        .withColumn("holders", F.size("users").cast("long"))
        .where(F.col("holders") <= most)
        .withColumn("user_id", F.explode("users"))
        .drop("users")
    )
    return (
        granted.join(holders, on="principals")
        .join(live_addresses(tables).hint("merge"), on="entity_id")
        .join(user_names(tables), on="user_id")
        .join(
            tables.groups.select(F.col("id").alias("group_id"), F.col("name").alias("group")), on="group_id"
        )
        .select("user", "group", "entity", "privilege", "holders", "members")
    )


def groups(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.OUTLIERS_GROUPS: the groups with members who hold something unusual."""
    return (
        analysis_input.earlier["rows"]
        .groupBy("group", "members")
        .agg(F.count_distinct("user").alias("users"), F.count("*").alias("privileges"))
    )


def people(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.OUTLIERS_PEOPLE: the users who hold something unusual."""
    return (
        analysis_input.earlier["rows"]
        .groupBy("user")
        .agg(
            F.count_distinct("group").alias("groups"),
            F.count_distinct("entity").alias("entities"),
            F.count_distinct("entity", "privilege").alias("privileges"),
        )
    )


def _principal() -> Column:
    """Return one number for the type and the id of a principal."""
    is_group = (F.col("principal_type") == "group").cast("long")
    return (F.col("principal_id") * 2 + is_group).alias("principal")


def _granted_sets(tables: Tables, namespace: str) -> DataFrame:
    """Return entity_id, privilege and principals, the sorted set of those with this grant, of the live entities or of those
    on and inside the namespace.
    """
    return (
        tables.grants.select("entity_id", "privilege", _principal())
        .join(live_entities(tables, namespace).hint("merge"), on="entity_id", how="left_semi")
        .groupBy("entity_id", "privilege")
        .agg(F.sort_array(F.collect_set("principal")).alias("principals"))
    )


def _members_of_large_groups(tables: Tables) -> DataFrame:
    """Return user_id, group_id and members (their number) of the groups with at least MIN_MEMBERS active members. Roles are
    no groups.
    """
    groups = tables.groups.where(~F.col("name").startswith(ROLE_PREFIX)).select(F.col("id").alias("group_id"))
    active = (
        tables.memberships.join(groups, on="group_id", how="left_semi")
        .join(tables.users.select(F.col("id").alias("user_id")), on="user_id", how="left_semi")
        .select("user_id", "group_id")
    )
    large = (
        active.groupBy("group_id").agg(F.count("*").alias("members")).where(F.col("members") >= MIN_MEMBERS)
    )
    return active.join(large, on="group_id")
