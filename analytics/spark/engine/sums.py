"""Count the answers that change, and add up the counts by key.

A key combines the numbers of a row of the result, such as its user, rule and namespace, into one number
(`Key`). The order of the keys is the order of the table. The keys of a result are divided into parts by
ranges. Every partition first adds up its counts over many units and packs the counts of each part into one
row; then each part is merged alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from analytics.spark.batches import (
    TABLE_BATCH_ROWS,
    BatchFunction,
    packed_column,
    rows_by_part,
    text_array,
    unpack_numbers,
)
from analytics.spark.engine.bits import ChangedBits, changed_bits
from analytics.spark.engine.compiled import CompiledRules
from analytics.spark.engine.directory import Directory, DirectoryBroadcast
from analytics.spark.engine.held import HeldRules, held_counts, split_rules
from analytics.spark.engine.rows import NONE, Array, decode_batches
from analytics.spark.engine.units import Unit, split_into_units
from entities.frozen import frozen

# The three binary columns contain one number for each count, see batches.packed_column. keys: relative to the
# first key of the part.
PARTIAL_SUMS = "part int, keys binary, gained binary, lost binary"
# The users without an answer that changes have no row.
COUNTS = "subtree bigint, rule int, user_id bigint, gained bigint"
# A partition sends its counts when it has more than these.
MAX_BUFFERED_COUNTS = 2_000_000
# (keys, gained, lost)
Sums = tuple[Array, Array, Array]


@frozen
class Key:
    """A number that combines several numbers. names: the most significant first. sizes: above each number."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of possible keys."""
        return int(np.prod(self.sizes, dtype=np.int64))

    def encode(self, **numbers: Any) -> Array:
        key: Any = 0
        for name, size in zip(self.names, self.sizes, strict=True):
            key = key * size + numbers[name]
        return key

    def decode(self, keys: Array) -> dict[str, Array]:
        numbers = {}
        for name, size in zip(self.names[:0:-1], self.sizes[:0:-1], strict=True):
            # np.divmod divides twice, and is several times slower
            rest = keys // size
            numbers[name], keys = keys - rest * size, rest
        return numbers | {self.names[0]: keys}


@dataclass(frozen=True, slots=True, eq=False)
class SumOrder:
    """The keys of a result, and its parts.

    names: those of Key, some of user, rule and namespace.
    rules: for each rule, its number in the key. is_counted: for each rule, whether its answers add to the
    sums, or only make a row. part_count: the number of parts.
    """

    names: tuple[str, ...]
    rules: tuple[int, ...]
    is_counted: tuple[bool, ...]
    part_count: int

    def key(self, directory: Directory) -> Key:
        sizes = {
            "user": directory.user_count,
            "rule": len(self.rules),
            "namespace": len(directory.namespace_ids),
        }
        return Key(self.names, tuple(max(1, sizes[name]) for name in self.names))

    def first_keys(self, key: Key) -> Array:
        return np.arange(self.part_count) * -(-key.count // self.part_count)


def pack_sums(rules: CompiledRules, order: SumOrder, broadcast: DirectoryBroadcast) -> BatchFunction:
    """Return a function that turns the rows of a tenant into PARTIAL_SUMS."""
    split = split_rules(rules)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory, buffered, size = Directory.load(broadcast), [], 0
        key = order.key(directory)
        first_keys = order.first_keys(key)
        for unit in read_units(batches, directory):
            namespaces = directory.namespace_ranks(unit.segment_subtree)
            for rule, users, segments, gained, lost in count_changes(
                unit, *split, directory, "namespace" in order.names
            ):
                keys = key.encode(
                    user=directory.user_ranks[users],
                    rule=order.rules[rule],
                    namespace=namespaces[segments],
                )
                is_counted = order.is_counted[rule]
                buffered.append((keys, gained * is_counted, lost * is_counted))
                size += len(users)
                if size > MAX_BUFFERED_COUNTS:
                    yield from _pack(buffered, first_keys)
                    buffered, size = [], 0
        if size:
            yield from _pack(buffered, first_keys)

    return pack


def _pack(buffered: list[Sums], first_keys: Array) -> Iterator[pa.RecordBatch]:
    """Yield a row of PARTIAL_SUMS for each part with counts."""
    sums = add_up(buffered)
    bounds = np.searchsorted(sums[0], np.append(first_keys, np.iinfo(np.int64).max))
    for part in np.flatnonzero(np.diff(bounds)).tolist():
        keys, gained, lost = (column[bounds[part] : bounds[part + 1]] for column in sums)
        yield pa.record_batch(
            {
                "part": pa.array([part], pa.int32()),
                "keys": packed_column(keys - first_keys[part]),
                "gained": packed_column(gained),
                "lost": packed_column(lost),
            }
        )


def merge_sums(
    order: SumOrder,
    build_rows: Callable[[Directory, dict[str, Array]], pa.RecordBatch],
    broadcast: DirectoryBroadcast,
) -> BatchFunction:
    """Return a function that turns the PARTIAL_SUMS of whole parts into rows, in the order of the keys.

    build_rows: builds some rows from the numbers of their keys, `gained` and `lost`.
    """

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.load(broadcast)
        key = order.key(directory)
        first_keys = order.first_keys(key)
        parts = rows_by_part(batches)
        for part in sorted(parts):
            columns = [
                [unpack_numbers(row[name]).astype(np.int64) for name in ("keys", "gained", "lost")]
                for row in parts.pop(part)
            ]
            sums = add_up([(keys, gained, lost) for keys, gained, lost in columns])
            for first in range(0, len(sums[0]), TABLE_BATCH_ROWS):
                keys, gained, lost = (column[first : first + TABLE_BATCH_ROWS] for column in sums)
                numbers = key.decode(keys + first_keys[part])
                yield build_rows(directory, numbers | {"gained": gained, "lost": lost})

    return merge


def sum_rows(
    columns: dict[str, str | list[str]], directory: Directory, numbers: dict[str, Array]
) -> pa.RecordBatch:
    """Return the rows of a table of counts.

    columns: the content of each column: `user`, `namespace`, `gained`, `lost`, or a text for each rule.
    """
    texts = {"user": directory.user_names, "namespace": directory.namespace_names}
    arrays = {}
    for name, content in columns.items():
        if isinstance(content, list):
            arrays[name] = text_array(numbers["rule"], pa.array(content, pa.string()))
        elif content in texts:
            arrays[name] = text_array(numbers[content], texts[content])
        else:
            arrays[name] = pa.array(numbers[content])
    return pa.record_batch(arrays)


def readiness_rows(directory: Directory, numbers: dict[str, Array]) -> pa.RecordBatch:
    """Return rows of tables.READINESS."""
    required, held = directory.required[numbers["namespace"]], numbers["gained"]
    return pa.record_batch(
        {
            "namespace": text_array(numbers["namespace"], directory.namespace_names),
            "user": text_array(numbers["user"], directory.user_names),
            "required": required,
            "held": held,
            "missing": required - held,
            "ready": required == held,
        }
    )


def count_by_subtree(rules: CompiledRules, broadcast: DirectoryBroadcast) -> BatchFunction:
    """Return a function that turns the rows of a tenant into COUNTS."""
    split = split_rules(rules)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.load(broadcast)
        for unit in read_units(batches, directory):
            for rule, users, segments, gained, _ in count_changes(unit, *split, directory, by_segment=True):
                yield pa.record_batch(
                    {
                        "subtree": unit.segment_subtree[segments],
                        "rule": np.full(len(users), rule, np.int32),
                        "user_id": directory.user_ids[users],
                        "gained": gained,
                    }
                )

    return count


def read_units(batches: Iterator[pa.RecordBatch], directory: Directory) -> Iterator[Unit]:
    """Yield the units of a partition; nothing if it is empty."""
    if all_batches := list(batches):
        yield from split_into_units(decode_batches(all_batches)[0], directory)


def count_changes(
    unit: Unit, held: list[HeldRules], others: CompiledRules, directory: Directory, by_segment: bool
) -> Iterator[tuple[int, Array, Array, Array, Array]]:
    """Yield (rule, user indexes, segments, gained, lost): the counts that are not zero.

    held, others: from `split_rules`.
    by_segment: otherwise the counts of all segments are added up, and the first stands for them.
    """
    for rules in held:
        for rule, users, segments, gained in held_counts(unit, rules, directory, by_segment):
            yield rule, users, segments, gained, np.zeros_like(gained)
    if any(rule.kind != NONE for rule in others.rules):
        for changes in changed_bits(unit, others, directory):
            yield changes.rule, *_count_bits(unit, changes, by_segment)


def _count_bits(unit: Unit, changes: ChangedBits, by_segment: bool) -> tuple[Array, Array, Array, Array]:
    """Return (user indexes, segments, gained, lost), like `count_changes`."""
    first, end = changes.segments
    begins = unit.segment_begin[first : end if by_segment else first + 1] - unit.segment_begin[first]
    gained, lost = (
        np.zeros((len(changes.users), len(begins)), np.int64)
        if bits is None
        else np.add.reduceat(np.bitwise_count(bits), begins, axis=1, dtype=np.int64)
        for bits in (changes.gained, changes.lost)
    )
    rows, segments = np.nonzero(gained | lost)
    return changes.users[rows], first + segments, gained[rows, segments], lost[rows, segments]


def add_up(counts: list[Sums]) -> Sums:
    """Return the sums of counts with equal keys: each key once, ascending."""
    keys, gained, lost = (np.concatenate(column) for column in zip(*counts, strict=True))
    order = np.argsort(keys)
    keys = keys[order]
    begins = np.flatnonzero(np.append(True, np.diff(keys) != 0)) if len(keys) else order
    return keys[begins], np.add.reduceat(gained[order], begins), np.add.reduceat(lost[order], begins)
