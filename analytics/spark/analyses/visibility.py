"""Visibility: the live entities that `list` shows to every active user."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.engine import ChangeCounts, PairTable, evaluate_rules
from analytics.spark.engine.rules import visibility_rules
from analytics.spark.recipe import Recipe
from analytics.spark.sorted_table import SortedTable
from analytics.tables import VISIBILITY, VISIBILITY_DETAIL


def rows(recipe: Recipe) -> SortedTable:
    """tables.VISIBILITY: one row for each user, kind and namespace in which the user sees an entity."""
    return evaluate_rules(recipe.tables, visibility_rules(recipe.generation), ChangeCounts(VISIBILITY, gained="visible"))


def namespaces(recipe: Recipe) -> DataFrame:
    """tables.VISIBILITY_NAMESPACES: the same over all kinds."""
    return recipe.earlier["rows"].groupBy("user", "namespace").agg(F.sum("visible").alias("visible"))


def detail(recipe: Recipe) -> SortedTable:
    """tables.VISIBILITY_DETAIL: each entity that each user sees; sum(visible) rows."""
    counts = recipe.earlier["rows"].select(F.col("user").alias("name"), F.col("visible").alias("pairs"))
    return evaluate_rules(recipe.tables, visibility_rules(recipe.generation), PairTable(VISIBILITY_DETAIL, counts))
