"""The live entities that a plan asks about, numbered and cut into blocks.

A family is what one namespace contains, with the namespace itself; what lies in no namespace is a family of its own. Families
are numbered by kind, so that a kind is one run of positions, and cut into blocks of BLOCK_ENTITIES.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from analytics.spark.blocks import BLOCK_ENTITIES
from analytics.spark.schemas import Tables
from analytics.spark.verdicts import APPLICATIONS

OUTSIDE = -1


def live_targets(tables: Tables, kinds: tuple[str, ...], container: str = "namespace") -> DataFrame:
    """id, kind, key, family, block, position, application_id: of every live entity of these kinds.

    container: whose contents are a family.
    """
    family = F.coalesce(f"{container}_id", F.lit(OUTSIDE)).alias("family")
    live = tables.entities.where((F.col("state") == "live") & F.col("kind").isin(*kinds))
    in_order = Window.partitionBy("family").orderBy("kind", "id")
    number = F.row_number().over(in_order) - 1
    return live.select("id", "kind", "key", family, "application_id").withColumn("number", number).select(
        "id", "kind", "key", "family", F.floor(F.col("number") / BLOCK_ENTITIES).alias("block"),
        (F.col("number") % BLOCK_ENTITIES).cast("long").alias("position"), "application_id",
    )


def block_shapes(targets: DataFrame, *, with_applications: bool) -> DataFrame:
    """family, block, kinds, applications: what analytics.spark.verdicts needs to know of each block besides its holdings."""
    runs = targets.groupBy("family", "block", "kind").agg(F.min("position").alias("first"), F.count("*").alias("count"))
    shapes = runs.groupBy("family", "block").agg(F.collect_list(F.struct("kind", "first", "count")).alias("kinds"))
    if not with_applications:
        return shapes.withColumn("applications", F.lit(None).cast(APPLICATIONS))
    inside = targets.where(F.col("application_id").isNotNull()).groupBy("family", "block", F.col("application_id").alias("place"))
    gathered = (
        inside.agg(F.collect_list("position").alias("positions"))
        .groupBy("family", "block").agg(F.collect_list(F.struct("place", "positions")).alias("applications"))
    )
    return shapes.join(gathered, on=["family", "block"], how="left")
