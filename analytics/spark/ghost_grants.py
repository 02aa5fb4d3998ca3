"""Ghost grants: grants on addresses where nothing lives, before an entity is made there or after it is gone."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.recipe import Recipe
from analytics.spark.schemas import Tables


def rows(recipe: Recipe) -> DataFrame:
    """tables.GHOSTS: one row per grant of a group or of an active user on an address that is not live."""
    tables = recipe.tables
    ghosts = tables.entities.where(F.col("state") != "live").select(
        F.col("id").alias("entity_id"), F.concat_ws(":", "kind", "key").alias("entity"), "state"
    )
    return (
        tables.grants.join(F.broadcast(ghosts), on="entity_id", how="inner")
        .join(_principals(tables), on=["principal_type", "principal_id"], how="inner")
        .select("principal", "entity", "privilege", "state", "reason")
    )


def kinds(recipe: Recipe) -> DataFrame:
    """tables.GHOST_KINDS: how many of these grants, on how many addresses, by state and kind."""
    kind = F.substring_index("entity", ":", 1).alias("kind")
    return recipe.earlier["rows"].groupBy("state", kind).agg(
        F.count("*").alias("grants"), F.count_distinct("entity").alias("entities"),
        F.count_distinct("principal").alias("principals"))


def _principals(tables: Tables) -> DataFrame:
    """principal_type, principal_id, principal: as it is written."""

    def written(frame: DataFrame, principal_type: str) -> DataFrame:
        return frame.select(F.lit(principal_type).alias("principal_type"), F.col("id").alias("principal_id"),
                            F.concat(F.lit(f"{principal_type}:"), "name").alias("principal"))

    return written(tables.users, "user").unionByName(written(tables.groups, "group"))
