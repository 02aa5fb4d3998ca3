"""The entry point of the engine: evaluate a rule set over a tenant, and return the changes in the requested
form.

Outputs: `ChangeCounts` (for each user, on how many entities the answer changes), `HolderCounts` (for each
namespace and user, how many of the required entities the user holds) and `PairTable` (each user with each
entity).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.engine.compiled import LiveNamespaces
from analytics.spark.engine.directory import Directory, DirectoryBroadcast
from analytics.spark.engine.encode import Evaluation, collect_directory, encode
from analytics.spark.engine.pairs import (
    OPERATION_COLUMNS,
    PACKED_PAIRS,
    PairOrder,
    merge_pairs,
    pack_pairs,
)
from analytics.spark.engine.precompute import precompute_facts
from analytics.spark.engine.rows import Array
from analytics.spark.engine.rules import RuleSet
from analytics.spark.engine.small_tenant import SmallTenant
from analytics.spark.engine.sums import (
    PARTIAL_SUMS,
    SumOrder,
    merge_sums,
    pack_sums,
    readiness_rows,
    sum_rows,
)
from analytics.spark.schemas import Tables
from analytics.spark.sorted_table import SortedTable
from analytics.spark.temporary import release_later
from analytics.tables import READINESS, Table
from entities.frozen import frozen

PARTS_PER_PARTITION = 4


@frozen
class ChangeCounts:
    """The number of live entities with a changed answer by user, kind, operation and namespace, if it is not
    zero.

    table: its columns are some of user, kind, operation (or privilege), namespace, gained and lost. The namespace
    is a name; for a namespace it is its own name, and for entities in no namespace it is empty.
    by_namespace: False adds up over all namespaces.
    merge_kinds: add up over all kinds with the same rules. The table then has no column `kind`.
    gained_column: the name of the column `gained` in the table.
    """

    table: Table
    by_namespace: bool = True
    merge_kinds: bool = False
    gained_column: str = "gained"


@frozen
class HolderCounts:
    """tables.READINESS: for each namespace and holder, how many of the required entities the user gains.

    required_kinds: live entities of these kinds are required.
    candidate_operation: a rule of this operation makes a user a holder, but adds nothing to the counts.
    """

    required_kinds: tuple[str, ...]
    candidate_operation: str


@frozen
class PairTable:
    """A detail table: the changed pairs as rows of `table`, in the order of its key.

    table: its columns are some of namespace, user, entity, operation (or privilege), before and after; the first
    is namespace or user.
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
            evaluation = Evaluation(tables, rule_set, merge_kinds=output.merge_kinds, namespaces=namespaces)
            return _change_counts(evaluation, output)


def _change_counts(evaluation: Evaluation, output: ChangeCounts) -> SortedTable:
    rules = evaluation.rule_set.rules
    by_key = sorted(range(len(rules)), key=lambda number: (rules[number].kind, rules[number].operation))
    order = SumOrder(
        ("user", "rule", "namespace") if output.by_namespace else ("user", "rule"),
        tuple(by_key.index(number) for number in range(len(rules))),
        (True,) * len(rules),
        _part_count(evaluation),
    )
    operations = [rules[number].operation for number in by_key]
    rule_texts = {
        "kind": [rules[number].kind for number in by_key],
        **dict.fromkeys(OPERATION_COLUMNS, operations),
    }
    contents = [
        "gained" if name == output.gained_column else rule_texts.get(name, name)
        for name in output.table.column_names
    ]
    build_rows = partial(sum_rows, dict(zip(output.table.column_names, contents, strict=True)))
    return _sum_table(evaluation, output.table, order, build_rows)


def _holder_counts(evaluation: Evaluation, output: HolderCounts) -> SortedTable:
    rules = evaluation.rule_set.rules
    order = SumOrder(
        ("namespace", "user"),
        (0,) * len(rules),
        tuple(rule.operation != output.candidate_operation for rule in rules),
        _part_count(evaluation),
    )
    return _sum_table(evaluation, READINESS, order, readiness_rows)


def _part_count(evaluation: Evaluation) -> int:
    partitions = evaluation.partitions
    return partitions * PARTS_PER_PARTITION if partitions > 1 else 1


def _sum_table(
    evaluation: Evaluation,
    table: Table,
    order: SumOrder,
    build_rows: Callable[[Directory, dict[str, Array]], pa.RecordBatch],
) -> SortedTable:
    rows, broadcast = _encode(evaluation)
    packed = rows.mapInArrow(pack_sums(evaluation.rules, order, broadcast), PARTIAL_SUMS)
    parts = _divide(evaluation, packed, order.part_count)
    return SortedTable(table, parts, merge_sums(order, build_rows, broadcast))


def _pair_table(evaluation: Evaluation, output: PairTable) -> SortedTable:
    rows, broadcast = _encode(evaluation, with_names=True)
    order = _pair_order(output, broadcast.value, evaluation)
    packed = rows.mapInArrow(pack_pairs(evaluation.rules, order, broadcast), PACKED_PAIRS)
    operations = tuple(rule.operation for rule in evaluation.rule_set.rules)
    return SortedTable(
        output.table,
        _divide(evaluation, packed, order.part_count),
        merge_pairs(order, output.table.column_names, operations, broadcast),
    )


def _divide(evaluation: Evaluation, packed: DataFrame, part_count: int) -> DataFrame:
    """Return a partition for each part. Those of a small tenant stay in their only partition."""
    return packed if evaluation.tables.is_small else packed.repartitionById(part_count, "part")


def _pair_order(output: PairTable, directory: dict[str, Any], evaluation: Evaluation) -> PairOrder:
    """Return the order of the pairs.

    Collects one number for each user or namespace, which is less than the directory.
    """
    has_namespace = output.table.column_names[0] == "namespace"
    names = directory["namespace_names" if has_namespace else "user_names"]
    sums = output.counts.groupBy("name").agg(F.sum("pairs").alias("pairs")).toArrow()
    pair_counts = np.zeros(len(names), np.int64)
    pair_counts[pc.index_in(sums["name"], value_set=names).to_numpy()] = sums["pairs"].to_numpy()
    if has_namespace:
        user_count = max(1, len(directory["user_ids"]))
        return PairOrder.split(("namespace", "user"), pair_counts, user_count, evaluation.partitions)
    return PairOrder.split(("user",), pair_counts, 1, evaluation.partitions)


def _encode(evaluation: Evaluation, *, with_names: bool = False) -> tuple[DataFrame, DirectoryBroadcast]:
    """Return (the rows of the tenant, the directory)."""
    if evaluation.tables.is_small:
        tenant, spark = SmallTenant.collect(evaluation.tables), evaluation.tables.users.sparkSession
        rows = pa.Table.from_batches([tenant.encode(evaluation, with_names=with_names)])
        return spark.createDataFrame(rows).coalesce(1), _broadcast(evaluation, tenant.directory(evaluation))
    precomputed = precompute_facts(evaluation, _broadcast_directory)
    return encode(evaluation, precomputed, with_names=with_names), _broadcast_directory(evaluation)


def _broadcast_directory(evaluation: Evaluation) -> DirectoryBroadcast:
    return _broadcast(evaluation, collect_directory(evaluation))


def _broadcast(evaluation: Evaluation, directory: Directory) -> DirectoryBroadcast:
    """Broadcast the directory of the evaluation. `release_temporary` ends the broadcast."""
    broadcast = evaluation.tables.users.sparkSession.sparkContext.broadcast(directory.to_dict())
    release_later(broadcast.destroy)
    return broadcast
