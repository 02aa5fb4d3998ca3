"""The entry point of the engine: evaluate a rule set over a tenant, and return the changes in the requested
form.

Outputs: `ChangeCounts` (for each user, on how many entities the answer changes), `HolderCounts` (for each
namespace and user, how many of the required entities the user holds) and `PairTable` (each user with each
entity).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.batches import BatchFunction
from analytics.spark.engine.compiled import LiveNamespaces
from analytics.spark.engine.encode import Evaluation, collect_directory, encode
from analytics.spark.engine.members import DirectoryBroadcast
from analytics.spark.engine.merge import ColumnContents, count_stages, holder_stages
from analytics.spark.engine.pack import PARTIAL_COUNTS, PARTIAL_HOLDERS
from analytics.spark.engine.pairs import PACKED_PAIRS, PairOrder, pair_table_stages
from analytics.spark.engine.precompute import precompute_facts, small_tenant_rules
from analytics.spark.engine.rules import RuleSet, is_met_without_grants
from analytics.spark.engine.small_tenant import TABLE_COLUMNS, Stages, evaluate_small_tenant
from analytics.spark.schemas import Tables
from analytics.spark.sorted_table import SortedTable
from analytics.tables import READINESS, Table

# A part of a result has at least this many users, because the counts of a group are sent once to each part.
MIN_USERS_PER_PART = 256
PARTS_PER_PARTITION = 4


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The number of live entities with a changed answer by user, kind, operation and namespace, if it is not
    zero.

    table: its columns are some of user, kind, operation, namespace, gained and lost. The namespace is a name;
    for a namespace it is its own name, and for entities in no namespace it is empty.
    by_namespace: False adds up over all namespaces.
    gained_column: the name of the column `gained` in the table.
    """

    table: Table
    by_namespace: bool = True
    gained_column: str = "gained"


@dataclass(frozen=True, slots=True)
class HolderCounts:
    """tables.READINESS: for each namespace and holder, how many of the required entities the user gains.

    required_kinds: live entities of these kinds are required.
    candidate_operation: a rule of this operation makes a user a holder, but adds nothing to the counts.
    """

    required_kinds: tuple[str, ...]
    candidate_operation: str


@dataclass(frozen=True, slots=True)
class PairTable:
    """A detail table: the changed pairs as rows of `table`, in the order of its key.

    table: its columns are some of namespace, user, entity, operation, before and after; the first is
    namespace or user.
    counts: `name` and `pairs`, the number of rows of a user (or namespace). Counts with the same name are
    added up.
    """

    table: Table
    counts: DataFrame


def evaluate_rules(
    tables: Tables,
    rule_set: RuleSet,
    output: ChangeCounts | HolderCounts | PairTable,
    *,
    namespaces: LiveNamespaces | None = None,
) -> SortedTable:
    """Compare the answers of every rule before and after, for every active user and live entity.

    namespaces: evaluate these only; None for the whole tenant. This function collects the directory.
    Everything else is computed when the result is read.
    """
    match output:
        case PairTable():
            return _pair_table(Evaluation(tables, rule_set, namespaces=namespaces), output)
        case HolderCounts():
            evaluation = Evaluation(
                tables,
                rule_set,
                merge_kinds=True,
                namespaces=namespaces,
                required_kinds=output.required_kinds,
            )
            return _holder_counts(evaluation, output)
        case ChangeCounts():
            return _change_counts(Evaluation(tables, rule_set, namespaces=namespaces), output)


def evaluate_partitions(
    tables: Tables, rule_set: RuleSet, stages: Callable[..., tuple[BatchFunction]], schema: str
) -> DataFrame:
    """Return the rows that a function builds from each partition of the tenant, for figures that only one
    analysis needs.

    stages: returns the function. Its arguments are the compiled rules, whether users without grants must be
    evaluated, and the broadcast directory. The function receives tenant rows with names. schema: the columns
    of the rows that it builds.
    """
    evaluation = Evaluation(tables, rule_set)
    stages = partial(stages, evaluation.rules, is_met_without_grants(rule_set))
    if tables.is_small:
        source, build = _small_tenant_stage(evaluation, stages, with_names=True)
    else:
        source, (build,) = _encode(evaluation, with_names=True), stages(_broadcast_directory(evaluation))
    return source.mapInArrow(build, schema)


def _change_counts(evaluation: Evaluation, output: ChangeCounts) -> SortedTable:
    stages = partial(
        count_stages,
        evaluation.rules,
        _rule_order(evaluation.rule_set),
        _column_contents(evaluation.rule_set, output),
        output.by_namespace,
    )
    if evaluation.tables.is_small:
        return SortedTable(output.table, *_small_tenant_stage(evaluation, partial(stages, 1)))
    broadcast = _broadcast_directory(evaluation)
    part_count = user_part_count(evaluation.partitions, len(broadcast.value["user_ids"]))
    pack, merge = stages(part_count, broadcast)
    packed = _encode(evaluation).mapInArrow(pack, PARTIAL_COUNTS)
    return SortedTable(output.table, packed.repartitionById(part_count, "part"), merge)


def user_part_count(partitions: int, user_count: int) -> int:
    """Return the number of parts into which the users of a result are divided."""
    return max(1, min(partitions * PARTS_PER_PARTITION, user_count // MIN_USERS_PER_PART))


def _holder_counts(evaluation: Evaluation, output: HolderCounts) -> SortedTable:
    candidate_rules = frozenset(
        number
        for number, rule in enumerate(evaluation.rule_set.rules)
        if rule.operation == output.candidate_operation
    )
    stages = partial(holder_stages, evaluation.rules, candidate_rules)
    if evaluation.tables.is_small:
        return SortedTable(READINESS, *_small_tenant_stage(evaluation, partial(stages, 1)))
    pack, merge = stages(evaluation.partitions, _broadcast_directory(evaluation))
    packed = _encode(evaluation).mapInArrow(pack, PARTIAL_HOLDERS)
    return SortedTable(READINESS, packed.repartitionById(evaluation.partitions, "part"), merge)


def _pair_table(evaluation: Evaluation, output: PairTable) -> SortedTable:
    operations = tuple(rule.operation for rule in evaluation.rule_set.rules)
    columns = output.table.column_names
    stages = partial(
        pair_table_stages, evaluation.rules, operations, is_met_without_grants(evaluation.rule_set), columns
    )
    has_namespace = columns[0] == "namespace"
    if evaluation.tables.is_small:
        one_part = PairOrder.one_part(has_namespace=has_namespace)
        return SortedTable(
            output.table, *_small_tenant_stage(evaluation, partial(stages, one_part), with_names=True)
        )
    broadcast = _broadcast_directory(evaluation)
    order = _pair_order(output.counts, broadcast.value, evaluation.partitions, has_namespace=has_namespace)
    pack, merge = stages(order, broadcast)
    packed = _encode(evaluation, with_names=True).mapInArrow(pack, PACKED_PAIRS)
    return SortedTable(output.table, packed.repartitionById(order.part_count, "part"), merge)


def _pair_order(
    counts: DataFrame, directory: dict[str, Any], partitions: int, *, has_namespace: bool
) -> PairOrder:
    """Return the order of the pairs.

    Collects one number for each user or namespace, which is less than the directory.
    """
    names = directory["namespace_names" if has_namespace else "user_names"]
    sums = counts.groupBy("name").agg(F.sum("pairs").alias("pairs")).toArrow()
    pair_counts = np.zeros(len(names), np.int64)
    pair_counts[pc.index_in(sums["name"], value_set=names).to_numpy()] = sums["pairs"].to_numpy()
    if has_namespace:
        return PairOrder.by_namespace(pair_counts, len(directory["user_ids"]), partitions)
    return PairOrder.by_user(pair_counts, partitions)


def _encode(evaluation: Evaluation, *, with_names: bool = False) -> DataFrame:
    return encode(evaluation, precompute_facts(evaluation, _broadcast_directory), with_names=with_names)


def _small_tenant_stage(
    evaluation: Evaluation, stages: Stages, *, with_names: bool = False
) -> tuple[DataFrame, BatchFunction]:
    """Return (the tables of the tenant in one partition, the function that evaluates them)."""
    frames = [
        getattr(evaluation.tables, name).select(F.lit(name).alias("table"), *columns)
        for name, columns in TABLE_COLUMNS.items()
    ]
    tables = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames).coalesce(1)
    return tables, evaluate_small_tenant(small_tenant_rules(evaluation), stages, with_names=with_names)


def _rule_order(rule_set: RuleSet) -> tuple[int, ...]:
    """Return the position of each rule in the order of kinds and operations."""
    rules = rule_set.rules
    sorted_numbers = sorted(
        range(len(rules)), key=lambda number: (rules[number].kind, rules[number].operation)
    )
    return tuple(sorted_numbers.index(number) for number in range(len(rules)))


def _column_contents(rule_set: RuleSet, output: ChangeCounts) -> ColumnContents:
    contents: dict[str, str | tuple[str, ...]] = {
        "kind": tuple(rule.kind for rule in rule_set.rules),
        "operation": tuple(rule.operation for rule in rule_set.rules),
        output.gained_column: "gained",
    }
    return tuple((name, contents.get(name, name)) for name in output.table.column_names)


# The broadcasts of the analysis that this process runs.
_broadcasts: list[Broadcast[dict[str, object]]] = []


def _broadcast_directory(evaluation: Evaluation) -> DirectoryBroadcast:
    """Broadcast the directory of the evaluation. `release_broadcasts` ends the broadcast."""
    spark = evaluation.tables.users.sparkSession
    broadcast = spark.sparkContext.broadcast(collect_directory(evaluation).to_dict())
    _broadcasts.append(broadcast)
    return broadcast


@contextmanager
def release_broadcasts() -> Iterator[None]:
    """Destroy the broadcasts of the block at its end. Results of the engine cannot be read after that."""
    try:
        yield
    finally:
        while _broadcasts:
            _broadcasts.pop().destroy()
