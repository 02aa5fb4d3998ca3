"""The `ghost-grants` analysis: grants on addresses that are not live (planned, or deleted)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.joins import direct_grants, principal_names


def rows(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.GHOSTS: one row per grant of a group or of an active user on an address that is not live.

    The number of addresses that are not live grows with the tenant, so they are joined by sorting, which can
    spill to disk. They are never broadcast. Only users and groups may be.
    """
    tables = analysis_input.tables
    addresses = tables.entities.where(F.col("state") != "live").select(
        F.col("id").alias("entity_id"), F.concat_ws(":", "kind", "key").alias("entity"), "state"
    )
    return (
        direct_grants(tables)
        .join(addresses.hint("merge"), on="entity_id", how="inner")
        .join(principal_names(tables), on=["principal_type", "principal_id"], how="inner")
        .select("principal", "entity", "privilege", "state", "reason")
    )


def kinds(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.GHOST_KINDS: the numbers of ghost grants, addresses and principals, by state and kind."""
    kind = F.substring_index("entity", ":", 1).alias("kind")
    return (
        analysis_input.earlier["rows"]
        .groupBy("state", kind)
        .agg(
            F.count("*").alias("grants"),
            F.count_distinct("entity").alias("entities"),
            F.count_distinct("principal").alias("principals"),
        )
    )
