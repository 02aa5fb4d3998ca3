"""The entry point of the engine: evaluate a rule set over a tenant, and return the changes in the requested form.

Outputs: `ChangeCounts` (how many entities, by user), `HolderCounts` (how many of the required entities of a namespace a user
holds), `ChangedPairs` (each user with each entity) and `PairTable` (the same as a sorted table).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, overload

import numpy as np
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.batches import BatchFunction
from analytics.spark.engine.compiled import LiveNamespaces
from analytics.spark.engine.encode import Evaluation, collect_directory, encode
from analytics.spark.engine.members import Shared
from analytics.spark.engine.merge import Columns, count_stages, holder_stages
from analytics.spark.engine.pack import PARTIAL_COUNTS, PARTIAL_HOLDERS
from analytics.spark.engine.pairs import PACKED_PAIRS, PAIRS, PairOrder, pair_stages, pair_table_stages
from analytics.spark.engine.precompute import precompute_facts, small_tenant_rules
from analytics.spark.engine.rules import RuleSet, is_met_without_grants
from analytics.spark.engine.small_tenant import SENT_COLUMNS, Stages, evaluate_small_tenant
from analytics.spark.schemas import Tables
from analytics.spark.sorted_table import SortedTable
from analytics.tables import READINESS, Table

# A part of a result has at least so many users: a group's counts are sent once to each part.
PART_USERS = 256
PARTS_PER_PARTITION = 4


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The number of live entities whose answer changes, if it is not zero, by user, kind, operation and namespace.

    table: its columns show some of user, kind, operation, namespace, gained and lost. A namespace is shown by its name: that of
    the namespace itself for a namespace, empty for entities in none. gained: the name of that column in the table.
    by_namespace: False adds up over all namespaces.
    """

    table: Table
    by_namespace: bool = True
    gained: str = "gained"


@dataclass(frozen=True, slots=True)
class HolderCounts:
    """tables.READINESS: for each namespace and holder, how many of the required entities the user gains.

    required_kinds: live entities of these kinds are required. marking_operation: a rule of this operation makes a user a holder,
    but adds nothing to the counts.
    """

    required_kinds: tuple[str, ...]
    marking_operation: str


@dataclass(frozen=True, slots=True)
class ChangedPairs:
    """user, entity, operation, after: each live entity with each operation whose answer changes for the user."""


@dataclass(frozen=True, slots=True)
class PairTable:
    """A detail table: the changed pairs as rows of `table`, in the order of its key.

    table: its columns show some of namespace, user, entity, operation, before and after; the first is namespace or user.
    counts: `name` and `pairs`, the number of rows of a user (or namespace). Several counts of the same name are added up.
    """

    table: Table
    counts: DataFrame


@overload
def evaluate_rules(tables: Tables, rule_set: RuleSet, output: ChangedPairs, *,
                   namespaces: LiveNamespaces | None = None) -> DataFrame: ...


@overload
def evaluate_rules(tables: Tables, rule_set: RuleSet, output: ChangeCounts | HolderCounts | PairTable, *,
                   namespaces: LiveNamespaces | None = None) -> SortedTable: ...


def evaluate_rules(tables: Tables, rule_set: RuleSet, output: ChangeCounts | HolderCounts | ChangedPairs | PairTable, *,
                   namespaces: LiveNamespaces | None = None) -> DataFrame | SortedTable:
    """Compare the answers of every rule before and after, for every active user and live entity.

    namespaces: evaluate these only; None for the whole tenant. Collects the directory at once, and everything else when the
    result is read.
    """
    match output:
        case ChangedPairs():
            return _find_pairs(Evaluation(tables, rule_set, namespaces=namespaces))
        case PairTable():
            return _write_pairs(Evaluation(tables, rule_set, namespaces=namespaces), output)
        case HolderCounts():
            evaluation = Evaluation(tables, rule_set, merge_kinds=True, namespaces=namespaces,
                                    required_kinds=output.required_kinds)
            return _count_holders(evaluation, output)
        case ChangeCounts():
            return _count_changes(Evaluation(tables, rule_set, namespaces=namespaces), output)


def _count_changes(evaluation: Evaluation, output: ChangeCounts) -> SortedTable:
    stages = partial(count_stages, evaluation.rules, _order(evaluation.rule_set), _columns(evaluation.rule_set, output),
                     output.by_namespace)
    if evaluation.tables.is_small:
        return SortedTable(output.table, *_small(evaluation, partial(stages, 1)))
    shared = _share(evaluation)
    parts = part_count(evaluation.partitions, len(shared.value["user_ids"]))
    pack, merge = stages(parts, shared)
    packed = _encode(evaluation).mapInArrow(pack, PARTIAL_COUNTS)
    return SortedTable(output.table, packed.repartitionById(parts, "part"), merge)


def part_count(partitions: int, users: int) -> int:
    """Return the number of parts into which the users of a result are divided."""
    return max(1, min(partitions * PARTS_PER_PARTITION, users // PART_USERS))


def _count_holders(evaluation: Evaluation, output: HolderCounts) -> SortedTable:
    marking = frozenset(number for number, rule in enumerate(evaluation.rule_set.rules)
                        if rule.operation == output.marking_operation)
    stages = partial(holder_stages, evaluation.rules, marking)
    if evaluation.tables.is_small:
        return SortedTable(READINESS, *_small(evaluation, partial(stages, 1)))
    pack, merge = stages(evaluation.partitions, _share(evaluation))
    packed = _encode(evaluation).mapInArrow(pack, PARTIAL_HOLDERS)
    return SortedTable(READINESS, packed.repartitionById(evaluation.partitions, "part"), merge)


def _find_pairs(evaluation: Evaluation) -> DataFrame:
    operations = tuple(rule.operation for rule in evaluation.rule_set.rules)
    stages = partial(pair_stages, evaluation.rules, operations, is_met_without_grants(evaluation.rule_set))
    if evaluation.tables.is_small:
        sent, evaluate = _small(evaluation, stages, with_names=True)
        return sent.mapInArrow(evaluate, PAIRS)
    [find] = stages(_share(evaluation))
    return _encode(evaluation, with_names=True).mapInArrow(find, PAIRS)


def _write_pairs(evaluation: Evaluation, output: PairTable) -> SortedTable:
    operations = tuple(rule.operation for rule in evaluation.rule_set.rules)
    columns = output.table.column_names
    stages = partial(pair_table_stages, evaluation.rules, operations, is_met_without_grants(evaluation.rule_set), columns)
    has_namespace = columns[0] == "namespace"
    if evaluation.tables.is_small:
        one_part = PairOrder.one_part(has_namespace=has_namespace)
        return SortedTable(output.table, *_small(evaluation, partial(stages, one_part), with_names=True))
    shared = _share(evaluation)
    order = _order_pairs(output.counts, shared.value, evaluation.partitions, has_namespace=has_namespace)
    pack, merge = stages(order, shared)
    packed = _encode(evaluation, with_names=True).mapInArrow(pack, PACKED_PAIRS)
    return SortedTable(output.table, packed.repartitionById(order.parts, "part"), merge)


def _order_pairs(counts: DataFrame, directory: dict[str, Any], partitions: int, *, has_namespace: bool) -> PairOrder:
    """Return the order of the pairs. Collects one number for each user or namespace, which is less than the directory."""
    names = directory["namespace_names" if has_namespace else "user_names"]
    sums = counts.groupBy("name").agg(F.sum("pairs").alias("pairs")).toArrow()
    pairs = np.zeros(len(names), np.int64)
    pairs[pc.index_in(sums["name"], value_set=names).to_numpy()] = sums["pairs"].to_numpy()
    if has_namespace:
        return PairOrder.by_namespace(pairs, len(directory["user_ids"]), partitions)
    return PairOrder.by_user(pairs, partitions)


def _encode(evaluation: Evaluation, *, with_names: bool = False) -> DataFrame:
    return encode(evaluation, precompute_facts(evaluation, _share), with_names=with_names)


def _small(evaluation: Evaluation, stages: Stages, *, with_names: bool = False) -> tuple[DataFrame, BatchFunction]:
    """Return (the tables of the tenant in one partition, the function that evaluates them)."""
    sent = [getattr(evaluation.tables, name).select(F.lit(name).alias("table"), *columns)
            for name, columns in SENT_COLUMNS.items()]
    tables = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), sent).coalesce(1)
    return tables, evaluate_small_tenant(small_tenant_rules(evaluation), stages, with_names=with_names)


def _order(rule_set: RuleSet) -> tuple[int, ...]:
    """Return the position of each rule in the order of kinds and operations."""
    rules = rule_set.rules
    in_order = sorted(range(len(rules)), key=lambda number: (rules[number].kind, rules[number].operation))
    return tuple(in_order.index(number) for number in range(len(rules)))


def _columns(rule_set: RuleSet, output: ChangeCounts) -> Columns:
    shown: dict[str, str | tuple[str, ...]] = {
        "kind": tuple(rule.kind for rule in rule_set.rules), "operation": tuple(rule.operation for rule in rule_set.rules),
        output.gained: "gained"}
    return tuple((name, shown.get(name, name)) for name in output.table.column_names)


# The broadcasts of the analysis that this process runs.
_broadcasts: list[Broadcast[dict[str, object]]] = []


def _share(evaluation: Evaluation) -> Shared:
    """Broadcast the directory of the evaluation; `released_broadcasts` ends the broadcast."""
    spark = evaluation.tables.users.sparkSession
    broadcast = spark.sparkContext.broadcast(collect_directory(evaluation).to_dict())
    _broadcasts.append(broadcast)
    return broadcast


@contextmanager
def released_broadcasts() -> Iterator[None]:
    """Destroy the broadcasts of the block at its end; results of the engine cannot be read after that."""
    try:
        yield
    finally:
        while _broadcasts:
            _broadcasts.pop().destroy()
