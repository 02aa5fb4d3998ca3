"""For whom does an answer differ between two laws, counted and pair by pair; of every rule of a plan, for every active user."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from analytics.spark.blocks import WORD_BITS
from analytics.spark.facts import blocks, counted, facts_by_application, rules_of
from analytics.spark.law import Plan, everybody_may_be_met
from analytics.spark.principals import users_named
from analytics.spark.schemas import Tables
from analytics.spark.targets import live_targets
from analytics.spark.verdicts import WORDS, changes_spread


def changes_by_namespace(tables: Tables, plan: Plan) -> DataFrame:
    """user, kind, operation, namespace, gained, lost: live entities whose answer turns, where any does; in that order.

    namespace: its name; of a namespace its own, and empty outside of all.
    """
    namespaces = tables.entities.where(F.col("kind") == "namespace")
    names = namespaces.select(F.col("id").alias("family"), F.col("key").alias("namespace"))
    namespace = F.coalesce("namespace", F.lit(""))
    return (
        _summed(tables, plan, "family").join(F.broadcast(names), on="family", how="left")
        .sortWithinPartitions("place", _in_order(plan), namespace)
        .select("user", _kind(plan), _operation(plan), namespace.alias("namespace"), "gained", "lost")
    )


def changes_by_operation(tables: Tables, plan: Plan) -> DataFrame:
    """user, kind, operation, gained, lost: the same over all namespaces."""
    return _summed(tables, plan).sortWithinPartitions("place", _in_order(plan)).select(
        "user", _kind(plan), _operation(plan), "gained", "lost")


def _summed(tables: Tables, plan: Plan, *keys: str) -> DataFrame:
    """place, user, rule, gained, lost and the keys, where anything changes; partition after partition as users follow by name.

    place: of the user among all by name. One exchange, of numbers: sorting names by name would move every row twice.
    """
    found = counted(tables, plan, live_targets(tables, plan.kinds))
    if everybody_may_be_met(plan):
        found = _with_everybody(tables, found)
    partitions = int(tables.users.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    by_name = Window.orderBy("user")
    users = users_named(tables).select("user_id", "user", F.row_number().over(by_name).alias("place"),
                                       (F.ntile(partitions).over(by_name) - 1).alias("part"))
    return (
        found.join(F.broadcast(users.drop("user")), on="user_id", how="inner")
        .repartitionById(partitions, "part")
        .groupBy("part", "place", "user_id", "rule", *keys).agg(F.sum("gained").alias("gained"), F.sum("lost").alias("lost"))
        .where((F.col("gained") != 0) | (F.col("lost") != 0))
        .join(F.broadcast(users.select("user_id", "user")), on="user_id", how="inner")
    )


def _in_order(plan: Plan) -> Column:
    """The place of a rule by kind and operation."""
    order = sorted(range(len(plan.rules)), key=lambda number: (plan.rules[number].kind, plan.rules[number].operation))
    return F.array(*[F.lit(order.index(number)) for number in range(len(plan.rules))])[F.col("rule")]


def changed_pairs(tables: Tables, plan: Plan) -> DataFrame:
    """user, entity, operation, after: each live entity with each operation whose answer turns for that user."""
    targets = live_targets(tables, plan.kinds)
    places = targets.select("family", "block", F.concat_ws(":", "kind", "key").alias("entity"), _word().alias("word"),
                            F.expr(f"shiftleft(1L, cast(position % {WORD_BITS} as int))").alias("bit"))
    spread = F.arrow_udf(changes_spread(rules_of(plan), facts_by_application(plan)), WORDS)
    words = (
        blocks(tables, plan, targets)
        .select("family", "block", F.inline(spread("kinds", "applications", "holdings")))
        .select("family", "block", "user_id", "rule", "after", "first", F.posexplode("words").alias("place", "bits"))
        .where(F.col("bits") != 0)
        .withColumn("word", (F.col("first") + F.col("place")).cast("int")).drop("first", "place")
    )
    if everybody_may_be_met(plan):
        words = _with_everybody(tables, words).groupBy("family", "block", "user_id", "rule", "after", "word").agg(
            F.bit_xor("bits").alias("bits"))
    return (
        words.join(places, on=["family", "block", "word"], how="inner")
        .where(F.col("bits").bitwiseAND(F.col("bit")) != 0)
        .join(users_named(tables), on="user_id", how="inner")
        .select("user", "entity", _operation(plan), "after")
    )


def _with_everybody(tables: Tables, found: DataFrame) -> DataFrame:
    """What holds for those without any grant, once for each user; with it the users' own differences add up."""
    users = tables.users.select(F.col("id").alias("user_id"))
    everybody = found.where(F.col("user_id").isNull()).drop("user_id").crossJoin(users)
    return found.where(F.col("user_id").isNotNull()).unionByName(everybody)


def _word() -> Column:
    return F.floor(F.col("position") / WORD_BITS).cast("int")


def _kind(plan: Plan) -> Column:
    return F.array(*[F.lit(rule.kind) for rule in plan.rules])[F.col("rule")].alias("kind")


def _operation(plan: Plan) -> Column:
    return F.array(*[F.lit(rule.operation) for rule in plan.rules])[F.col("rule")].alias("operation")
