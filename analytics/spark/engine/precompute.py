"""Precompute the facts about all live entities in a container: which users hold a privilege on every one of
them.

The engine counts the privileges that a user lacks, with rules that everyone loses
(rules.missing_privilege_rules). The count of a user is the difference from the count of everyone. A user
lacks no privilege if both counts add up to zero.
"""

from collections.abc import Callable
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from analytics.spark.engine.count import COUNTS, count_changes
from analytics.spark.engine.encode import Evaluation, encode
from analytics.spark.engine.members import DirectoryBroadcast
from analytics.spark.engine.rows import EVERYONE, NONE, USER
from analytics.spark.engine.rules import (
    Fact,
    RuleSet,
    missing_operation,
    missing_privilege_rules,
)
from analytics.spark.engine.small_tenant import AllLiveFacts, SmallTenantRules
from entities.address import ancestor_kinds
from entities.vocabulary import CONTAINER_KINDS, KINDS

# All kinds of containers but the instance, which is never a subtree.
_SUBTREE_CONTAINERS = CONTAINER_KINDS[1:]

BroadcastDirectory = Callable[[Evaluation], DirectoryBroadcast]


def precompute_facts(evaluation: Evaluation, broadcast_directory: BroadcastDirectory) -> DataFrame | None:
    """Return principal_type, principal, entity and fact of the facts about all live entities; None if there
    are no such facts.

    broadcast_directory: broadcasts the directory of an evaluation.
    """
    facts = _all_live_facts(evaluation.rule_set)
    if not facts:
        return None
    frames = [
        _holders_of_all(evaluation, facts, container, broadcast_directory)
        for container in _SUBTREE_CONTAINERS
    ]
    return reduce(DataFrame.unionByName, frames)


def small_tenant_rules(evaluation: Evaluation) -> SmallTenantRules:
    """Return the evaluation in the form for the worker of a small tenant."""
    facts = _all_live_facts(evaluation.rule_set)
    return SmallTenantRules(
        evaluation.rules,
        evaluation.kind_numbers,
        evaluation.rule_set.privileges,
        evaluation.container,
        evaluation.namespaces,
        evaluation.required_kinds,
        tuple(
            _small_tenant_facts(evaluation, facts, container) for container in _SUBTREE_CONTAINERS if facts
        ),
    )


def _small_tenant_facts(evaluation: Evaluation, facts: dict[int, Fact], container: str) -> AllLiveFacts:
    if (missing := _missing_evaluation(evaluation, facts, container)) is None:
        return AllLiveFacts(container, tuple(facts))
    missing_evaluation, facts_by_rule = missing
    rules = {
        fact: tuple(rule for rule, rule_facts in enumerate(facts_by_rule) if fact in rule_facts)
        for fact in facts
    }
    return AllLiveFacts(container, tuple(facts), small_tenant_rules(missing_evaluation), rules)


def _all_live_facts(rule_set: RuleSet) -> dict[int, Fact]:
    return {number: fact for number, fact in enumerate(rule_set.facts) if fact.form == "precomputed"}


def _missing_evaluation(
    evaluation: Evaluation, facts: dict[int, Fact], container: str
) -> tuple[Evaluation, list[list[int]]] | None:
    """Return (the evaluation that counts missing privileges, the facts of each of its rules).

    container: the kind of the containers. Return None if they cannot contain entities of the kinds that the
    facts test.
    """
    kinds_inside = [kind for kind in KINDS if container in ancestor_kinds(kind)]
    required = [
        (kind, Fact("self", fact.privileges), number)
        for number, fact in facts.items()
        for kind in kinds_inside
        if fact.inside in (None, kind)
    ]
    if not required:
        return None
    rule_set = missing_privilege_rules(
        dict.fromkeys((kind, held) for kind, held, _ in required), evaluation.rule_set.privileges
    )
    facts_by_rule = [
        [
            number
            for kind, held, number in required
            if (kind, missing_operation(held)) == (rule.kind, rule.operation)
        ]
        for rule in rule_set.rules
    ]
    return Evaluation(evaluation.tables, rule_set, container), facts_by_rule


def _holders_of_all(
    evaluation: Evaluation,
    facts: dict[int, Fact],
    container: str,
    broadcast_directory: BroadcastDirectory,
) -> DataFrame:
    """Return the holders of the facts in each container of the kind `container`.

    These are `everyone` if the container has no live entity of the fact's kind, else each user who holds the
    privilege on all of them.
    """
    missing = _missing_evaluation(evaluation, facts, container)
    containers = evaluation.tables.entities.where(F.col("kind") == container).select(
        F.col("id").alias("entity"), F.explode(F.array(*map(F.lit, facts))).alias("fact")
    )
    if missing is None:
        return containers.select(
            F.lit(EVERYONE).alias("principal_type"),
            F.lit(NONE).cast("bigint").alias("principal"),
            "entity",
            "fact",
        )
    by_container_and_fact = Window.partitionBy("entity", "fact")
    total = F.max(F.when(F.col("is_everyone"), F.col("missing"))).over(by_container_and_fact)
    is_empty = F.col("total").isNull()
    return (
        containers.join(_missing_counts(*missing, broadcast_directory), on=["entity", "fact"], how="left")
        .withColumn("total", total)
        .where(is_empty | (~F.col("is_everyone") & (F.col("total") + F.col("missing") == 0)))
        .select(
            F.when(is_empty, EVERYONE).otherwise(USER).alias("principal_type"),
            F.when(is_empty, NONE).otherwise(F.col("user_id")).alias("principal"),
            "entity",
            "fact",
        )
    )


def _missing_counts(
    evaluation: Evaluation, facts_by_rule: list[list[int]], broadcast_directory: BroadcastDirectory
) -> DataFrame:
    """Return entity (the container), fact, is_everyone, user_id and missing; for a user the difference from
    everyone.
    """
    fact_arrays = F.array(*[F.array(*map(F.lit, rule_facts)) for rule_facts in facts_by_rule])
    return (
        encode(evaluation)
        .mapInArrow(count_changes(evaluation.rules, broadcast_directory(evaluation)), COUNTS)
        .select(
            F.col("subtree").alias("entity"),
            "is_everyone",
            "user_id",
            "lost",
            F.explode(fact_arrays[F.col("rule")]).alias("fact"),
        )
        .groupBy("entity", "fact", "is_everyone", "user_id")
        .agg(F.sum("lost").alias("missing"))
    )
