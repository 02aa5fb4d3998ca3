"""What the grants make true of a plan's targets: its numbered facts, each with the places where it holds and for whom.

A grant on a container that counts for everything inside stays one row a block (analytics.spark.verdicts knows what lies
inside); it is never multiplied by the entities.
"""

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from analytics.spark.law import Fact, Plan, lacking_plan
from analytics.spark.principals import users_of_principals
from analytics.spark.schemas import Tables
from analytics.spark.targets import block_shapes, live_targets
from analytics.spark.verdicts import COUNTS, EVERYWHERE, FACTS_APART, HOLDINGS, changes_counted
from entities.address import containers
from entities.vocabulary import CONTAINERS, KINDS
from grants.policies.expressions import Has, HasAtOrBelow, HasOnAllLive, Scope, UnknownExpression

EVERYBODY = "everybody"
_GRANTED = ("principal_type", "principal_id", "entity_id", "fact")
_HELD = ("family", "block", "principal_type", "principal_id", "fact", "place")


def blocks(tables: Tables, plan: Plan, targets: DataFrame) -> DataFrame:
    """family, block, kinds, applications, holdings: every block of the targets, also where nobody holds anything."""
    by_principal = reduce(DataFrame.unionByName, _held(tables, plan, targets)).groupBy(
        "family", "block", "principal_type", "principal_id"
    ).agg(F.collect_list(F.col("fact") * F.lit(FACTS_APART) + F.col("place") - EVERYWHERE).alias("held"))
    holdings = (
        by_principal.join(_users(tables, plan), on=["principal_type", "principal_id"], how="inner")
        .groupBy("family", "block").agg(F.collect_list(F.struct("users", "held")).alias("holdings"))
    )
    shapes = block_shapes(targets, with_applications=bool(facts_by_application(plan)))
    return shapes.join(holdings, on=["family", "block"], how="left").select(
        "family", "block", "kinds", "applications", F.col("holdings").cast(HOLDINGS)
    )


def rules_of(plan: Plan) -> tuple:
    """The rules as Python workers take them."""
    return tuple((rule.kind, rule.before, rule.after) for rule in plan.rules)


def facts_by_application(plan: Plan) -> frozenset[int]:
    return frozenset(_numbers(plan, lambda fact: isinstance(fact, Has) and fact.scope == Scope.APPLICATION))


def _numbers(plan: Plan, is_meant) -> dict[int, Fact]:
    return {number: fact for number, fact in enumerate(plan.facts) if is_meant(fact)}


def _users(tables: Tables, plan: Plan) -> DataFrame:
    reached = users_of_principals(tables)
    if not _numbers(plan, lambda fact: isinstance(fact, HasOnAllLive)):
        return reached
    nobody_in_particular = F.lit(None).cast("array<long>").alias("users")
    everybody = tables.users.sparkSession.range(1).select(
        F.lit(EVERYBODY).alias("principal_type"), F.col("id").alias("principal_id"), nobody_in_particular
    )
    return reached.unionByName(everybody)


def _held(tables: Tables, plan: Plan, targets: DataFrame) -> list[DataFrame]:
    """Each with _HELD."""
    held = []
    for scope in (Scope.SELF, Scope.APPLICATION, Scope.NAMESPACE, Scope.INSTANCE):
        facts = _numbers(plan, lambda fact, scope=scope: isinstance(fact, Has) and fact.scope == scope)
        if facts:
            held.append(_held_at(scope, _granted(tables, facts), targets, tables))
    if below := _numbers(plan, lambda fact: isinstance(fact, HasAtOrBelow)):
        held.append(_at_targets(_granted_at_or_below(tables, next(iter(below))), targets))
    if all_live := _numbers(plan, lambda fact: isinstance(fact, HasOnAllLive)):
        for container in CONTAINERS[1:]:
            held.append(_at_targets(_granted_on_all_live(tables, all_live, container), targets))
    if unknown := _numbers(plan, lambda fact: not isinstance(fact, Fact)):
        raise UnknownExpression(next(iter(unknown.values())))
    # a plan without facts still has blocks
    return held or [_nothing(tables)]


def _nothing(tables: Tables) -> DataFrame:
    nothing = tables.grants.where(F.lit(False)).withColumn("fact", F.lit(0))
    for name in ("family", "block", "place"):
        nothing = nothing.withColumn(name, F.col("entity_id"))
    return nothing.select(*_HELD)


def _granted(tables: Tables, facts: dict[int, Has]) -> DataFrame:
    """_GRANTED: each grant once for every fact that its privilege makes true."""
    by_privilege: dict[str, list[int]] = {}
    for number, fact in facts.items():
        for privilege in fact.privileges:
            by_privilege.setdefault(privilege.value, []).append(number)
    made_true = F.create_map(*[part for privilege, numbers in by_privilege.items()
                               for part in (F.lit(privilege), F.array(*map(F.lit, numbers)))])
    return tables.grants.where(F.col("privilege").isin(*by_privilege)).select(
        "principal_type", "principal_id", "entity_id", F.explode(made_true[F.col("privilege")]).alias("fact")
    )


def _held_at(scope: Scope, granted: DataFrame, targets: DataFrame, tables: Tables) -> DataFrame:
    match scope:
        case Scope.SELF:
            return _at_targets(granted, targets)
        case Scope.APPLICATION:
            places = targets.select("family", "block", F.col("application_id").alias("entity_id")).distinct()
            found = granted.join(places, on="entity_id", how="inner")
            return found.withColumn("place", F.col("entity_id")).select(*_HELD)
    places = targets.select("family", "block").distinct()
    if scope == Scope.NAMESPACE:
        found = granted.join(places, on=F.col("entity_id") == F.col("family"), how="inner")
    else:
        instance = tables.entities.where(F.col("kind") == "instance").select(F.col("id").alias("entity_id"))
        found = granted.join(F.broadcast(instance), on="entity_id", how="left_semi").crossJoin(places)
    return found.withColumn("place", F.lit(EVERYWHERE).cast("long")).select(*_HELD)


def _at_targets(granted: DataFrame, targets: DataFrame) -> DataFrame:
    places = targets.select(F.col("id").alias("entity_id"), "family", "block", F.col("position").alias("place"))
    return granted.join(places, on="entity_id", how="inner").select(*_HELD)


def _granted_at_or_below(tables: Tables, fact: int) -> DataFrame:
    """_GRANTED, on the namespace and the application that each grant lies in or is on."""
    around = tables.entities.select(F.col("id").alias("granted_id"), F.array("namespace_id", "application_id").alias("around"))
    return (
        tables.grants.select("principal_type", "principal_id", F.col("entity_id").alias("granted_id"))
        .join(around, on="granted_id", how="inner")
        .select("principal_type", "principal_id", F.explode("around").alias("entity_id"), F.lit(fact).alias("fact"))
        .where(F.col("entity_id").isNotNull()).distinct()
    )


def _granted_on_all_live(tables: Tables, facts: dict[int, HasOnAllLive], container: str) -> DataFrame:
    """_GRANTED, on each container of that kind: to everybody where there is nothing to hold, else to each user who holds all.

    How much a user lacks is counted like any other difference between two laws (law.lacking_plan).
    """
    inside = [kind for kind in KINDS if container in containers(kind)]
    asked = [(kind, fact.privilege, number) for number, fact in facts.items()
             for kind in inside if fact.kind in (None, kind)]
    containing = tables.entities.where(F.col("kind") == container).select(
        F.col("id").alias("entity_id"), F.explode(F.array(*map(F.lit, facts))).alias("fact")
    )
    lacking = _lacking(tables, asked, container) if asked else None
    if lacking is None:
        everybody = (F.lit(EVERYBODY).alias("principal_type"), F.lit(0).cast("long").alias("principal_id"))
        return containing.select(*everybody, "entity_id", "fact")
    # the row of those who hold nothing says how many there are
    together = Window.partitionBy("entity_id", "fact")
    total = F.max(F.when(F.col("user_id").isNull(), F.col("lacking"))).over(together)
    is_vacuous = F.col("total").isNull()
    return (
        containing.join(lacking, on=["entity_id", "fact"], how="left").withColumn("total", total)
        .where(is_vacuous | (F.col("user_id").isNotNull() & (F.col("total") + F.col("lacking") == 0)))
        .select(F.when(is_vacuous, F.lit(EVERYBODY)).otherwise(F.lit("user")).alias("principal_type"),
                F.coalesce("user_id", F.lit(0)).alias("principal_id"), "entity_id", "fact")
    )


def _lacking(tables: Tables, asked: list[tuple], container: str) -> DataFrame:
    """entity_id, fact, user_id, lacking: by container; of a user the difference to those who hold nothing, the user null."""
    plan = lacking_plan(dict.fromkeys((kind, privilege) for kind, privilege, _ in asked))
    targets = live_targets(tables, plan.kinds, container)
    facts_by_rule = [[number for kind, privilege, number in asked if (kind, privilege.value) == (rule.kind, rule.operation)]
                     for rule in plan.rules]
    numbers = F.array(*[F.array(*map(F.lit, found)) for found in facts_by_rule])
    return (
        counted(tables, plan, targets)
        .select(F.col("family").alias("entity_id"), "user_id", "lost", F.explode(numbers[F.col("rule")]).alias("fact"))
        .groupBy("entity_id", "fact", "user_id").agg(F.sum("lost").alias("lacking"))
    )


def counted(tables: Tables, plan: Plan, targets: DataFrame) -> DataFrame:
    """family, user_id, rule, gained, lost: as verdicts.COUNTS."""
    count = F.arrow_udf(changes_counted(rules_of(plan), facts_by_application(plan)), COUNTS)
    return (
        blocks(tables, plan, targets)
        .select("family", F.inline(count("kinds", "applications", "holdings")))
    )
