"""Encode a tenant as typed rows, with Spark's joins: its targets, and the grants that count for them.

A grant is sent once, to the block of the granted entity. It is not repeated for other entities for which it
counts. If a subtree is split into blocks, a grant that counts beyond its own block is also sent to the other
blocks. Users, groups, memberships and namespaces are not rows: they are collected into a Directory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.spark.engine import layout
from analytics.spark.engine.compiled import CompiledRules, LiveNamespaces
from analytics.spark.engine.members import Directory
from analytics.spark.engine.rows import (
    COLUMNS,
    GROUP,
    IN_APPLICATION,
    IN_NAMESPACE,
    NONE,
    USER,
    ContainerGrantRows,
    DescendantGrantRows,
    GrantRows,
    PrecomputedFactRows,
    Rows,
    TargetRows,
    check_columns,
    row_type_number,
)
from analytics.spark.engine.rules import RuleSet, compile_rules, kinds_listed_by_grants, number_kinds
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

    precomputed: principal_type, principal, entity and fact number of each precomputed fact.
    """
    located = _located_entities(evaluation)
    grant_kinds = () if with_names else kinds_listed_by_grants(evaluation.rule_set, evaluation.rules)
    frames = [
        _target_rows(evaluation, located, grant_kinds, with_names=with_names),
        _grant_rows(evaluation, located, grant_kinds),
    ]
    if evaluation.rules.has_form("anywhere"):
        frames.append(_anywhere_rows(evaluation, located))
    if precomputed is not None:
        locations = located.select(F.col("id").alias("entity"), "subtree", "block")
        frames.append(_typed_rows(precomputed.join(locations, on="entity", how="inner"), PrecomputedFactRows))
    part = F.pmod(F.xxhash64("subtree", "block"), F.lit(evaluation.partitions)).cast("int").alias("part")
    columns = [*COLUMNS, "name"] if with_names else [*COLUMNS]
    return (
        reduce(_union, frames)
        .select("*", part)
        .repartitionById(evaluation.partitions, "part")
        .select(*columns)
    )


def _union(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.unionByName(right, allowMissingColumns=True)


def _typed_rows(frame: DataFrame, row_type: type[Rows], **columns: Column | str) -> DataFrame:
    """Return the rows of `frame` as rows of `row_type` in the wide schema.

    columns: the column for each field that is not a column of the same name in `frame`.
    """
    values = {name: F.col(name) for name in row_type.__match_args__} | {
        name: F.col(column) if isinstance(column, str) else column for name, column in columns.items()
    }
    check_columns(row_type, values)
    values["row_type"] = F.lit(row_type_number(row_type))
    return frame.select(*_wide_columns(values), *([F.col("name")] if "name" in frame.columns else []))


def _wide_columns(values: Mapping[str, Column]) -> list[Column]:
    """Return the columns of the wide schema, with NONE for null and for columns without a value."""
    return [
        F.coalesce(values.get(name, F.lit(NONE)).cast(sql_type), F.lit(NONE).cast(sql_type)).alias(name)
        for name, sql_type in COLUMNS.items()
    ]


def _located_entities(evaluation: Evaluation) -> DataFrame:
    """Return id, kind, key, state, subtree, application, block, block_count, application_block of every
    entity.

    A subtree that is too large for a unit is split into blocks. The container at its root is in block 0. The
    entities of an application are in one block, unless the application is too large for a unit too. Then its
    programs are spread over all blocks, and `application_block` is the block of the application itself.
    block_count, application_block: null if the subtree or the application is not split.
    """
    application = F.when(F.col("kind") == "application", F.col("id")).otherwise(F.col("application_id"))
    subtree = application if evaluation.container == "application" else F.col("namespace_id")
    entities = evaluation.tables.entities.select(
        "id",
        "kind",
        "key",
        "state",
        F.coalesce(subtree, F.lit(NONE)).alias("subtree"),
        application.alias("application"),
    )
    if evaluation.namespaces is not None:
        entities = entities.where(F.col("subtree") != NONE)
    if evaluation.namespaces is not None and evaluation.namespaces.name:
        subtrees = _evaluated_namespaces(evaluation).select(F.col("id").alias("subtree"))
        entities = entities.join(F.broadcast(subtrees), on="subtree")
    large_subtrees = _large_containers(entities, "subtree").withColumnRenamed("unit_count", "block_count")
    large_applications = _large_containers(entities, "application").select(
        "application", F.lit(True).alias("is_split")
    )
    application_block = F.when(F.col("application") == F.col("subtree"), 0).otherwise(
        F.pmod(F.xxhash64("application"), F.col("block_count"))
    )
    block = (
        F.when(F.col("block_count").isNull() | (F.col("id") == F.col("subtree")), 0)
        .when(F.col("is_split") & (F.col("id") == F.col("application")), application_block)
        .when(F.col("is_split"), F.pmod(F.xxhash64("id"), F.col("block_count")))
        .otherwise(F.pmod(F.xxhash64(F.coalesce("application", "id")), F.col("block_count")))
    )
    return (
        entities.join(F.broadcast(large_subtrees), on="subtree", how="left")
        .join(F.broadcast(large_applications), on="application", how="left")
        .withColumns(
            {
                "block": block.cast("int"),
                "application_block": F.when(F.col("is_split"), application_block).cast("int"),
            }
        )
        .drop("is_split")
    )


def _large_containers(entities: DataFrame, column: str) -> DataFrame:
    """Return the values of `column` with more entities than a unit holds, and as `unit_count` how many units
    they fill.

    Counts a sample, because an exact count would exchange a row for every application. Returns at most one
    row for each UNIT_ENTITIES entities.
    """
    interval = max(1, layout.UNIT_ENTITIES // _SAMPLED_ENTITIES)
    sample = entities.where(F.pmod(F.xxhash64("id"), F.lit(interval)) == 0) if interval > 1 else entities
    unit_count = F.ceil(F.count("*") * interval / layout.UNIT_ENTITIES).cast("int")
    return (
        sample.where(F.col(column) != NONE)
        .groupBy(column)
        .agg(unit_count.alias("unit_count"))
        .where(F.col("unit_count") > 1)
    )


def _target_rows(
    evaluation: Evaluation, located: DataFrame, grant_kinds: tuple[str, ...], *, with_names: bool
) -> DataFrame:
    """Return the target rows. grant_kinds: kinds without target rows, see kinds_listed_by_grants."""
    kinds = [kind for kind in evaluation.kind_numbers if kind not in grant_kinds]
    targets = located.where((F.col("state") == "live") & F.col("kind").isin(*kinds))
    if with_names:
        targets = targets.withColumn("name", F.concat_ws(":", "kind", "key"))
    return _typed_rows(targets, TargetRows, kind=_kind_number(evaluation), entity="id")


def _kind_number(evaluation: Evaluation) -> Column:
    items = [F.lit(value) for kind_and_number in evaluation.kind_numbers.items() for value in kind_and_number]
    return F.create_map(*items)[F.col("kind")]


def _used_grants(evaluation: Evaluation) -> DataFrame:
    """Return principal_type, principal, privilege and entity of the grants that at least one fact uses."""
    names = evaluation.rule_set.privileges
    used_privileges = [name for number, name in enumerate(names) if evaluation.rules.privileges >> number & 1]
    return evaluation.tables.grants.where(F.col("privilege").isin(*used_privileges)).select(
        principal_type_number().alias("principal_type"),
        F.col("principal_id").alias("principal"),
        privilege_number(names).alias("privilege"),
        F.col("entity_id").alias("entity"),
    )


def principal_type_number() -> Column:
    return F.when(F.col("principal_type") == "user", USER).otherwise(GROUP)


def privilege_number(names: tuple[str, ...]) -> Column:
    return F.array_position(F.array(*map(F.lit, names)), F.col("privilege")) - 1


def _located_grants(evaluation: Evaluation, located: DataFrame) -> DataFrame:
    entities = located.withColumnRenamed("id", "entity").drop("key")
    return _used_grants(evaluation).join(entities.hint("shuffle_hash"), on="entity", how="inner")


def _grant_rows(evaluation: Evaluation, located: DataFrame, grant_kinds: tuple[str, ...]) -> DataFrame:
    """Return the grants as rows of their own block, and of the other blocks where they count.

    One pass over the joined grants builds the rows of all types. A join for each type would take several
    times as long.
    """
    is_target = (F.col("state") == "live") & F.col("kind").isin(*grant_kinds)
    kind = F.when(is_target, _kind_number(evaluation)) if grant_kinds else F.lit(NONE)
    grants = _located_grants(evaluation, located).withColumn("kind", kind)
    copies = _copies_for_other_blocks(evaluation)
    if copies:
        own_row = F.array(_row_copy(GrantRows, F.col("block")))
        grants = (
            grants.withColumn("copy", F.explode(F.concat(own_row, *copies)))
            .select("*", "copy.*")
            .drop("copy")
        )
        grants = grants.drop("block").withColumnRenamed("to_block", "block")
        is_own_row = F.col("row_type") == row_type_number(GrantRows)
        values = {name: F.when(is_own_row, F.col(name)) for name in ("entity", "application", "kind")}
        values |= {name: F.col(name) for name in ("row_type", "container", "scope")}
    else:
        values = {"row_type": F.lit(row_type_number(GrantRows))}
    return grants.select(*_wide_columns({name: F.col(name) for name in grants.columns} | values))


def _row_copy(
    row_type: type[Rows], block: Column, container: Column | None = None, scope: int = NONE
) -> Column:
    """Return a struct that describes one row of a grant: its type, its block and the added columns."""
    container = F.lit(NONE) if container is None else container
    return F.struct(
        F.lit(row_type_number(row_type)).alias("row_type"),
        block.cast("int").alias("to_block"),
        container.cast("bigint").alias("container"),
        F.lit(scope).alias("scope"),
    )


def _copies_for_other_blocks(evaluation: Evaluation) -> list[Column]:
    """Return arrays of `_row_copy`, one array for each form of fact for which a grant counts in other blocks."""
    rules, copies = evaluation.rules, []
    is_split = F.col("application_block").isNotNull()
    if rules.has_form("below"):
        copies.append(
            _array_if(F.col("block") > 0, F.array(_row_copy(DescendantGrantRows, F.lit(0), F.col("subtree"))))
        )
        copies.append(
            _array_if(
                is_split & (F.col("block") != F.col("application_block")),
                F.array(_row_copy(DescendantGrantRows, F.col("application_block"), F.col("application"))),
            )
        )
    if rules.has_form("namespace"):
        other_blocks = F.sequence(F.lit(1), F.col("block_count") - 1)
        copies.append(
            _array_if(
                F.col("block_count").isNotNull() & (F.col("entity") == F.col("subtree")),
                F.transform(
                    other_blocks,
                    lambda block: _row_copy(ContainerGrantRows, block, F.col("subtree"), IN_NAMESPACE),
                ),
            )
        )
    if rules.has_form("application"):
        all_blocks = F.sequence(F.lit(0), F.col("block_count") - 1)
        copies.append(
            _array_if(
                is_split & (F.col("entity") == F.col("application")),
                F.transform(
                    all_blocks,
                    lambda block: _row_copy(ContainerGrantRows, block, F.col("application"), IN_APPLICATION),
                ),
            )
        )
    return copies


def _array_if(condition: Column, array: Column) -> Column:
    """Return the array where the condition is true, else an empty array."""
    return F.when(condition, array).otherwise(
        F.array().cast("array<struct<row_type:int,to_block:int,container:bigint,scope:int>>")
    )


def _anywhere_rows(evaluation: Evaluation, located: DataFrame) -> DataFrame:
    """Return a row in every block of a split subtree for each privilege that a principal holds anywhere in
    the subtree.
    """
    grants = _located_grants(evaluation, located).where(F.col("block_count").isNotNull())
    privileges = grants.select(
        "subtree", "block_count", "principal_type", "principal", "privilege"
    ).distinct()
    rows = privileges.withColumn("block", F.explode(F.sequence(F.lit(0), F.col("block_count") - 1)))
    return _typed_rows(rows, DescendantGrantRows, container="subtree")


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
            .select(F.lit("instance grants").alias("source"), "principal_type", "principal", "privilege")
        )
    table = reduce(_union, frames).toArrow()
    by_source = {
        name: table.filter(np.asarray(table["source"]) == name)
        for name in ("users", "memberships", "namespaces", "instance grants")
    }
    directory = Directory.build(
        by_source["users"],
        by_source["memberships"],
        by_source["namespaces"],
        is_restricted=evaluation.namespaces is not None,
    )
    if not evaluation.rules.has_form("instance"):
        return directory
    grants = by_source["instance grants"]
    return directory.with_instance_grants(
        *(grants[name].to_numpy() for name in ("principal_type", "principal", "privilege"))
    )
