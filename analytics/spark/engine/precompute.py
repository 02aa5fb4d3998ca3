"""Precompute the facts about all live entities in a container: which users hold a privilege on every one of them.

The engine itself counts the missing privileges of a user, with rules that everyone loses (rules.missing_privilege_rules). The
counts of a user are differences from those of everyone. If a user loses as many fewer as everyone loses, none is missing.
"""

from collections.abc import Callable
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from analytics.spark.engine.count import COUNTS, count_changes
from analytics.spark.engine.encode import Evaluation, encode
from analytics.spark.engine.members import Shared
from analytics.spark.engine.rows import EVERYONE, NONE, USER
from analytics.spark.engine.rules import PRIVILEGES, RuleSet, missing_privilege_rules
from analytics.spark.engine.small_tenant import AllLiveFacts, SmallTenantRules
from analytics.spark.schemas import Tables
from entities.address import ancestor_kinds
from entities.vocabulary import CONTAINER_KINDS, KINDS
from grants.policies.grammar import HasOnAllLive

# the instance is not evaluated as a family
_FAMILY_CONTAINERS = CONTAINER_KINDS[1:]


def precompute_facts(evaluation: Evaluation, share: Callable[[Evaluation], Shared]) -> DataFrame | None:
    """Return principal_type, principal, entity and fact of the facts about all live entities; None if there are no such facts.

    share: broadcasts the directory of an evaluation.
    """
    facts = _all_live_facts(evaluation.rule_set)
    if not facts:
        return None
    frames = [_holders_of_all(evaluation.tables, facts, container, share) for container in _FAMILY_CONTAINERS]
    return reduce(DataFrame.unionByName, frames)


def small_tenant_rules(evaluation: Evaluation) -> SmallTenantRules:
    """Return the evaluation in the form for the worker of a small tenant."""
    facts = _all_live_facts(evaluation.rule_set)
    return SmallTenantRules(
        evaluation.rules, evaluation.kind_numbers, PRIVILEGES, evaluation.container, evaluation.namespaces,
        evaluation.required_kinds,
        tuple(_small_tenant_facts(evaluation.tables, facts, container) for container in _FAMILY_CONTAINERS if facts))


def _small_tenant_facts(tables: Tables, facts: dict[int, HasOnAllLive], container: str) -> AllLiveFacts:
    if (missing := _missing(tables, facts, container)) is None:
        return AllLiveFacts(container, tuple(facts))
    evaluation, facts_of_rule = missing
    rules = {fact: tuple(rule for rule, found in enumerate(facts_of_rule) if fact in found) for fact in facts}
    return AllLiveFacts(container, tuple(facts), small_tenant_rules(evaluation), rules)


def _all_live_facts(rule_set: RuleSet) -> dict[int, HasOnAllLive]:
    return {number: fact for number, fact in enumerate(rule_set.facts) if isinstance(fact, HasOnAllLive)}


def _missing(tables: Tables, facts: dict[int, HasOnAllLive], container: str) -> tuple[Evaluation, list[list[int]]] | None:
    """Return the evaluation that counts missing privileges, and by rule its facts. None if no kind can be inside."""
    inside = [kind for kind in KINDS if container in ancestor_kinds(kind)]
    needed = [(kind, fact.privilege, number) for number, fact in facts.items()
              for kind in inside if fact.kind in (None, kind)]
    if not needed:
        return None
    rule_set = missing_privilege_rules(dict.fromkeys((kind, privilege) for kind, privilege, _ in needed))
    facts_of_rule = [[number for kind, privilege, number in needed if (kind, privilege.value) == (rule.kind, rule.operation)]
                     for rule in rule_set.rules]
    return Evaluation(tables, rule_set, container), facts_of_rule


def _holders_of_all(tables: Tables, facts: dict[int, HasOnAllLive], container: str,
                    share: Callable[[Evaluation], Shared]) -> DataFrame:
    """Return each container of that kind with everyone if it contains no live entity, else with each user who holds all."""
    missing = _missing(tables, facts, container)
    containing = tables.entities.where(F.col("kind") == container).select(
        F.col("id").alias("entity"), F.explode(F.array(*map(F.lit, facts))).alias("fact"))
    if missing is None:
        return containing.select(F.lit(EVERYONE).alias("principal_type"), F.lit(NONE).cast("bigint").alias("principal"),
                                 "entity", "fact")
    together = Window.partitionBy("entity", "fact")
    total = F.max(F.when(F.col("is_everyone"), F.col("missing"))).over(together)
    is_empty = F.col("total").isNull()
    return (
        containing.join(_count_missing(*missing, share), on=["entity", "fact"], how="left").withColumn("total", total)
        .where(is_empty | (~F.col("is_everyone") & (F.col("total") + F.col("missing") == 0)))
        .select(F.when(is_empty, EVERYONE).otherwise(USER).alias("principal_type"),
                F.when(is_empty, NONE).otherwise(F.col("user_id")).alias("principal"), "entity", "fact")
    )


def _count_missing(evaluation: Evaluation, facts_of_rule: list[list[int]], share: Callable[[Evaluation], Shared]) -> DataFrame:
    """Return entity, fact, is_everyone, user_id and missing, by container; for a user the difference from everyone."""
    numbers = F.array(*[F.array(*map(F.lit, found)) for found in facts_of_rule])
    return (
        encode(evaluation).mapInArrow(count_changes(evaluation.rules, share(evaluation)), COUNTS)
        .select(F.col("family").alias("entity"), "is_everyone", "user_id", "lost",
                F.explode(numbers[F.col("rule")]).alias("fact"))
        .groupBy("entity", "fact", "is_everyone", "user_id").agg(F.sum("lost").alias("missing"))
    )
