"""Stranded entities: live ones that fewer than two active users administer.

Nobody counts the holders of an entity that has many: of each principal it is enough to know the first and the last user that
it reaches, and an entity has fewer than two holders exactly where the first of all is the last of all.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.spark.principals import first_and_last_users, users_named
from analytics.spark.recipe import Recipe
from analytics.spark.schemas import Tables
from entities.vocabulary import Privilege


def rows(recipe: Recipe) -> DataFrame:
    """tables.STRANDED: one row per live entity with no active user who holds ADMIN, or with one."""
    return (
        _live_with_admins(recipe.tables).where(_is_stranded())
        .join(users_named(recipe.tables), on=F.col("first_user") == F.col("user_id"), how="left")
        .select("entity", F.col("user").isNotNull().cast("long").alias("admins"), F.coalesce("user", F.lit("")).alias("admin"))
    )


def kinds(recipe: Recipe) -> DataFrame:
    """tables.STRANDED_KINDS: of each kind how many are live, and how many of them nobody or one user administers."""
    nobody = F.col("first_user").isNull()
    return _live_with_admins(recipe.tables).groupBy("kind").agg(
        F.count("*").alias("live"), F.count_if(nobody).alias("nobody"), F.count_if(_is_stranded() & ~nobody).alias("one")
    )


def _is_stranded() -> Column:
    return F.col("first_user").isNull() | (F.col("first_user") == F.col("last_user"))


def _live_with_admins(tables: Tables) -> DataFrame:
    """kind, entity, first_user, last_user: of every live entity; the users are null where nobody holds ADMIN on it."""
    held = (
        tables.grants.where(F.col("privilege") == Privilege.ADMIN.value)
        .join(first_and_last_users(tables), on=["principal_type", "principal_id"], how="inner")
        .groupBy(F.col("entity_id").alias("id"))
        .agg(F.min("first_user").alias("first_user"), F.max("last_user").alias("last_user"))
    )
    return (
        tables.entities.where(F.col("state") == "live").select("id", "kind", F.concat_ws(":", "kind", "key").alias("entity"))
        .join(held, on="id", how="left")
        .select("kind", "entity", "first_user", "last_user")
    )
