"""Policy impact: whose answers change from one generation to another, over the operations that have a rule in both."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.engine import ChangeCounts, PairTable, evaluate_rules
from analytics.spark.engine.rules import impact_rules
from analytics.spark.recipe import Recipe
from analytics.spark.sorted_table import SortedTable
from analytics.tables import IMPACT, IMPACT_DETAIL


def rows(recipe: Recipe) -> SortedTable:
    """tables.IMPACT: one row for each user, kind and operation with a change."""
    rules = impact_rules(recipe.generation, recipe.to_generation)
    return evaluate_rules(recipe.tables, rules, ChangeCounts(IMPACT, by_namespace=False))


def operations(recipe: Recipe) -> DataFrame:
    """tables.IMPACT_OPERATIONS: the same over all users."""
    return recipe.earlier["rows"].groupBy("kind", "operation").agg(
        F.count("*").alias("users"), F.sum("gained").alias("gained"), F.sum("lost").alias("lost"))


def detail(recipe: Recipe) -> SortedTable:
    """tables.IMPACT_DETAIL: each entity and operation whose answer changes for a user; sum(gained + lost) rows."""
    counts = recipe.earlier["rows"].select(F.col("user").alias("name"), (F.col("gained") + F.col("lost")).alias("pairs"))
    return evaluate_rules(recipe.tables, impact_rules(recipe.generation, recipe.to_generation), PairTable(IMPACT_DETAIL, counts))
