"""Delete-readiness: on how many of the entities that the deletion of a namespace needs does each user hold ADMIN?

Evaluated as a change (engine.rules.admin_rules): a user with ADMIN anywhere in the namespace is a candidate, and gains each
entity on which ADMIN is needed and held. The detail makes only the pairs of users and entities that are missing.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.engine import HolderCounts, LiveNamespaces, PairTable, evaluate_rules
from analytics.spark.engine.encode import namespaces_required
from analytics.spark.engine.rules import CANDIDATE, admin_needed_to_delete_namespace, admin_rules, missing_admin_rules
from analytics.spark.recipe import Recipe
from analytics.spark.sorted_table import SortedTable
from analytics.tables import READINESS_DETAIL
from entities.vocabulary import KINDS


def rows(recipe: Recipe) -> SortedTable:
    """tables.READINESS: one row for each live namespace and active user with ADMIN on it or on any address in it."""
    kinds = _required_kinds(recipe)
    return evaluate_rules(recipe.tables, admin_rules(kinds), HolderCounts(kinds, marking_operation=CANDIDATE),
                          namespaces=LiveNamespaces(recipe.namespace))


def namespaces(recipe: Recipe) -> DataFrame:
    """tables.READINESS_NAMESPACES: one row for each live namespace, also where no user holds ADMIN on anything."""
    required = namespaces_required(recipe.tables, LiveNamespaces(recipe.namespace), _required_kinds(recipe))
    by_namespace = recipe.earlier["rows"].groupBy("namespace").agg(
        F.count("*").alias("users"),
        F.count_if(F.col("ready")).alias("users_ready"),
        F.min("missing").alias("fewest_missing"),
        F.min(F.struct("missing", "user")).getField("user").alias("nearest_user"),
    )
    users_ready = F.coalesce("users_ready", F.lit(0))
    return (
        required.withColumnRenamed("name", "namespace").join(by_namespace, on="namespace", how="left")
        .select("namespace", "required", F.coalesce("users", F.lit(0)).alias("users"), users_ready.alias("users_ready"),
                "fewest_missing", "nearest_user", (users_ready == 0).alias("nobody_can_delete"))
    )


def detail(recipe: Recipe) -> SortedTable:
    """tables.READINESS_DETAIL: for every row, each entity on which that user is missing ADMIN; sum(missing) rows."""
    counts = recipe.earlier["rows"].select(F.col("namespace").alias("name"), F.col("missing").alias("pairs"))
    return evaluate_rules(recipe.tables, missing_admin_rules(_required_kinds(recipe)), PairTable(READINESS_DETAIL, counts),
                          namespaces=LiveNamespaces(recipe.namespace))


def _required_kinds(recipe: Recipe) -> tuple[str, ...]:
    needed = admin_needed_to_delete_namespace(recipe.generation)
    inside = KINDS if needed.kinds_inside is None else needed.kinds_inside
    return tuple(kind for kind in KINDS if (needed.on_namespace if kind == "namespace" else kind in inside))
