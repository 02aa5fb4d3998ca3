"""The set form of visibility: which users see a set of entities, and which entities are in a set.

A set contains the entities that exactly the same users see, so every visible entity is in one set. Both tables together have
far fewer rows than the pairs of user and entity where users see whole namespaces. Sets belong to users and not to groups,
because a member who joins a group later does not see what its present members happen to have in common.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.spark.schemas import read_table, write_table
from analytics.tables import SET_ENTITIES, SET_PRINCIPALS


class SetFormDiffers(Exception):
    """The sets do not give exactly the pairs."""


def sets_of_entities(pairs: DataFrame) -> DataFrame:
    """Return tables.SET_ENTITIES from the pairs of user and entity.

    The identifier of a set has 128 bits that depend on its users only.
    """
    halves = [F.expr(f"lpad(hex(bit_xor(xxhash64({seed}, user))), 16, '0')") for seed in (1, 2)]
    return pairs.groupBy("entity").agg(F.lower(F.concat(*halves)).alias("set"))


def principals_of_sets(pairs: DataFrame, entities: DataFrame) -> DataFrame:
    """Return tables.SET_PRINCIPALS: the users who see the first entity of each set, and therefore all of its entities."""
    first_entities = entities.groupBy("set").agg(F.min("entity").alias("entity"))
    return pairs.join(first_entities, on="entity").select(_principal(), "set")


def _principal() -> Column:
    """Return the written name of a user."""
    return F.concat(F.lit("user:"), F.col("user")).alias("principal")


def write_set_form(pairs: DataFrame, principals_uri: str, entities_uri: str) -> dict[str, int | float]:
    """Write both tables, compare them with the pairs, and return their sizes.

    `pairs`, `sets`, `principal_rows` and `entity_rows` are numbers of rows; `ratio` is the rows of both tables divided
    by the pairs. Raise SetFormDiffers if the sets do not give exactly the pairs.
    """
    spark = pairs.sparkSession
    write_table(sets_of_entities(pairs), SET_ENTITIES, entities_uri)
    entities = read_table(spark, SET_ENTITIES, entities_uri)
    write_table(principals_of_sets(pairs, entities), SET_PRINCIPALS, principals_uri)
    return _compared_sizes(pairs, read_table(spark, SET_PRINCIPALS, principals_uri), entities)


def _compared_sizes(pairs: DataFrame, principals: DataFrame, entities: DataFrame) -> dict[str, int | float]:
    """Return the sizes of a set form that is equal to the pairs, and raise SetFormDiffers otherwise.

    If every pair follows from the sets, and the sets give as many pairs as there are, both are equal.
    """
    sizes = (
        principals.groupBy("set")
        .agg(F.count("*").alias("principals"))
        .join(entities.groupBy("set").agg(F.count("*").alias("entities")), on="set", how="full")
        .agg(
            F.count("*").alias("sets"),
            F.coalesce(F.sum("principals"), F.lit(0)).alias("principal_rows"),
            F.coalesce(F.sum("entities"), F.lit(0)).alias("entity_rows"),
            F.coalesce(F.sum(F.col("principals") * F.col("entities")), F.lit(0)).alias("given"),
        )
        .head()
    )
    assert sizes is not None
    without_set = (
        pairs.select(_principal(), "entity")
        .join(entities, on="entity", how="left")
        .join(principals, on=["principal", "set"], how="left_anti")
        .count()
    )
    pair_count = pairs.count()
    if without_set or sizes["given"] != pair_count:
        raise SetFormDiffers(
            f"the sets give {sizes['given']:,} pairs of user and entity instead of {pair_count:,}, and {without_set:,} pairs do "
            f"not follow from them"
        )
    rows = sizes["principal_rows"] + sizes["entity_rows"]
    return {
        "pairs": pair_count,
        "sets": sizes["sets"],
        "principal_rows": sizes["principal_rows"],
        "entity_rows": sizes["entity_rows"],
        "ratio": round(rows / pair_count, 4) if pair_count else 0.0,
    }
