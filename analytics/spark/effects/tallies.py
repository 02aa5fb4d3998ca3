"""Tallies: how many answers change for each user, operation and entity, without building the pairs of users
and entities.

Each partition counts the bits of its changed answers: by user as the number of bits in each word, and by
entity with counters that store each binary digit in a separate word. Only sums and the first rows in an order
leave Spark.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel, cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.batches import BatchFunction
from analytics.spark.engine import evaluate_partitions
from analytics.spark.engine.compiled import CompiledRules
from analytics.spark.engine.evaluate import RuleGroup, changed_words
from analytics.spark.engine.layout import WORD_BITS, Unit
from analytics.spark.engine.members import Directory, DirectoryBroadcast
from analytics.spark.engine.rows import NONE, Array, decode_batches
from analytics.spark.engine.rules import RuleSet
from analytics.spark.schemas import Tables

cloudpickle.register_pickle_by_value(sys.modules[__name__])

COUNTS = ("gained_for", "lost_for", "gained_beyond", "lost_beyond")
# A row has the counts of a user and a rule, or those of an entity. user: its rank.
TALLIES = ", ".join(["user int", "rule int", "entity string", *(f"{name} bigint" for name in COUNTS)])


@dataclass(frozen=True, slots=True)
class EffectFigures:
    """The figures of an effect. Counts have the order of COUNTS.

    people, entities: those with most changes beyond the purpose first, then those with most changes, then by
    name.
    people_count, entity_count: the numbers of all users and entities with changes. operations: by kind and
    operation.
    """

    totals: list[int]
    people: list[tuple[str, list[int]]]
    people_count: int
    entities: list[tuple[str, list[int]]]
    entity_count: int
    operations: dict[tuple[str, str], list[int]]


class Tallies:
    """The tallies of an effect: a context manager that keeps them in Spark until the block ends.

    tables: the marked tenant. names: of its users.
    """

    def __init__(self, tables: Tables, rule_set: RuleSet, names: list[str]):
        self._rules, self._names = rule_set.rules, sorted(names)
        intended = tuple(rule.is_intended for rule in rule_set.rules)
        self._rows = evaluate_partitions(tables, rule_set, partial(tally_stages, intended), TALLIES)
        sums = [F.sum(name).alias(name) for name in COUNTS]
        self._users = self._rows.where(F.col("entity").isNull()).groupBy("user").agg(*sums)
        self._operations = self._rows.where(F.col("entity").isNull()).groupBy("rule").agg(*sums)
        self._entities = self._rows.where(F.col("entity").isNotNull())

    def __enter__(self) -> "Tallies":
        self._rows.persist(StorageLevel.MEMORY_AND_DISK)
        return self

    def __exit__(self, *_) -> None:
        self._rows.unpersist()

    def figures(self, max_top: int) -> EffectFigures:
        """Return the figures. max_top: how many people and entities are listed at most."""
        operations: dict[tuple[str, str], list[int]] = {}
        for row in self._operations.collect():
            rule = self._rules[row["rule"]]
            counts = operations.setdefault((rule.kind, rule.operation), [0] * len(COUNTS))
            operations[rule.kind, rule.operation] = [
                count + row[name] for count, name in zip(counts, COUNTS, strict=True)
            ]
        totals = [sum(counts[number] for counts in operations.values()) for number in range(len(COUNTS))]
        people = [(self._names[int(rank)], counts) for rank, counts in _top(self._users, "user", max_top)]
        return EffectFigures(
            totals,
            people,
            self._users.count(),
            _top(self._entities, "entity", max_top),
            self._entities.count(),
            operations,
        )

    @property
    def pair_counts(self) -> DataFrame:
        """The number of changed answers of each user, as the engine needs it for a table of pairs: name and
        pairs.
        """
        names = self._rows.sparkSession.createDataFrame(
            pa.table(
                {
                    "user": pa.array(range(len(self._names)), pa.int32()),
                    "name": pa.array(self._names, pa.string()),
                }
            )
        )
        # as many rows as the directory has users
        return self._users.join(F.broadcast(names), on="user").select(
            "name", sum(F.col(name) for name in COUNTS).alias("pairs")
        )


def _top(rows: DataFrame, name: str, max_rows: int) -> list[tuple[str, list[int]]]:
    beyond = F.col("gained_beyond") + F.col("lost_beyond")
    top = rows.orderBy(beyond.desc(), (beyond + F.col("gained_for") + F.col("lost_for")).desc(), name).limit(
        max_rows
    )
    return [(row[name], [row[count] for count in COUNTS]) for row in top.collect()]


def tally_stages(
    intended: tuple[bool, ...], rules: CompiledRules, all_users: bool, broadcast: DirectoryBroadcast
) -> tuple[BatchFunction]:
    """Return the function that turns tenant rows with names into TALLIES. intended: by rule. all_users: see
    `changed_words`.
    """

    def tally(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        all_batches = list(batches)
        if not all_batches:
            return
        directory, rows = Directory.load(broadcast), decode_batches(all_batches)
        by_user, by_entity = UserTallies(directory.user_count), None
        for unit, users, group, after, bits in changed_words(rows, directory, rules, all_users=all_users):
            if by_entity is None or by_entity.unit is not unit:
                if by_entity is not None:
                    yield by_entity.batch(rows.names)
                by_entity = EntityTallies(unit)
            if bits.any():
                bits = np.ascontiguousarray(bits)
                by_user.add(unit, users, group, after, bits)
                by_entity.add(group, after, bits, intended)
        if by_entity is not None:
            yield by_entity.batch(rows.names)
        yield from by_user.batches(directory.user_ranks, intended)

    return (tally,)


class UserTallies:
    """The numbers of changed answers in one partition, by rule, answer and user."""

    def __init__(self, user_count: int):
        self._user_count = user_count
        self._counts: dict[tuple[int, bool], Array] = {}

    def add(self, unit: Unit, users: Array, group: RuleGroup, after: bool, bits: Array) -> None:
        """Add the set bits of a rule group. bits: see `changed_words`."""
        ends = unit.segment_end[group.segments] - unit.segment_begin[group.segments[0]]
        sums = np.zeros((len(bits), bits.shape[1] + 1), np.int64)
        np.cumsum(np.bitwise_count(bits), axis=1, dtype=np.int64, out=sums[:, 1:])
        of_segments = np.diff(sums[:, np.append(0, ends)], axis=1)
        for rule_by_segment in group.rules:
            for rule in np.unique(rule_by_segment[rule_by_segment != NONE]).tolist():
                counts = of_segments[:, rule_by_segment == rule].sum(axis=1)
                if counts.any():
                    self._counts.setdefault((rule, after), np.zeros(self._user_count, np.int64))[users] += (
                        counts
                    )

    def batches(self, user_ranks: Array, intended: tuple[bool, ...]) -> Iterator[pa.RecordBatch]:
        for (rule, after), counts in self._counts.items():
            users = np.flatnonzero(counts)
            table = np.zeros((len(COUNTS), len(users)), np.int64)
            table[_column(intended[rule], after)] = counts[users]
            rules = np.full(len(users), rule)
            yield _batch(
                table, user=pa.array(user_ranks[users], pa.int32()), rule=pa.array(rules, pa.int32())
            )


class EntityTallies:
    """The changed answers of one unit by entity."""

    def __init__(self, unit: Unit):
        self.unit = unit
        self._counts = np.zeros((len(COUNTS), len(unit.entity)), np.int64)

    def add(self, group: RuleGroup, after: bool, bits: Array, intended: tuple[bool, ...]) -> None:
        """Add the set bits of a rule group, once for each of its rules. bits: see `changed_words`."""
        unit, first_segment = self.unit, group.segments[0]
        first, end = np.searchsorted(unit.segment, [first_segment, group.segments[-1] + 1])
        first_position = unit.segment_begin[first_segment] * WORD_BITS
        counts = counts_by_position(bits)[unit.position[first:end] - first_position]
        for is_intended in (True, False):
            is_counted = (group.rules != NONE) & (np.array(intended)[group.rules] == is_intended)
            rule_count = is_counted.sum(axis=0)[unit.segment[first:end] - first_segment]
            self._counts[_column(is_intended, after), first:end] += counts * rule_count

    def batch(self, names: pa.Array) -> pa.RecordBatch:
        changed = np.flatnonzero(self._counts.any(axis=0))
        return _batch(self._counts[:, changed], entity=names.take(pa.array(self.unit.target_row[changed])))


def counts_by_position(bits: Array) -> Array:
    """Return in how many rows the bit at each position is set. bits: at least one row of words."""
    # by binary digit, the lowest first: a table with one bit for each row and position
    digits = [bits]
    while len(digits[0]) > 1:
        if len(digits[0]) % 2:
            digits = [np.concatenate([digit, np.zeros_like(digit[:1])]) for digit in digits]
        carry = np.zeros_like(digits[0][::2])
        sums = []
        for digit in digits:
            left, right = digit[::2], digit[1::2]
            differs = left ^ right
            sums.append(differs ^ carry)
            carry = left & right | differs & carry
        digits = [*sums, carry]
    return sum(
        np.unpackbits(np.ascontiguousarray(digit[0]).view(np.uint8), bitorder="little").astype(np.int64)
        << place
        for place, digit in enumerate(digits)
    )


def _column(is_intended: bool, after: bool) -> int:
    return (0 if is_intended else 2) + (0 if after else 1)


def _batch(counts: Array, **columns: pa.Array) -> pa.RecordBatch:
    """Return a batch of TALLIES. counts: one row for each of COUNTS."""
    types = {"user": pa.int32(), "rule": pa.int32(), "entity": pa.string()}
    size = counts.shape[1]
    arrays = {name: columns.get(name, pa.nulls(size, data_type)) for name, data_type in types.items()}
    return pa.record_batch(arrays | {name: pa.array(counts[number]) for number, name in enumerate(COUNTS)})
