"""Policy impact: whose answers change from one generation of rules to another, over operations that have a rule in both."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.changes import changed_pairs, changes_by_operation
from analytics.spark.in_order import InOrder
from analytics.spark.law import impact_plan
from analytics.spark.recipe import Recipe
from analytics.tables import IMPACT


def rows(recipe: Recipe) -> InOrder:
    """One row per user, kind and operation with any change."""
    return changes_by_operation(recipe.tables, impact_plan(recipe.generation, recipe.to_generation), IMPACT)


def operations(recipe: Recipe) -> DataFrame:
    """tables.IMPACT_OPERATIONS: the same over all users."""
    return recipe.earlier["rows"].groupBy("kind", "operation").agg(
        F.count("*").alias("users"), F.sum("gained").alias("gained"), F.sum("lost").alias("lost"))


def detail(recipe: Recipe) -> DataFrame:
    """tables.IMPACT_DETAIL: each entity with each operation whose answer turns for that user; sum(gained + lost) rows."""
    pairs = changed_pairs(recipe.tables, impact_plan(recipe.generation, recipe.to_generation))
    return pairs.select("user", "entity", "operation", (~pairs["after"]).alias("before"), "after")
