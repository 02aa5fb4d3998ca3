"""Whom a grant reaches: a user's own that user, a group's its members. Active users only, as the snapshot holds no others."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from analytics.spark.schemas import Tables


def users_named(tables: Tables) -> DataFrame:
    """user_id, user."""
    return tables.users.select(F.col("id").alias("user_id"), F.col("name").alias("user"))


def users_placed(tables: Tables) -> DataFrame:
    """user_id, user, place: among all by name, from 0 on."""
    place = F.row_number().over(Window.orderBy("user")) - 1
    return users_named(tables).withColumn("place", place.cast("long"))


def first_and_last_users(tables: Tables) -> DataFrame:
    """principal_type, principal_id, first_user, last_user: by number; the same where the principal reaches one user only."""
    alone = _alone(tables, first_user=F.col("id"), last_user=F.col("id"))
    return alone.unionByName(_together(tables, first_user=F.min("user_id"), last_user=F.max("user_id")))


def _alone(tables: Tables, **columns) -> DataFrame:
    named = [column.alias(name) for name, column in columns.items()]
    return tables.users.select(F.lit("user").alias("principal_type"), F.col("id").alias("principal_id"), *named)


def _together(tables: Tables, **columns) -> DataFrame:
    active = tables.users.select(F.col("id").alias("user_id"))
    return (
        tables.memberships.join(F.broadcast(active), on="user_id", how="left_semi")
        .groupBy(F.lit("group").alias("principal_type"), F.col("group_id").alias("principal_id"))
        .agg(*[column.alias(name) for name, column in columns.items()])
    )
