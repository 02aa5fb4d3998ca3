"""Precompute the facts about all live entities in a container: which users hold a privilege on every one of
them.

The engine counts the entities on which each user holds the privilege. A user holds the fact if that is the
number of live entities in the container.
"""

from collections.abc import Callable
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.engine.directory import DirectoryBroadcast
from analytics.spark.engine.encode import Evaluation, encode
from analytics.spark.engine.rows import EVERYONE, GROUP, PRECOMPUTED, USER
from analytics.spark.engine.rules import Fact, held_rules
from analytics.spark.engine.sums import COUNTS, count_by_subtree
from entities.address import kinds_inside
from entities.vocabulary import INNER_CONTAINER_KINDS

BroadcastDirectory = Callable[[Evaluation], DirectoryBroadcast]


def precompute_facts(evaluation: Evaluation, broadcast_directory: BroadcastDirectory) -> DataFrame | None:
    """Return form, entity, principal_type, principal and selector (the fact) of the facts about all live
    entities; None if there are no such facts.

    broadcast_directory: broadcasts the directory of an evaluation.
    """
    if not evaluation.rules.has_form("precomputed"):
        return None
    frames = [_holders(evaluation, container, broadcast_directory) for container in INNER_CONTAINER_KINDS]
    return reduce(DataFrame.unionByName, frames).withColumn("form", F.lit(PRECOMPUTED))


def tested_kinds(evaluation: Evaluation, container: str) -> dict[int, list[str]]:
    """Return the kinds of entities that each precomputed fact tests inside a container of this kind."""
    kinds = kinds_inside(container)
    return {
        number: [kind for kind in kinds if fact.inside in (None, kind)]
        for number, fact in enumerate(evaluation.rule_set.facts)
        if fact.form == "precomputed"
    }


def held_evaluation(evaluation: Evaluation, container: str) -> Evaluation:
    """Return an evaluation with a rule for each precomputed fact and each kind that it tests.

    A user gains the rule on each entity on which the user holds the privilege. The operation of the rule is
    the number of the fact.
    """
    facts = evaluation.rule_set.facts
    rules = held_rules(
        (kind, str(number), Fact("self", facts[number].privileges))
        for number, kinds in tested_kinds(evaluation, container).items()
        for kind in kinds
    )
    return Evaluation(evaluation.tables, rules, container)


def _holders(evaluation: Evaluation, container: str, broadcast_directory: BroadcastDirectory) -> DataFrame:
    """Return the holders of the facts in each container of the kind `container`: EVERYONE if it has no live
    entity that the fact tests, else each user who holds the privilege on all of them.
    """
    is_live = F.col("state") == "live"
    totals = [
        F.struct(
            F.lit(number).alias("selector"),
            F.count_if(is_live & F.col("kind").isin(*kinds)).alias("total"),
        )
        for number, kinds in tested_kinds(evaluation, container).items()
    ]
    # a container is in its own group, so each has one
    container_id = F.when(F.col("kind") == container, F.col("id")).otherwise(F.col(f"{container}_id"))
    totals_by_container = (
        evaluation.tables.entities.where(container_id.isNotNull())
        .groupBy(container_id.alias("entity"))
        .agg(F.array(*totals).alias("totals"))
        .select("entity", F.inline("totals"))
    )
    everyone = totals_by_container.where(F.col("total") == 0).select(
        "entity", "selector", F.lit(GROUP).alias("principal_type"), F.lit(EVERYONE).alias("principal")
    )
    counted = held_evaluation(evaluation, container)
    if not counted.rules.rules:
        return everyone
    fact_by_rule = F.array(*(F.lit(int(rule.operation)) for rule in counted.rule_set.rules))
    held = (
        encode(counted)
        .mapInArrow(count_by_subtree(counted.rules, broadcast_directory(counted)), COUNTS)
        .groupBy(F.col("subtree").alias("entity"), fact_by_rule[F.col("rule")].alias("selector"), "user_id")
        .agg(F.sum("gained").alias("total"))
    )
    users = held.join(totals_by_container, on=["entity", "selector", "total"]).select(
        "entity", "selector", F.lit(USER).alias("principal_type"), F.col("user_id").alias("principal")
    )
    return users.unionByName(everyone)
