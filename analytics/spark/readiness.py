"""Delete-readiness: of the entities on which a namespace's deletion needs ADMIN, how many does each user hold it on?

The needed entities of a namespace are numbered and cut into blocks, so that a grant of ADMIN is one bit (analytics.spark.blocks);
a group's grants meet its members as whole rows of bits. The pairs of users and entities are never made: the detail makes
only those that are missing.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from analytics.spark.blocks import (
    BLOCK_ENTITIES,
    BLOCK_WORDS,
    HELD,
    HELD_BITS,
    WORD_BITS,
    held_bits_in_blocks,
    held_in_blocks,
)
from analytics.spark.law import AdminNeeded, admin_needed_to_delete_namespace
from analytics.spark.principals import users_named, users_of_principals
from analytics.spark.recipe import Recipe
from analytics.spark.schemas import Tables
from entities.vocabulary import Privilege


def rows(recipe: Recipe) -> DataFrame:
    """tables.READINESS: one row per live namespace and active user with ADMIN on it or on any address in it."""
    needed = admin_needed_to_delete_namespace(recipe.generation)
    addresses = _numbered_addresses(recipe.tables, needed, recipe.namespace)
    held = _held_by_user(recipe.tables, addresses)
    missing = F.col("required") - F.col("held")
    return (
        held.join(_required(recipe.tables, addresses, recipe.namespace), on="namespace_id", how="inner")
        .join(users_named(recipe.tables), on="user_id", how="inner")
        .select("namespace", "user", "required", "held", missing.alias("missing"), (missing == 0).alias("ready"))
    )


def namespaces(recipe: Recipe) -> DataFrame:
    """tables.READINESS_NAMESPACES: one row per live namespace, also where nobody holds ADMIN on anything."""
    needed = admin_needed_to_delete_namespace(recipe.generation)
    addresses = _numbered_addresses(recipe.tables, needed, recipe.namespace)
    by_namespace = recipe.earlier["rows"].groupBy("namespace").agg(
        F.count("*").alias("users"),
        F.count_if(F.col("ready")).alias("users_ready"),
        F.min("missing").alias("fewest_missing"),
        F.min(F.struct("missing", "user")).getField("user").alias("nearest_user"),
    )
    users_ready = F.coalesce("users_ready", F.lit(0))
    return (
        _required(recipe.tables, addresses, recipe.namespace)
        .join(by_namespace, on="namespace", how="left")
        .select("namespace", "required", F.coalesce("users", F.lit(0)).alias("users"), users_ready.alias("users_ready"),
                "fewest_missing", "nearest_user", (users_ready == 0).alias("nobody_can_delete"))
    )


def detail(recipe: Recipe) -> DataFrame:
    """tables.READINESS_DETAIL: for every row, each entity on which that user lacks ADMIN; sum(missing) rows."""
    needed = admin_needed_to_delete_namespace(recipe.generation)
    tables = recipe.tables
    addresses = _numbered_addresses(tables, needed, recipe.namespace)
    word = F.floor(F.col("number") / WORD_BITS).alias("word")
    bit = F.expr(f"shiftleft(1L, cast(number % {WORD_BITS} as int))").alias("bit")
    places = addresses.where(F.col("number").isNotNull()).select(
        "namespace_id", word, bit, F.concat_ws(":", "kind", "key").alias("entity")
    )
    whole = places.groupBy("namespace_id", "word").agg(F.bit_or("bit").alias("needed_bits"))
    unready = (
        recipe.earlier["rows"].where(~F.col("ready")).select("namespace", "user")
        .join(_live_namespaces(tables, recipe.namespace), on="namespace", how="inner")
        .join(users_named(tables), on="user", how="inner")
    )
    lacking = (
        unready.join(whole, on="namespace_id", how="inner")
        .join(_words_held(tables, addresses), on=["namespace_id", "user_id", "word"], how="left")
        .withColumn("lacking_bits", F.col("needed_bits").bitwiseAND(F.bitwise_not(F.coalesce("bits", F.lit(0)))))
        .where(F.col("lacking_bits") != 0)
    )
    return (
        lacking.join(places, on=["namespace_id", "word"], how="inner")
        .where(F.col("lacking_bits").bitwiseAND(F.col("bit")) != 0)
        .select("namespace", "user", "entity")
    )


def _live_namespaces(tables: Tables, only: str) -> DataFrame:
    live = tables.entities.where((F.col("kind") == "namespace") & (F.col("state") == "live"))
    if only:
        live = live.where(F.col("key") == only)
    return live.select(F.col("id").alias("namespace_id"), F.col("key").alias("namespace"))


def _is_needed(needed: AdminNeeded) -> Column:
    is_namespace = F.col("kind") == "namespace"
    if needed.kinds_inside is None:
        inside = F.lit(True)
    else:
        inside = F.col("kind").isin(*sorted(needed.kinds_inside))
    return (F.col("state") == "live") & F.when(is_namespace, F.lit(needed.on_namespace)).otherwise(inside)


def _numbered_addresses(tables: Tables, needed: AdminNeeded, only: str) -> DataFrame:
    """Every address in a live namespace: entity_id, namespace_id, kind, key, number.

    number: from 0 within the namespace, where ADMIN is needed; null elsewhere. An address without one makes its holders
    candidates and counts for nothing.
    """
    inside = tables.entities.join(
        F.broadcast(_live_namespaces(tables, only).select("namespace_id")), on="namespace_id", how="inner"
    ).withColumn("is_needed", _is_needed(needed))
    in_order = Window.partitionBy("namespace_id", "is_needed").orderBy("id")
    return inside.withColumn("place", F.row_number().over(in_order) - 1).select(
        F.col("id").alias("entity_id"), "namespace_id", "kind", "key", F.when(F.col("is_needed"), F.col("place")).alias("number")
    )


def _required(tables: Tables, addresses: DataFrame, only: str) -> DataFrame:
    """namespace_id, namespace, required: of every live namespace."""
    counted = addresses.groupBy("namespace_id").agg(F.count("number").alias("required"))
    return (
        _live_namespaces(tables, only).join(counted, on="namespace_id", how="left")
        .select("namespace_id", "namespace", F.coalesce("required", F.lit(0)).alias("required"))
    )


def _blocks(tables: Tables, addresses: DataFrame) -> DataFrame:
    """namespace_id, block, holdings (blocks.HOLDINGS): of every block in which an active user holds ADMIN on an address."""
    block, position = F.floor(F.col("number") / BLOCK_ENTITIES), F.col("number") % BLOCK_ENTITIES
    admin = tables.grants.where(F.col("privilege") == Privilege.ADMIN.value)
    return (
        admin.select("principal_type", "principal_id", "entity_id")
        .join(addresses.select("entity_id", "namespace_id", "number"), on="entity_id", how="inner")
        .groupBy("namespace_id", F.coalesce(block, F.lit(0)).alias("block"), "principal_type", "principal_id")
        .agg(F.collect_list(position.cast("int")).alias("positions"))
        .join(users_of_principals(tables), on=["principal_type", "principal_id"], how="inner")
        .groupBy("namespace_id", "block")
        .agg(F.collect_list(F.struct("positions", "users")).alias("holdings"))
    )


def _held_by_user(tables: Tables, addresses: DataFrame) -> DataFrame:
    """user_id, namespace_id, held: of every active user with ADMIN on an address of a live namespace."""
    count = F.arrow_udf(held_in_blocks, HELD)
    return (
        _blocks(tables, addresses).select("namespace_id", F.inline(count("holdings")))
        .groupBy("user_id", "namespace_id").agg(F.sum("held").alias("held"))
    )


def _words_held(tables: Tables, addresses: DataFrame) -> DataFrame:
    """namespace_id, user_id, word, bits: the held numbers, 64 to a word."""
    spread = F.arrow_udf(held_bits_in_blocks, HELD_BITS)
    return (
        _blocks(tables, addresses).select("namespace_id", "block", F.inline(spread("holdings")))
        .select("namespace_id", "user_id", "block", F.posexplode("words").alias("place", "bits"))
        .where(F.col("bits") != 0)
        .select("namespace_id", "user_id", (F.col("block") * BLOCK_WORDS + F.col("place")).alias("word"), "bits")
    )
