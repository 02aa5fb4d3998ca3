"""Encode a tenant as rows of the engine, with Spark's joins: its targets, and the grants that count for them.

A grant is sent once, to the block of the granted entity. It is not repeated for other entities for which it
counts. If a subtree is split into blocks, a grant that counts beyond its own block is also sent to the other
blocks. Users, groups, memberships and namespaces are not rows: they are collected into a Directory.
"""

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.spark.engine import units
from analytics.spark.engine.compiled import CompiledRules, LiveNamespaces
from analytics.spark.engine.directory import Directory
from analytics.spark.engine.rows import (
    ANYWHERE,
    BELOW,
    COLUMNS,
    GRANT,
    GROUP,
    NAMESPACE_GRANT,
    NONE,
    TARGET,
    USER,
)
from analytics.spark.engine.rules import PRIVILEGES, RuleSet, compile_rules, number_kinds
from analytics.spark.schemas import Tables

# The sample that finds large subtrees contains about this many entities for each unit.
_SAMPLED_ENTITIES = 128


@dataclass(frozen=True)
class Evaluation:
    """A rule set, applied to the live entities of its kinds.

    container: `namespace` or `application`; each container of this kind and its contents are a subtree.
    merge_kinds: see number_kinds.
    namespaces: evaluate these only; None for the whole tenant.
    required_kinds: count the live entities of these kinds by namespace (Directory.required).
    """

    tables: Tables
    rule_set: RuleSet
    container: str = "namespace"
    merge_kinds: bool = False
    namespaces: LiveNamespaces | None = None
    required_kinds: tuple[str, ...] = ()

    @cached_property
    def kind_numbers(self) -> dict[str, int]:
        return number_kinds(self.rule_set, merge_kinds=self.merge_kinds)

    @cached_property
    def rules(self) -> CompiledRules:
        return compile_rules(self.rule_set, self.kind_numbers)

    @property
    def partitions(self) -> int:
        return int(self.tables.users.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)


def encode(
    evaluation: Evaluation, precomputed: DataFrame | None = None, *, with_names: bool = False
) -> DataFrame:
    """Return rows with COLUMNS, partitioned by subtree and block. with_names: add `name`, the address of each
    target.

    precomputed: the columns that describe the holders of precomputed facts, see `precompute`.
    """
    located = _located_entities(evaluation)
    frames = [_targets(evaluation, located, with_names=with_names), _grants(evaluation, located)]
    if evaluation.rules.has_form("anywhere"):
        frames.append(_privileges_anywhere(evaluation, located))
    if precomputed is not None:
        locations = located.select(F.col("id").alias("entity"), "subtree", "block")
        frames.append(precomputed.join(locations, on="entity"))
    part = F.pmod(F.xxhash64("subtree", "block"), F.lit(evaluation.partitions)).cast("int").alias("part")
    columns = [
        F.coalesce(F.col(name).cast(type_), F.lit(NONE).cast(type_)).alias(name)
        for name, type_ in COLUMNS.items()
    ]
    return (
        reduce(union, frames)
        .select(*columns, part, *(["name"] if with_names else []))
        .repartitionById(evaluation.partitions, "part")
        .drop("part")
    )


def union(left: DataFrame, right: DataFrame) -> DataFrame:
    """Return the rows of both. Columns that one of them does not have are null."""
    return left.unionByName(right, allowMissingColumns=True)


def _located_entities(evaluation: Evaluation) -> DataFrame:
    """Return id, kind, key, state, subtree, application, block and block_count of every entity.

    A subtree that is too large for a unit is split into blocks. The container at its root is in block 0. The
    entities of an application are in one block. block_count: null if the subtree is not split.
    """
    application = F.when(F.col("kind") == "application", F.col("id")).otherwise(F.col("application_id"))
    is_by_application = evaluation.container == "application"
    entities = evaluation.tables.entities.select(
        "id",
        "kind",
        "key",
        "state",
        F.coalesce(application if is_by_application else "namespace_id", F.lit(NONE)).alias("subtree"),
        application.alias("application"),
    )
    if evaluation.namespaces is not None:
        subtrees = _evaluated_namespaces(evaluation).select(F.col("id").alias("subtree"))
        entities = entities.join(F.broadcast(subtrees), on="subtree", how="left_semi")
    hashed = F.xxhash64("id" if is_by_application else F.coalesce("application", "id"))
    block = F.when(F.col("id") != F.col("subtree"), F.pmod(hashed, F.col("block_count")))
    return entities.join(F.broadcast(_large_subtrees(entities)), on="subtree", how="left").withColumn(
        "block", F.coalesce(block, F.lit(0)).cast("int")
    )


def _large_subtrees(entities: DataFrame) -> DataFrame:
    """Return the subtrees with more entities than a unit holds, and as `block_count` how many units they fill.

    Counts a sample. Returns at most one row for each UNIT_ENTITIES entities.
    """
    interval = max(1, units.UNIT_ENTITIES // _SAMPLED_ENTITIES)
    return (
        entities.where((F.pmod(F.xxhash64("id"), F.lit(interval)) == 0) & (F.col("subtree") != NONE))
        .groupBy("subtree")
        .agg(F.ceil(F.count("*") * interval / units.UNIT_ENTITIES).cast("int").alias("block_count"))
        .where(F.col("block_count") > 1)
    )


def _targets(evaluation: Evaluation, located: DataFrame, *, with_names: bool) -> DataFrame:
    numbers = [F.lit(value) for item in evaluation.kind_numbers.items() for value in item]
    targets = located.where((F.col("state") == "live") & F.col("kind").isin(*evaluation.kind_numbers))
    return targets.select(
        F.lit(TARGET).alias("form"),
        "subtree",
        "block",
        F.create_map(*numbers)[F.col("kind")].alias("kind"),
        F.col("id").alias("entity"),
        "application",
        *([F.concat_ws(":", "kind", "key").alias("name")] if with_names else []),
    )


def _used_grants(evaluation: Evaluation) -> DataFrame:
    """Return principal_type, principal, selector (the privilege), entity and place of the grants that a fact uses.

    place: the entity, or the container that a pattern reveals. In this case, entity is NONE.
    """
    facts = evaluation.rules.facts
    used = {number for fact in facts if fact.form != "precomputed" for number in fact.selectors}
    is_used = F.col("privilege").isin(*(PRIVILEGES[number] for number in used))
    grants = evaluation.tables.grants.withColumn("place", F.col("entity_id"))
    revealed = evaluation.tables.revealed.withColumnRenamed("entity_id", "place")
    return (
        union(grants, revealed)
        .where(is_used)
        .select(
            principal_type_number(),
            F.col("principal_id").alias("principal"),
            (F.array_position(F.array(*map(F.lit, PRIVILEGES)), F.col("privilege")) - 1).alias("selector"),
            F.coalesce("entity_id", F.lit(NONE)).alias("entity"),
            "place",
        )
    )


def principal_type_number() -> Column:
    """Return the column `principal_type` as USER or GROUP."""
    return F.when(F.col("principal_type") == "user", USER).otherwise(GROUP).alias("principal_type")


def _located_grants(evaluation: Evaluation, located: DataFrame) -> DataFrame:
    locations = located.select(F.col("id").alias("place"), "subtree", "block", "block_count", "application")
    return _used_grants(evaluation).join(locations.hint("shuffle_hash"), on="place")


def _grants(evaluation: Evaluation, located: DataFrame) -> DataFrame:
    """Return the grants as rows of their own block, and of the other blocks where they count.

    One pass over the joined grants builds all rows. A join for each form would take several times as long.
    """
    copies = [F.array(_copy(GRANT, F.col("block")))]
    if evaluation.rules.has_form("below"):
        copies.append(F.when(F.col("block") > 0, F.array(_copy(BELOW, F.lit(0)))))
    if evaluation.rules.has_form("namespace"):
        other_blocks = F.sequence(F.lit(1), F.col("block_count") - 1)
        is_on_namespace = F.col("block_count").isNotNull() & (F.col("entity") == F.col("subtree"))
        copies.append(
            F.when(is_on_namespace, F.transform(other_blocks, lambda block: _copy(NAMESPACE_GRANT, block)))
        )
    no_copies = F.array().cast("array<struct<form:int,block:int>>")
    is_copy = F.col("copy.form") != GRANT
    return (
        _located_grants(evaluation, located)
        .withColumn("copy", F.explode(F.concat(*(F.coalesce(rows, no_copies) for rows in copies))))
        .select(
            "copy.*",
            "subtree",
            F.when(is_copy, F.col("subtree")).otherwise(F.col("entity")).alias("entity"),
            F.when(~is_copy, F.col("application")).alias("application"),
            "principal_type",
            "principal",
            "selector",
        )
    )


def _copy(form: int, block: Column) -> Column:
    return F.struct(F.lit(form).alias("form"), block.cast("int").alias("block"))


def _privileges_anywhere(evaluation: Evaluation, located: DataFrame) -> DataFrame:
    """Return a row in every block of a split subtree for each privilege that a principal holds anywhere in
    the subtree.
    """
    grants = _located_grants(evaluation, located).where(F.col("block_count").isNotNull())
    privileges = grants.select("subtree", "block_count", "principal_type", "principal", "selector").distinct()
    return privileges.select(
        F.lit(ANYWHERE).alias("form"),
        "*",
        F.col("subtree").alias("entity"),
        F.explode(F.sequence(F.lit(0), F.col("block_count") - 1)).alias("block"),
    ).drop("block_count")


def _evaluated_namespaces(evaluation: Evaluation) -> DataFrame:
    """Return id, name and required of the namespaces that are evaluated."""
    return namespaces_with_required(evaluation.tables, evaluation.namespaces, evaluation.required_kinds)


def namespaces_with_required(
    tables: Tables, namespaces: LiveNamespaces | None, kinds: tuple[str, ...]
) -> DataFrame:
    """Return id, name and `required`, the number of live entities of these kinds in each namespace.

    namespaces: return only these; None for all namespaces.
    """
    selected = tables.entities.where(F.col("kind") == "namespace")
    if namespaces is not None:
        selected = selected.where(F.col("state") == "live")
    if namespaces is not None and namespaces.name:
        selected = selected.where(F.col("key") == namespaces.name)
    selected = selected.select("id", F.col("key").alias("name"))
    if not kinds:
        return selected.withColumn("required", F.lit(0).cast("bigint"))
    is_required = (F.col("state") == "live") & F.col("kind").isin(*kinds)
    counts = tables.entities.groupBy(F.col("namespace_id").alias("id")).agg(
        F.count_if(is_required).alias("required")
    )
    return selected.join(counts, on="id", how="left").withColumn("required", F.coalesce("required", F.lit(0)))


def collect_directory(evaluation: Evaluation) -> Directory:
    """Collect the directory in one job.

    Its size depends on users, memberships and namespaces, not on entities or grants.
    """
    tables = evaluation.tables
    frames = [
        tables.users.select(F.lit("users").alias("source"), "id", "name"),
        tables.memberships.select(F.lit("memberships").alias("source"), "user_id", "group_id"),
        _evaluated_namespaces(evaluation).select(
            F.lit("namespaces").alias("source"), "id", "name", "required"
        ),
    ]
    if evaluation.rules.has_form("instance"):
        instances = tables.entities.where(F.col("kind") == "instance").select(F.col("id").alias("entity"))
        frames.append(
            _used_grants(evaluation)
            .join(F.broadcast(instances), on="entity", how="left_semi")
            .select(F.lit("instance grants").alias("source"), "principal_type", "principal", "selector")
        )
    table = reduce(union, frames).toArrow()
    by_source = {
        name: table.filter(np.asarray(table["source"]) == name)
        for name in ("users", "memberships", "namespaces", "instance grants")
    }
    directory = Directory.build(by_source["users"], by_source["memberships"], by_source["namespaces"])
    if not evaluation.rules.has_form("instance"):
        return directory
    grants = by_source["instance grants"]
    return directory.with_instance_grants(
        *(grants[name].to_numpy() for name in ("principal_type", "principal", "selector"))
    )
