"""Visibility: the live entities that listing shows, for every active user, as changes from no rule to the `list` rules."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.changes import changed_pairs, changes_by_namespace
from analytics.spark.in_order import InOrder
from analytics.spark.law import visibility_plan
from analytics.spark.recipe import Recipe
from analytics.tables import VISIBILITY


def rows(recipe: Recipe) -> InOrder:
    """One row per user, kind and namespace of which the user sees anything."""
    return changes_by_namespace(recipe.tables, visibility_plan(recipe.generation), VISIBILITY, gained="visible")


def namespaces(recipe: Recipe) -> DataFrame:
    """tables.VISIBILITY_NAMESPACES: the same over all kinds."""
    return recipe.earlier["rows"].groupBy("user", "namespace").agg(F.sum("visible").alias("visible"))


def detail(recipe: Recipe) -> DataFrame:
    """tables.VISIBILITY_DETAIL: each entity that each user sees; sum(visible) rows."""
    return changed_pairs(recipe.tables, visibility_plan(recipe.generation)).select("user", "entity")
