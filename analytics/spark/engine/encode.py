"""Encode a tenant as typed rows, with Spark's joins: its targets, and the grants that count for them.

A grant is sent once, to the block of the granted entity, and never multiplied by the entities around it. Only where a family is
split into blocks, a grant that counts beyond its own block is sent to the others too. Users, groups, memberships and namespaces
are not rows: they are collected into a Directory.
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
    RowArrays,
    TargetRows,
    checked,
    row_number,
)
from analytics.spark.engine.rules import PRIVILEGES, RuleSet, compile_rules, kinds_known_from_grants, number_kinds
from analytics.spark.schemas import Tables

# A family counts as large by a sample with about this many entities for each unit.
_SAMPLED = 128


@dataclass(frozen=True)
class Evaluation:
    """A rule set, applied to the live entities of its kinds.

    container: `namespace` or `application`, whose contents are a family. merge_kinds: as in number_kinds.
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


def encode(evaluation: Evaluation, precomputed: DataFrame | None = None, *, with_names: bool = False) -> DataFrame:
    """Return rows with COLUMNS, partitioned by family and block. with_names: add `name`, the address of each target.

    precomputed: principal_type, principal, entity and fact number of each precomputed fact.
    """
    located = _locate_entities(evaluation)
    known_from_grants = () if with_names else kinds_known_from_grants(evaluation.rule_set, evaluation.rules)
    frames = [_targets(evaluation, located, known_from_grants, with_names=with_names),
              _grants(evaluation, located, known_from_grants)]
    if evaluation.rules.has_form("anywhere"):
        frames.append(_grants_anywhere(evaluation, located))
    if precomputed is not None:
        places = located.select(F.col("id").alias("entity"), "family", "block")
        frames.append(_rows(precomputed.join(places, on="entity", how="inner"), PrecomputedFactRows))
    part = F.pmod(F.xxhash64("family", "block"), F.lit(evaluation.partitions)).cast("int").alias("part")
    columns = [*COLUMNS, "name"] if with_names else [*COLUMNS]
    return reduce(_union, frames).select("*", part).repartitionById(evaluation.partitions, "part").select(*columns)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)


def _rows(frame: DataFrame, row_type: type[RowArrays], **columns: Column | str) -> DataFrame:
    """Return rows of one type in the wide schema. columns: those that the frame does not have under their own name."""
    own = {name: F.col(name) for name in row_type.__match_args__} | {
        name: F.col(column) if isinstance(column, str) else column for name, column in columns.items()}
    checked(row_type, own)
    own["row_type"] = F.lit(row_number(row_type))
    return frame.select(*[F.coalesce(own.get(name, F.lit(NONE)).cast(sql_type), F.lit(NONE).cast(sql_type)).alias(name)
                          for name, sql_type in COLUMNS.items()],
                        *([F.col("name")] if "name" in frame.columns else []))


def _locate_entities(evaluation: Evaluation) -> DataFrame:
    """Return id, kind, key, state, family, application, block, blocks, application_block of every entity.

    A family that is too large for a unit is split into blocks. The entity of the family itself is in block 0. An application is
    in one block, unless it is too large for a unit too: then `application_block` holds the application itself, and its programs
    are spread over all blocks. blocks, application_block: null where the family or the application is not split.
    """
    application = F.when(F.col("kind") == "application", F.col("id")).otherwise(F.col("application_id"))
    family = application if evaluation.container == "application" else F.col("namespace_id")
    entities = evaluation.tables.entities.select(
        "id", "kind", "key", "state", F.coalesce(family, F.lit(NONE)).alias("family"), application.alias("application"))
    if evaluation.namespaces is not None:
        entities = entities.where(F.col("family") != NONE)
    if evaluation.namespaces is not None and evaluation.namespaces.name:
        entities = entities.join(F.broadcast(_namespaces(evaluation).select(F.col("id").alias("family"))), on="family")
    large_families = _large(entities, "family").withColumnRenamed("count", "blocks")
    large_applications = _large(entities, "application").select("application", F.lit(True).alias("is_split"))
    home = F.when(F.col("application") == F.col("family"), 0).otherwise(
        F.pmod(F.xxhash64("application"), F.col("blocks")))
    block = (
        F.when(F.col("blocks").isNull() | (F.col("id") == F.col("family")), 0)
        .when(F.col("is_split") & (F.col("id") == F.col("application")), home)
        .when(F.col("is_split"), F.pmod(F.xxhash64("id"), F.col("blocks")))
        .otherwise(F.pmod(F.xxhash64(F.coalesce("application", "id")), F.col("blocks")))
    )
    return (
        entities.join(F.broadcast(large_families), on="family", how="left")
        .join(F.broadcast(large_applications), on="application", how="left")
        .withColumns({"block": block.cast("int"), "application_block": F.when(F.col("is_split"), home).cast("int")})
        .drop("is_split")
    )


def _large(entities: DataFrame, column: str) -> DataFrame:
    """Return the values of `column` with more entities than a unit holds, and as `count` the number of units that they fill.

    Counts a sample, because an exact count would exchange a row for every application. Returns at most one row for each
    UNIT_ENTITIES entities.
    """
    one_in = max(1, layout.UNIT_ENTITIES // _SAMPLED)
    sample = entities.where(F.pmod(F.xxhash64("id"), F.lit(one_in)) == 0) if one_in > 1 else entities
    units = F.ceil(F.count("*") * one_in / layout.UNIT_ENTITIES).cast("int")
    return sample.where(F.col(column) != NONE).groupBy(column).agg(units.alias("count")).where(F.col("count") > 1)


def _targets(evaluation: Evaluation, located: DataFrame, known_from_grants: tuple[str, ...], *, with_names: bool) -> DataFrame:
    kinds = [kind for kind in evaluation.kind_numbers if kind not in known_from_grants]
    live = located.where((F.col("state") == "live") & F.col("kind").isin(*kinds))
    if with_names:
        live = live.withColumn("name", F.concat_ws(":", "kind", "key"))
    return _rows(live, TargetRows, kind=_kind_number(evaluation), entity="id")


def _kind_number(evaluation: Evaluation) -> Column:
    items = [F.lit(value) for kind_and_number in evaluation.kind_numbers.items() for value in kind_and_number]
    return F.create_map(*items)[F.col("kind")]


def _granted(evaluation: Evaluation) -> DataFrame:
    """Return principal_type, principal, privilege and entity of the grants that at least one fact uses."""
    used = [name for number, name in enumerate(PRIVILEGES) if evaluation.rules.privileges >> number & 1]
    return evaluation.tables.grants.where(F.col("privilege").isin(*used)).select(
        principal_type_number().alias("principal_type"), F.col("principal_id").alias("principal"),
        privilege_number().alias("privilege"), F.col("entity_id").alias("entity"))


def principal_type_number() -> Column:
    return F.when(F.col("principal_type") == "user", USER).otherwise(GROUP)


def privilege_number() -> Column:
    return F.array_position(F.array(*map(F.lit, PRIVILEGES)), F.col("privilege")) - 1


def _located_grants(evaluation: Evaluation, located: DataFrame) -> DataFrame:
    places = located.withColumnRenamed("id", "entity").drop("key")
    return _granted(evaluation).join(places.hint("shuffle_hash"), on="entity", how="inner")


def _grants(evaluation: Evaluation, located: DataFrame, known_from_grants: tuple[str, ...]) -> DataFrame:
    """Return the grants as rows of their own block, and of the other blocks where they count.

    One pass over the joined grants makes the rows of all types. A join for each type would take several times as long.
    """
    is_target = (F.col("state") == "live") & F.col("kind").isin(*known_from_grants)
    kind = F.when(is_target, _kind_number(evaluation)) if known_from_grants else F.lit(NONE)
    grants = _located_grants(evaluation, located).withColumn("kind", kind)
    # where a grant is sent: a typed row for each element
    copies = _copies_to_other_blocks(evaluation)
    if copies:
        own = F.array(_copy(GrantRows, F.col("block")))
        grants = grants.withColumn("copy", F.explode(F.concat(own, *copies))).select("*", "copy.*").drop("copy")
        grants = grants.drop("block").withColumnRenamed("to_block", "block")
        is_own = F.col("row_type") == row_number(GrantRows)
        sent = {name: F.when(is_own, F.col(name)) for name in ("entity", "application", "kind")}
        sent |= {name: F.col(name) for name in ("row_type", "container", "scope")}
    else:
        sent = {"row_type": F.lit(row_number(GrantRows))}
    return grants.select(*[F.coalesce(_column(grants, name, sent).cast(sql_type), F.lit(NONE).cast(sql_type)).alias(name)
                           for name, sql_type in COLUMNS.items()])


def _column(frame: DataFrame, name: str, others: Mapping[str, Column]) -> Column:
    return others.get(name, F.col(name) if name in frame.columns else F.lit(NONE))


def _copy(row_type: type[RowArrays], block: Column, container: Column | None = None, scope: int = NONE) -> Column:
    container = F.lit(NONE) if container is None else container
    return F.struct(F.lit(row_number(row_type)).alias("row_type"), block.cast("int").alias("to_block"),
                    container.cast("bigint").alias("container"), F.lit(scope).alias("scope"))


def _copies_to_other_blocks(evaluation: Evaluation) -> list[Column]:
    """Return arrays of copies, one for each form of fact for which a grant counts in other blocks."""
    rules, copies = evaluation.rules, []
    is_split = F.col("application_block").isNotNull()
    if rules.has_form("below"):
        copies.append(_array_where(F.col("block") > 0, F.array(_copy(DescendantGrantRows, F.lit(0), F.col("family")))))
        copies.append(_array_where(is_split & (F.col("block") != F.col("application_block")), F.array(
            _copy(DescendantGrantRows, F.col("application_block"), F.col("application")))))
    if rules.has_form("namespace"):
        others = F.sequence(F.lit(1), F.col("blocks") - 1)
        copies.append(_array_where(F.col("blocks").isNotNull() & (F.col("entity") == F.col("family")), F.transform(
            others, lambda block: _copy(ContainerGrantRows, block, F.col("family"), IN_NAMESPACE))))
    if rules.has_form("application"):
        every = F.sequence(F.lit(0), F.col("blocks") - 1)
        copies.append(_array_where(is_split & (F.col("entity") == F.col("application")), F.transform(
            every, lambda block: _copy(ContainerGrantRows, block, F.col("application"), IN_APPLICATION))))
    return copies


def _array_where(condition: Column, array: Column) -> Column:
    return F.when(condition, array).otherwise(F.array().cast(
        "array<struct<row_type:int,to_block:int,container:bigint,scope:int>>"))


def _grants_anywhere(evaluation: Evaluation, located: DataFrame) -> DataFrame:
    """Return a row in every block of a split family for each privilege that a principal holds anywhere in the family."""
    inside = _located_grants(evaluation, located).where(F.col("blocks").isNotNull())
    held = inside.select("family", "blocks", "principal_type", "principal", "privilege").distinct()
    every = held.withColumn("block", F.explode(F.sequence(F.lit(0), F.col("blocks") - 1)))
    return _rows(every, DescendantGrantRows, container="family")


def _namespaces(evaluation: Evaluation) -> DataFrame:
    """Return id, name and required of the namespaces that are evaluated."""
    return namespaces_required(evaluation.tables, evaluation.namespaces, evaluation.required_kinds)


def namespaces_required(tables: Tables, namespaces: LiveNamespaces | None, kinds: tuple[str, ...]) -> DataFrame:
    """Return id, name and `required`, the number of live entities of these kinds in each namespace."""
    chosen = tables.entities.where(F.col("kind") == "namespace")
    if namespaces is not None:
        chosen = chosen.where(F.col("state") == "live")
    if namespaces is not None and namespaces.name:
        chosen = chosen.where(F.col("key") == namespaces.name)
    chosen = chosen.select("id", F.col("key").alias("name"))
    if not kinds:
        return chosen.withColumn("required", F.lit(0).cast("bigint"))
    is_required = (F.col("state") == "live") & F.col("kind").isin(*kinds)
    counts = tables.entities.groupBy(F.col("namespace_id").alias("id")).agg(F.count_if(is_required).alias("required"))
    return chosen.join(counts, on="id", how="left").withColumn("required", F.coalesce("required", F.lit(0)))


def collect_directory(evaluation: Evaluation) -> Directory:
    """Collect the directory in one job. Its size depends on users, memberships and namespaces, not on entities or grants."""
    tables = evaluation.tables
    frames = [
        tables.users.select(F.lit("users").alias("source"), "id", "name"),
        tables.memberships.select(F.lit("memberships").alias("source"), "user_id", "group_id"),
        _namespaces(evaluation).select(F.lit("namespaces").alias("source"), "id", "name", "required"),
    ]
    if evaluation.rules.has_form("instance"):
        instances = tables.entities.where(F.col("kind") == "instance").select(F.col("id").alias("entity"))
        frames.append(_granted(evaluation).join(F.broadcast(instances), on="entity", how="left_semi").select(
            F.lit("instance grants").alias("source"), "principal_type", "principal", "privilege"))
    table = reduce(_union, frames).toArrow()
    by_source = {name: table.filter(np.asarray(table["source"]) == name) for name in
                 ("users", "memberships", "namespaces", "instance grants")}
    directory = Directory.build(by_source["users"], by_source["memberships"], by_source["namespaces"],
                                is_selection=evaluation.namespaces is not None)
    if not evaluation.rules.has_form("instance"):
        return directory
    grants = by_source["instance grants"]
    return directory.with_instance_grants(*(grants[name].to_numpy() for name in ("principal_type", "principal", "privilege")))
