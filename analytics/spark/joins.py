"""Frames of a snapshot that several analyses join: addresses, names of principals, and the users of principals."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.spark.schemas import Tables
from analytics.spark.temporary import release_later
from grants.policies.principals import ROLE_PREFIX

# the rows of which `with_addresses` sends a copy to every executor: some 20 MB
BROADCAST_ROWS = 200_000


def group_text(name: Column) -> Column:
    """Return the written form of groups and roles (`grants.policies.principals.group_text`). name: as it is stored."""
    return F.when(name.startswith(ROLE_PREFIX), name).otherwise(F.concat(F.lit("group:"), name))


def principal_text(principal_type: str, name: Column) -> Column:
    """Return the written form of principals of one type."""
    return group_text(name) if principal_type == "group" else F.concat(F.lit(f"{principal_type}:"), name)


def live_entities(tables: Tables, namespace: str = "") -> DataFrame:
    """Return entity_id of the live entities, or only of those on and inside a live namespace, by its name."""
    live = tables.entities.where(F.col("state") == "live")
    if namespace:
        chosen = live.where((F.col("kind") == "namespace") & (F.col("key") == namespace))
        live = live.join(
            F.broadcast(chosen.select(F.col("id").alias("chosen"))),
            on=F.col("chosen") == F.coalesce("namespace_id", "id"),
            how="left_semi",
        )
    return live.select(F.col("id").alias("entity_id"))


def direct_grants(tables: Tables) -> DataFrame:
    """Return the grants on addresses, without what follows from grants on patterns."""
    return tables.grants.where(F.col("pattern") == "")


def live_addresses(tables: Tables) -> DataFrame:
    """Return entity_id and entity (the address) of the live entities.

    Their number grows with the tenant, so join them by sorting, which can spill to disk.
    """
    return tables.entities.where(F.col("state") == "live").select(
        F.col("id").alias("entity_id"), F.concat_ws(":", "kind", "key").alias("entity")
    )


def with_addresses(tables: Tables, rows: DataFrame, addresses: DataFrame) -> DataFrame:
    """Join addresses by `entity_id` to rows that are few in most tenants, although many are read to find them.

    Computes the rows. At most BROADCAST_ROWS are broadcast, so that the addresses need no exchange; more are joined by
    sorting. Read the result within `release_temporary`.
    """
    if tables.is_small:
        return rows.join(addresses, on="entity_id")
    found = rows.persist()
    release_later(found.unpersist)
    if found.count() <= BROADCAST_ROWS:
        return F.broadcast(found).join(addresses, on="entity_id")
    return found.join(addresses.hint("merge"), on="entity_id")


def principal_names(tables: Tables) -> DataFrame:
    """Return principal_type, principal_id and principal (its written form) of every active user and every
    group.
    """

    def names_of(frame: DataFrame, principal_type: str) -> DataFrame:
        return frame.select(
            F.lit(principal_type).alias("principal_type"),
            F.col("id").alias("principal_id"),
            principal_text(principal_type, F.col("name")).alias("principal"),
        )

    return names_of(tables.users, "user").unionByName(names_of(tables.groups, "group"))


def user_names(tables: Tables) -> DataFrame:
    """Return user_id and user (the name) of the active users."""
    return tables.users.select(F.col("id").alias("user_id"), F.col("name").alias("user"))


def users_of_principals(tables: Tables) -> DataFrame:
    """Return principal_type, principal_id and user_id: for each principal, the active users who get its grants."""
    active = tables.users.select(F.col("id").alias("user_id"))
    own = active.select(
        F.lit("user").alias("principal_type"), F.col("user_id").alias("principal_id"), "user_id"
    )
    through = tables.memberships.join(active, on="user_id").select(
        F.lit("group").alias("principal_type"), F.col("group_id").alias("principal_id"), "user_id"
    )
    return own.unionByName(through)
