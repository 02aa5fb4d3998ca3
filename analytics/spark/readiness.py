"""Delete-readiness: of the entities on which a namespace's deletion needs ADMIN, how many does each user hold it on?

Asked as two laws are compared (analytics.spark.law): who holds ADMIN anywhere in the namespace is a candidate, and gains each
entity on which ADMIN is needed and held. The pairs of users and entities are never made: the detail makes only those that are
missing.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from analytics.spark.at_once import holders_at_once
from analytics.spark.changes import pairs_named
from analytics.spark.facts import Asked, every_part, namespaces_named, partitions, parts, plain_plan, ranked, whole_tenant
from analytics.spark.in_order import InOrder
from analytics.spark.law import CANDIDATE, admin_missing_plan, admin_needed_to_delete_namespace, admin_plan
from analytics.spark.packing import PACKED_HOLDERS, holders_merged, holders_packed
from analytics.spark.principals import users_placed
from analytics.spark.recipe import Recipe
from analytics.spark.schemas import Tables
from analytics.spark.whole import Namespaces
from analytics.tables import READINESS
from entities.vocabulary import KINDS


def rows(recipe: Recipe) -> InOrder:
    """One row per live namespace and active user with ADMIN on it or on any address in it; in that order."""
    tables, kinds = recipe.tables, _needed_kinds(recipe)
    plan = admin_plan(kinds)
    asked = Asked(tables, plan, is_together=True, namespaces=Namespaces(recipe.namespace))
    packed = holders_packed(asked.law, frozenset(n for n, rule in enumerate(plan.rules) if rule.operation == CANDIDATE))
    if tables.is_little:
        return InOrder(READINESS, whole_tenant(tables), holders_at_once(plain_plan(asked), packed, kinds))
    count = partitions(tables)
    required = _required(recipe).withColumn("part", F.ntile(count).over(Window.orderBy("rank")) - 1)
    held = parts(asked).mapInArrow(packed, PACKED_HOLDERS)
    told = held.join(F.broadcast(required), on="rank", how="inner").unionByName(
        _users_for(tables, count), allowMissingColumns=True)
    return InOrder(READINESS, told.repartitionById(count, "part"), holders_merged)


def _users_for(tables: Tables, count: int) -> DataFrame:
    """part, user, number: every user with the place by name, to each part."""
    return every_part(tables, count).crossJoin(users_placed(tables).select("user", F.col("place").alias("number")))


def namespaces(recipe: Recipe) -> DataFrame:
    """tables.READINESS_NAMESPACES: one row per live namespace, also where nobody holds ADMIN on anything."""
    by_namespace = recipe.earlier["rows"].groupBy("namespace").agg(
        F.count("*").alias("users"),
        F.count_if(F.col("ready")).alias("users_ready"),
        F.min("missing").alias("fewest_missing"),
        F.min(F.struct("missing", "user")).getField("user").alias("nearest_user"),
    )
    users_ready = F.coalesce("users_ready", F.lit(0))
    return (
        _required(recipe).join(by_namespace, on="namespace", how="left")
        .select("namespace", "required", F.coalesce("users", F.lit(0)).alias("users"), users_ready.alias("users_ready"),
                "fewest_missing", "nearest_user", (users_ready == 0).alias("nobody_can_delete"))
    )


def detail(recipe: Recipe) -> DataFrame:
    """tables.READINESS_DETAIL: for every row, each entity on which that user lacks ADMIN; sum(missing) rows."""
    asked = Asked(recipe.tables, admin_missing_plan(_needed_kinds(recipe)), namespaces=Namespaces(recipe.namespace))
    # an address begins with its kind, and goes on with the name of its namespace
    namespace = F.regexp_extract("entity", "^[^:]*:([^.]*)", 1).alias("namespace")
    return pairs_named(asked, each_user=False).select(namespace, "user", "entity")


def _needed_kinds(recipe: Recipe) -> tuple[str, ...]:
    needed = admin_needed_to_delete_namespace(recipe.generation)
    inside = KINDS if needed.kinds_inside is None else needed.kinds_inside
    return tuple(kind for kind in KINDS if (needed.on_namespace if kind == "namespace" else kind in inside))


def _required(recipe: Recipe) -> DataFrame:
    """namespace, required, rank: of every live namespace."""
    is_needed = (F.col("state") == "live") & F.col("kind").isin(*_needed_kinds(recipe))
    counts = recipe.tables.entities.groupBy(F.col("namespace_id").alias("family")).agg(F.count_if(is_needed).alias("required"))
    return (
        ranked(namespaces_named(recipe.tables, Namespaces(recipe.namespace))).join(counts, on="family", how="left")
        .select(F.col("name").alias("namespace"), F.coalesce("required", F.lit(0)).alias("required"), "rank")
    )
