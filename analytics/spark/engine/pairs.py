"""Changed pairs: each user with each entity for which the answer changes, as a sorted detail table.

A detail table can have hundreds of millions of rows. Two things keep its cost low:

- The number of pairs of each user (or namespace) is known before the pairs are found, because the first table
  of an analysis contains these counts. So the pairs can be divided into parts of the table by ranges of their
  sort key, and Spark does not run
  the workers an additional time to sample the keys.
- A pair is sent as two or three small numbers. Names of users and namespaces are looked up in the directory
  when the rows are written. The directory has no addresses: each address is sent once to each part that needs
  it.

The sort key of a pair orders pairs by user, or by namespace and user: see `PairOrder`.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from analytics.spark.batches import (
    BATCH_ROWS,
    TABLE_BATCH_ROWS,
    BatchFunction,
    group_rows,
    packed_column,
    text_array,
    unpack_numbers,
)
from analytics.spark.engine.compiled import CompiledRules
from analytics.spark.engine.evaluate import RuleGroup, changed_words
from analytics.spark.engine.layout import WORD_BITS, Unit
from analytics.spark.engine.members import Directory, DirectoryBroadcast
from analytics.spark.engine.rows import NONE, Array, TenantRows, decode_batches

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# One row for each part and answer. sort_keys: relative to the first sort key of the part. entities: indexes
# into `names`.
# rules: rule numbers. Each of these three columns contains one number for each pair (see
# batches.packed_column).
# names: addresses, as an Arrow IPC stream.
PACKED_PAIRS = "part int, after boolean, sort_keys binary, entities binary, rules binary, names binary"
# A part is sorted in memory, which takes about 40 bytes for each pair.
PAIRS_PER_PART = 4_000_000
# A part with fewer pairs is not worth its overhead.
MIN_PAIRS_PER_PART = 100_000
# A worker packs its pairs when it has this many.
MAX_BUFFERED_PAIRS = 2_000_000


def changed_pairs(
    rows: TenantRows, directory: Directory, rules: CompiledRules, *, all_users: bool
) -> Iterator[tuple[Unit, Array, Array, Array, bool]]:
    """Yield some pairs at a time as (unit, user indexes, targets of the unit, rule numbers, the answer
    after).

    all_users: see evaluate.changed_words.
    """
    for unit, users, group, after, bits in changed_words(rows, directory, rules, all_users=all_users):
        for pairs in _pairs_of_bits(unit, users, group, bits):
            yield unit, *pairs, after


def _pairs_of_bits(
    unit: Unit, users: Array, group: RuleGroup, bits: Array
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield (user indexes, targets of the unit, rule numbers) for the set bits.

    bits: a row for each user, with the words of the rule group.
    """
    first_word = int(unit.segment_begin[group.segments[0]])
    # Few enough users to keep the batches small.
    step = max(1, BATCH_ROWS // max(1, bits.shape[1] * WORD_BITS // 8))
    for first in range(0, len(bits), step):
        words = np.ascontiguousarray(bits[first : first + step])
        row, bit = np.nonzero(np.unpackbits(words.view(np.uint8), axis=1, bitorder="little"))
        target = np.searchsorted(unit.position, bit + first_word * WORD_BITS)
        segment = (
            np.searchsorted(unit.segment_begin[group.segments], bit // WORD_BITS + first_word, side="right")
            - 1
        )
        for rule_by_segment in group.rules:
            has_rule = np.nonzero(rule_by_segment[segment] != NONE)[0]
            if len(has_rule):
                yield users[first + row[has_rule]], target[has_rule], rule_by_segment[segment[has_rule]]


@dataclass(frozen=True, eq=False)
class PairOrder:
    """The sort keys of pairs, divided into the parts of a table.

    The sort key of a pair is the rank of its user. If the key of the table begins with the namespace, it is
    the rank of the namespace times the number of users, plus the rank of the user.
    first_keys: the first sort key of each part, ascending from 0.
    """

    first_keys: Array
    has_namespace: bool

    @staticmethod
    def one_part(*, has_namespace: bool) -> "PairOrder":
        return PairOrder(np.zeros(1, np.int64), has_namespace)

    @staticmethod
    def by_user(pair_counts: Array, partitions: int) -> "PairOrder":
        """Split the users into parts with about the same number of pairs. pair_counts: by user rank."""
        return PairOrder(
            split_evenly(pair_counts, 1, pair_part_count(pair_counts, partitions)), has_namespace=False
        )

    @staticmethod
    def by_namespace(pair_counts: Array, user_count: int, partitions: int) -> "PairOrder":
        """Split the namespaces into parts with about the same number of pairs. A large namespace is split by
        user.

        pair_counts: by namespace rank.
        """
        first_keys = split_evenly(pair_counts, max(1, user_count), pair_part_count(pair_counts, partitions))
        return PairOrder(first_keys, has_namespace=True)

    @property
    def part_count(self) -> int:
        return len(self.first_keys)


def pair_part_count(pair_counts: Array, partitions: int) -> int:
    """Return the number of parts for sorting these pairs.

    Use at least one part for each partition, unless a part would then have fewer than MIN_PAIRS_PER_PART
    pairs.
    """
    total = int(pair_counts.sum())
    return max(1, -(-total // PAIRS_PER_PART), min(partitions, total // MIN_PAIRS_PER_PART))


def split_evenly(weights: Array, width: int, range_count: int) -> Array:
    """Return the first numbers of at most `range_count` ranges with about the same weight.

    weights: each is the total weight of `width` consecutive numbers, starting at 0. It is divided equally
    among these numbers.
    """
    totals = np.concatenate([[0], np.cumsum(weights)]).astype(np.float64)
    targets = totals[-1] * np.arange(1, range_count) / range_count
    cuts = np.interp(targets, totals, np.arange(len(totals)) * width).astype(np.int64)
    return np.unique(np.append(0, cuts))


def pair_table_stages(
    rules: CompiledRules,
    operations: tuple[str, ...],
    all_users: bool,
    columns: tuple[str, ...],
    order: PairOrder,
    broadcast: DirectoryBroadcast,
) -> tuple[BatchFunction, BatchFunction]:
    """Return two functions.

    The first packs tenant rows with names into PACKED_PAIRS; the second unpacks these into `columns`.
    """
    return (
        pack_pairs(rules, order, broadcast, all_users=all_users),
        merge_pairs(order, columns, operations, broadcast),
    )


def pack_pairs(
    rules: CompiledRules, order: PairOrder, broadcast: DirectoryBroadcast, *, all_users: bool
) -> BatchFunction:
    """Return a function that turns tenant rows with names into PACKED_PAIRS. all_users: see changed_pairs."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        all_batches = list(batches)
        if not all_batches:
            return
        directory, rows, packer = Directory.load(broadcast), decode_batches(all_batches), PairPacker(order)
        for unit, users, targets, rule_numbers, after in changed_pairs(
            rows, directory, rules, all_users=all_users
        ):
            sort_keys = directory.user_ranks[users]
            if order.has_namespace:
                sort_keys = (
                    sort_keys + unit.segment_namespace_rank[unit.segment[targets]] * directory.user_count
                )
            packer.add(sort_keys, unit.target_row[targets], rule_numbers, after)
            if packer.is_full:
                yield from packer.flush(rows.names)
        yield from packer.flush(rows.names)

    return pack


@dataclass(eq=False)
class PairPacker:
    """A buffer that collects pairs and packs them by part."""

    order: PairOrder
    _buffered: dict[bool, list[tuple[Array, Array, Array]]] = field(
        default_factory=lambda: {True: [], False: []}
    )
    _count: int = 0

    def add(self, sort_keys: Array, entities: Array, rules: Array, after: bool) -> None:
        """Add pairs with the same answer to the buffer. entities: indexes into the names of the next `flush`."""
        self._buffered[after].append((sort_keys, entities, rules))
        self._count += len(sort_keys)

    @property
    def is_full(self) -> bool:
        return self._count >= MAX_BUFFERED_PAIRS

    def flush(self, names: pa.StringArray) -> Iterator[pa.RecordBatch]:
        """Pack the pairs, one row of PACKED_PAIRS for each part and answer, and clear the buffer."""
        for after, chunks in self._buffered.items():
            if chunks:
                yield from self._pack(after, chunks, names)
        self._buffered, self._count = {True: [], False: []}, 0

    def _pack(
        self, after: bool, chunks: list[tuple[Array, Array, Array]], names: pa.StringArray
    ) -> Iterator[pa.RecordBatch]:
        first_keys = self.order.first_keys
        sort_keys, entities, rules = (np.concatenate(column) for column in zip(*chunks, strict=True))
        # numpy sorts small integer types by radix.
        part_by_pair = (np.searchsorted(first_keys, sort_keys, side="right") - 1).astype(
            np.min_scalar_type(len(first_keys))
        )
        by_part = np.argsort(part_by_pair, kind="stable")
        ends = np.cumsum(np.bincount(part_by_pair, minlength=len(first_keys)))
        for part in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
            pairs = by_part[ends[part - 1] if part else 0 : ends[part]]
            name_indexes, used_names = _renumber(entities[pairs], len(names))
            yield pa.record_batch(
                {
                    "part": pa.array([part], pa.int32()),
                    "after": [after],
                    "sort_keys": packed_column(sort_keys[pairs] - first_keys[part]),
                    "entities": packed_column(name_indexes),
                    "rules": packed_column(rules[pairs]),
                    "names": _packed_names(names.take(pa.array(used_names))),
                }
            )


def _renumber(indexes: Array, count: int) -> tuple[Array, Array]:
    """Return (positions, used): the used indexes, ascending and each once, and the position of each index
    among them.

    count: the number of possible indexes.
    """
    is_used = np.zeros(count, bool)
    is_used[indexes] = True
    position_by_index = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
    return position_by_index[indexes], np.flatnonzero(is_used)


def _packed_names(names: pa.StringArray) -> pa.Array:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"name": names})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.array([sink.getvalue().to_pybytes()], pa.binary())


def _unpack_names(packed: bytes) -> pa.ChunkedArray:
    with pa.ipc.open_stream(packed) as reader:
        return reader.read_all()["name"]


def merge_pairs(
    order: PairOrder,
    columns: Sequence[str],
    operations: Sequence[str],
    broadcast: DirectoryBroadcast,
) -> BatchFunction:
    """Return a function that turns PACKED_PAIRS of whole parts into `columns`, in the order of the table's
    key.

    columns: some of namespace, user, entity, operation, before and after. operations: by rule number.
    """

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows_by_part = group_rows(batches, "part")
        if not rows_by_part:
            return
        directory = Directory.load(broadcast)
        for part in sorted(rows_by_part):
            names = operations if "operation" in columns else [""] * len(operations)
            pairs = SortedPairs(rows_by_part.pop(part), names)
            yield from pairs.batches(columns, int(order.first_keys[part]), directory)

    return merge


class SortedPairs:
    """The pairs of one part. Each pair is one number, so sorting the numbers sorts the pairs.

    The number combines the sort key of the pair, the rank of its entity by address, the rank of its operation
    by name, and its answer.
    """

    def __init__(self, rows: list[dict[str, Any]], operations: Sequence[str]):
        """rows: PACKED_PAIRS. operations: by rule number; see merge_pairs."""
        self.operations = sorted(set(operations)) or [""]
        operation_rank_by_rule = np.array(
            [self.operations.index(operation) for operation in operations], np.int64
        )
        names_by_row = [_unpack_names(row.pop("names")) for row in rows]
        entity_ranks = self._rank_entities(names_by_row)
        chunks, first = [], 0
        for row, names in zip(rows, names_by_row, strict=True):
            numbers = unpack_numbers(row["sort_keys"]).astype(np.int64)
            numbers *= len(self.entities)
            numbers += entity_ranks[first : first + len(names)][unpack_numbers(row["entities"])]
            numbers *= len(self.operations)
            if len(self.operations) > 1:
                numbers += operation_rank_by_rule[unpack_numbers(row["rules"])]
            numbers *= 2
            numbers += row["after"]
            chunks.append(numbers)
            first += len(names)
        self.numbers = np.concatenate(chunks)
        self.numbers.sort()

    def _rank_entities(self, names_by_row: list[pa.ChunkedArray]) -> Array:
        """Set `entities` to the distinct names, sorted.

        Return the rank of each name, one row after the other.
        """
        names = pa.chunked_array(
            [chunk for names in names_by_row for chunk in names.chunks], pa.string()
        ).combine_chunks()
        encoded = names.dictionary_encode()
        by_name = pc.sort_indices(encoded.dictionary)
        self.entities = encoded.dictionary.take(by_name)
        rank_by_code = np.empty(len(by_name), np.int64)
        rank_by_code[by_name.to_numpy()] = np.arange(len(by_name))
        return rank_by_code[encoded.indices.to_numpy()]

    def batches(
        self, columns: Sequence[str], first_key: int, directory: Directory
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the table. first_key: the first sort key of the part, to which the stored keys
        are relative.
        """
        operations = pa.array(self.operations, pa.string())
        for first in range(0, len(self.numbers), TABLE_BATCH_ROWS):
            rest, is_after = np.divmod(self.numbers[first : first + TABLE_BATCH_ROWS], 2)
            rest, operation_rank = np.divmod(rest, len(self.operations))
            sort_key, entity_rank = np.divmod(rest, len(self.entities))
            namespace_rank, user_rank = np.divmod(sort_key + first_key, max(1, directory.user_count))
            texts = {
                "namespace": (namespace_rank, directory.namespace_names),
                "user": (user_rank, directory.user_names),
                "entity": (entity_rank, self.entities),
                "operation": (operation_rank, operations),
            }
            flags = {"before": is_after == 0, "after": is_after == 1}
            yield pa.record_batch(
                {
                    name: pa.array(flags[name]) if name in flags else text_array(*texts[name])
                    for name in columns
                }
            )
