"""For whom does an answer differ between two laws, counted and pair by pair; of every rule of a plan, for every active user."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from analytics.spark.at_once import changes_at_once, pairs_at_once
from analytics.spark.facts import Asked, every_part, namespaces_named, partitions, parts, plain_plan, ranked, whole_tenant
from analytics.spark.in_order import InOrder
from analytics.spark.law import Plan, everybody_may_be_met
from analytics.spark.packing import NAMESPACE_NAME, PACKED, SLICES, USER_NAME, Columns, changes_merged, changes_packed
from analytics.spark.principals import users_named, users_placed
from analytics.spark.schemas import Tables
from analytics.spark.verdicts import PAIRS, changes_spread
from analytics.tables import Table

# larger than any number of namespaces, so that nobody has to count them
MOST_FAMILIES = 1 << 24
# a result is put in order in parts, each in memory
PARTS_PER_PARTITION = 4
NAMED_PAIRS = "user string, entity string, operation string, after boolean"


def changes_by_namespace(tables: Tables, plan: Plan, table: Table, *, gained: str = "gained") -> InOrder:
    """Live entities whose answer turns, where any does, by user, kind, operation and namespace.

    table: whose columns show some of user, kind, operation, namespace, gained (by the name of `gained`) and lost. namespace: its
    name; of a namespace its own, and empty outside of all.
    """
    return _merged(tables, plan, table, gained, families=MOST_FAMILIES)


def changes_by_operation(tables: Tables, plan: Plan, table: Table) -> InOrder:
    """The same over all namespaces."""
    return _merged(tables, plan, table, "gained", families=0)


def _merged(tables: Tables, plan: Plan, table: Table, gained: str, *, families: int) -> InOrder:
    """families: more than there are namespaces, to count them apart; 0 to sum over them."""
    asked, order = Asked(tables, plan), _order(plan)
    count = 1 if tables.is_little else partitions(tables) * PARTS_PER_PARTITION
    packed = changes_packed(asked.law, order, count, families=families)
    merged = changes_merged(order, count, _columns(plan, table, gained), families=families)
    if tables.is_little:
        return InOrder(table, whole_tenant(tables), changes_at_once(plain_plan(asked), packed, merged))
    names = _user_names(tables, count)
    if families:
        names = names.unionByName(_namespace_names(tables, count))
    told = parts(asked).mapInArrow(packed, PACKED).unionByName(names, allowMissingColumns=True)
    return InOrder(table, told.repartitionById(count, "part"), merged)


def _columns(plan: Plan, table: Table, gained: str) -> Columns:
    shown = {"kind": tuple(rule.kind for rule in plan.rules), "operation": tuple(rule.operation for rule in plan.rules),
             gained: "gained"}
    return tuple((name, shown.get(name, name)) for name in table.column_names)


def _user_names(tables: Tables, parts_of_users: int) -> DataFrame:
    """As packing.PACKED, each to the part of the user."""
    each = F.ceil(F.count("*").over(Window.partitionBy()) / (parts_of_users * SLICES)) * SLICES
    return users_placed(tables).withColumn("each", each).select(
        F.floor(F.col("place") / F.col("each")).cast("int").alias("part"), F.lit(USER_NAME).alias("what"),
        F.col("place").alias("number"), F.col("user").alias("name"))


def _namespace_names(tables: Tables, parts_of_users: int) -> DataFrame:
    """As packing.PACKED, all to each part of the users."""
    named = ranked(namespaces_named(tables)).select(F.lit(NAMESPACE_NAME).alias("what"), F.col("rank").alias("number"), "name")
    return every_part(tables, parts_of_users).crossJoin(named)


def _order(plan: Plan) -> tuple[int, ...]:
    """The place of each rule by kind and operation."""
    in_order = sorted(range(len(plan.rules)), key=lambda number: (plan.rules[number].kind, plan.rules[number].operation))
    return tuple(in_order.index(number) for number in range(len(plan.rules)))


def changed_pairs(tables: Tables, plan: Plan) -> DataFrame:
    """user, entity, operation, after: each live entity with each operation whose answer turns for that user."""
    return pairs_named(Asked(tables, plan), each_user=everybody_may_be_met(plan))


def pairs_named(asked: Asked, *, each_user: bool) -> DataFrame:
    """NAMED_PAIRS: each target with each operation whose answer turns for a user. each_user: as changes_spread."""
    spread, operations = changes_spread(asked.law, each_user=each_user), tuple(rule.operation for rule in asked.plan.rules)
    if asked.tables.is_little:
        return whole_tenant(asked.tables).mapInArrow(pairs_at_once(plain_plan(asked), spread, operations), NAMED_PAIRS)
    operation = F.array(*map(F.lit, operations))[F.col("rule")].alias("operation")
    return (
        parts(asked, with_names=True).mapInArrow(spread, PAIRS)
        .join(F.broadcast(users_named(asked.tables)), on="user_id", how="inner")
        .select("user", "entity", operation, "after")
    )
