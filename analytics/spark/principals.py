"""The active users that a grant applies to: the user itself, or the members of a group.

A snapshot contains no inactive users.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.spark.schemas import Tables


def user_names(tables: Tables) -> DataFrame:
    """Return user_id and user (the name) of every active user."""
    return tables.users.select(F.col("id").alias("user_id"), F.col("name").alias("user"))


def first_and_last_users(tables: Tables) -> DataFrame:
    """Return principal_type, principal_id, first_user and last_user of every user, and of every group with
    active members.

    first_user, last_user: the lowest and the highest id of the users that its grants apply to; equal for a
    single user.
    """
    users = _user_principals(tables, first_user=F.col("id"), last_user=F.col("id"))
    return users.unionByName(
        _group_principals(tables, first_user=F.min("user_id"), last_user=F.max("user_id"))
    )


def _user_principals(tables: Tables, **columns: Column) -> DataFrame:
    return tables.users.select(
        F.lit("user").alias("principal_type"),
        F.col("id").alias("principal_id"),
        *[column.alias(name) for name, column in columns.items()],
    )


def _group_principals(tables: Tables, **columns: Column) -> DataFrame:
    active = tables.users.select(F.col("id").alias("user_id"))
    return (
        tables.memberships.join(F.broadcast(active), on="user_id", how="left_semi")
        .groupBy(F.lit("group").alias("principal_type"), F.col("group_id").alias("principal_id"))
        .agg(*[column.alias(name) for name, column in columns.items()])
    )
