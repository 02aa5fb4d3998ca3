"""The `guardrails` analysis: what violates the guardrails of the tenant.

The same guardrails are evaluated in SQL for changes (`grants.guardrails.evaluation`). Their clauses are few, so they are
broadcast; grants, entities and the users of a group grow with the tenant, so they are joined by sorting. The decisions that
guardrails expect are compared when the snapshot is taken.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.joins import principal_names, users_of_principals
from analytics.spark.schemas import Tables

_FORBID, _FORBID_BOTH, _REQUIRE = "forbid", "forbid_both", "require"
# stands for the instance, which contains every entity; no entity has this number
_EVERYTHING = -1


def rows(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.VIOLATIONS: one row for each violation."""
    tables = analysis_input.tables
    unexpected = tables.extra["unexpected"].select(
        "guardrail", "principal", "entity", F.col("operation").alias("privilege"), F.lit("").alias("through")
    )
    return _forbidden_privileges(tables).unionByName(_too_few(tables)).unionByName(unexpected)


def totals(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.VIOLATION_TOTALS: one row for each guardrail."""
    counts = (
        analysis_input.earlier["rows"]
        .groupBy("guardrail")
        .agg(
            F.count("*").alias("violations"),
            F.count_distinct(F.when(F.col("principal") != "", F.col("principal"))).alias("users"),
            F.count_distinct("entity").alias("entities"),
        )
    )
    guardrails = analysis_input.tables.extra["guardrails"].select("guardrail", "level").distinct()
    numbers = ("violations", "users", "entities")
    return guardrails.join(counts, on="guardrail", how="left").fillna(0, subset=list(numbers))


def _forbidden_privileges(tables: Tables) -> DataFrame:
    """Return the privileges that active users hold and guardrails forbid."""
    hits = _grants_in_places(tables).join(users_of_principals(tables), on=["principal_type", "principal_id"])
    members = tables.memberships.select("user_id", "group_id")
    about_everybody = hits.where(F.col("group_id").isNull())
    about_members = hits.join(members, on=["user_id", "group_id"], how="left_semi")
    ways = about_everybody.unionByName(about_members).join(
        principal_names(tables), on=["principal_type", "principal_id"]
    )
    held = ways.groupBy("guardrail", "form", "user_id", "entity_id", "privilege").agg(
        F.min("principal").alias("through"),
        F.min("side").alias("first_side"),
        F.max("side").alias("last_side"),
    )
    user = Window.partitionBy("guardrail", "user_id")
    both = (
        held.where(F.col("form") == _FORBID_BOTH)
        .withColumn("first_side", F.min("first_side").over(user))
        .withColumn("last_side", F.max("last_side").over(user))
        .where(F.col("first_side") != F.col("last_side"))
    )
    names = tables.users.select(
        F.col("id").alias("user_id"), F.concat(F.lit("user:"), "name").alias("principal")
    )
    return (
        held.where(F.col("form") == _FORBID)
        .unionByName(both)
        .join(names, on="user_id")
        .join(_addresses(tables).select("entity_id", "entity").hint("merge"), on="entity_id")
        .select("guardrail", "principal", "entity", "privilege", "through")
    )


def _grants_in_places(tables: Tables) -> DataFrame:
    """Return the grants on live and planned entities with the clauses of guardrails that they meet."""
    clauses = tables.extra["guardrails"].where(F.col("form").isin(_FORBID, _FORBID_BOTH))
    places = tables.entities.select("kind", "key", F.col("id").alias("place_id"))
    placed = places.join(F.broadcast(clauses), on=["kind", "key"]).select(
        "guardrail",
        "form",
        "side",
        "privilege",
        "group_id",
        F.when(F.col("kind") == "instance", _EVERYTHING).otherwise(F.col("place_id")).alias("place_id"),
    )
    containers = F.array_distinct(
        F.array("entity_id", "namespace_id", "application_id", F.lit(_EVERYTHING).cast("long"))
    )
    inside = _addresses(tables).select("entity_id", containers.alias("places"))
    return (
        tables.grants.join(
            F.broadcast(clauses.select("privilege").distinct()), on="privilege", how="left_semi"
        )
        .select("principal_type", "principal_id", "entity_id", "privilege")
        .join(inside.hint("merge"), on="entity_id")
        .withColumn("place_id", F.explode("places"))
        .drop("places")
        .join(F.broadcast(placed), on=["place_id", "privilege"])
        .drop("place_id")
    )


def _too_few(tables: Tables) -> DataFrame:
    """Return the live and planned entities with fewer holders than a guardrail requires."""
    clauses = tables.extra["guardrails"].where(F.col("form") == _REQUIRE)
    required = (
        _addresses(tables)
        .join(F.broadcast(clauses.select("guardrail", "kind", "privilege", "at_least")), on="kind")
        .select("guardrail", "entity_id", "entity", "privilege", "at_least")
    )
    wanted = required.select("entity_id", "privilege").distinct()
    holders = (
        tables.grants.join(wanted.hint("merge"), on=["entity_id", "privilege"], how="left_semi")
        .join(users_of_principals(tables), on=["principal_type", "principal_id"])
        .groupBy("entity_id", "privilege")
        .agg(F.count_distinct("user_id").alias("holders"))
    )
    return (
        required.join(holders, on=["entity_id", "privilege"], how="left")
        .where(_or_zero("holders") < F.col("at_least"))
        .select(
            "guardrail",
            F.lit("").alias("principal"),
            "entity",
            "privilege",
            F.lit("").alias("through"),
        )
    )


def _or_zero(column: str) -> Column:
    return F.coalesce(column, F.lit(0))


def _addresses(tables: Tables) -> DataFrame:
    """Return the live and planned entities with their addresses and containers."""
    return tables.entities.where(F.col("state") != "deleted").select(
        F.col("id").alias("entity_id"),
        F.concat_ws(":", "kind", "key").alias("entity"),
        "kind",
        "namespace_id",
        "application_id",
    )
