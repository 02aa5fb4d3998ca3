"""Changed pairs: each user with each entity for which the answer changes, as a sorted detail table.

A detail table can have hundreds of millions of rows. Two things keep its cost low:

- The number of pairs of each user (or namespace) is known before the pairs are found, because the first table
  of an analysis contains these counts. So the pairs can be divided into parts of the table by ranges of their
  sort key, and Spark does not run the workers an additional time to sample the keys.
- A pair is sent as two or three small numbers. Names of users and namespaces are looked up in the directory
  when the rows are written. The directory has no addresses: each address is sent once to each part that needs
  it.

The sort key of a pair is the rank of its user, or a number for its namespace and user: see `PairOrder`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.spark.batches import (
    BATCH_ROWS,
    TABLE_BATCH_ROWS,
    BatchFunction,
    packed_column,
    rows_by_part,
    table_bytes,
    table_of,
    text_array,
    unpack_numbers,
)
from analytics.spark.engine.bits import ChangedBits, changed_bits
from analytics.spark.engine.compiled import CompiledRules
from analytics.spark.engine.directory import Directory, DirectoryBroadcast
from analytics.spark.engine.rows import Array, decode_batches
from analytics.spark.engine.sums import Key
from analytics.spark.engine.units import WORD_BITS, Unit, split_into_units

# One row for each part and answer. sort_keys: relative to the first sort key of the part. entities: indexes
# into `names`. rules: rule numbers. Each of these three columns contains one number for each pair (see
# batches.packed_column).
# names: addresses, as an Arrow IPC stream.
PACKED_PAIRS = "part int, after boolean, sort_keys binary, entities binary, rules binary, names binary"
# The columns of a table that contain the operation of the rule. That of a rule about a privilege is the privilege.
OPERATION_COLUMNS = ("operation", "privilege")
# A part is sorted in memory, which takes about 40 bytes for each pair.
PAIRS_PER_PART = 4_000_000
# A part with fewer pairs is not worth its overhead.
MIN_PAIRS_PER_PART = 100_000
# A worker packs its pairs when it has this many.
MAX_BUFFERED_PAIRS = 2_000_000


@dataclass(frozen=True, eq=False)
class PairOrder:
    """The sort keys of pairs, divided into the parts of a table.

    names: those of Key, `user` or `namespace` and `user`.
    first_keys: the first sort key of each part, ascending from 0.
    """

    names: tuple[str, ...]
    first_keys: Array

    @staticmethod
    def split(names: tuple[str, ...], pair_counts: Array, width: int, partitions: int) -> "PairOrder":
        """Divide the keys into parts with about the same number of pairs: at least one for each partition,
        unless a part would then have fewer than MIN_PAIRS_PER_PART pairs.

        pair_counts: each is the total of `width` consecutive sort keys, starting at 0. It is divided equally
        among these keys, so the users of a large namespace can be in several parts.
        """
        totals = np.concatenate([[0], np.cumsum(pair_counts)])
        total = int(totals[-1])
        count = max(1, -(-total // PAIRS_PER_PART), min(partitions, total // MIN_PAIRS_PER_PART))
        targets = total * np.arange(1, count) / count
        cuts = np.interp(targets, totals, np.arange(len(totals)) * width).astype(np.int64)
        return PairOrder(names, np.unique(np.append(0, cuts)))

    @property
    def part_count(self) -> int:
        return len(self.first_keys)

    def key(self, directory: Directory) -> Key:
        sizes = {"user": max(1, directory.user_count), "namespace": len(directory.namespace_ids)}
        return Key(self.names, tuple(sizes[name] for name in self.names))


def pack_pairs(rules: CompiledRules, order: PairOrder, broadcast: DirectoryBroadcast) -> BatchFunction:
    """Return a function that turns the rows of a tenant with names into PACKED_PAIRS."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        all_batches = list(batches)
        if not all_batches:
            return
        directory, (rows, names) = Directory.load(broadcast), decode_batches(all_batches)
        key = order.key(directory)
        # (sort keys, indexes of names, rule numbers) of the pairs with each answer
        buffered: dict[bool, list[tuple[Array, Array, Array]]] = {True: [], False: []}
        size = 0
        for unit in split_into_units(rows, directory):
            namespaces = directory.namespace_ranks(unit.segment_subtree)
            for changes in changed_bits(unit, rules, directory):
                for after, users, segments, targets in _pairs_of_bits(unit, changes):
                    sort_keys = key.encode(user=directory.user_ranks[users], namespace=namespaces[segments])
                    rule_numbers = np.full(len(users), changes.rule, np.int32)
                    buffered[after].append((sort_keys, unit.target_row[targets], rule_numbers))
                    size += len(users)
                if size > MAX_BUFFERED_PAIRS:
                    yield from _pack(buffered, order, names)
                    buffered, size = {True: [], False: []}, 0
        yield from _pack(buffered, order, names)

    return pack


def _pairs_of_bits(unit: Unit, changes: ChangedBits) -> Iterator[tuple[bool, Array, Array, Array]]:
    """Yield (the answer after, user indexes, segments, targets of the unit) for the set bits."""
    first_word = int(unit.segment_begin[changes.segments[0]])
    for after, bits in ((True, changes.gained), (False, changes.lost)):
        if bits is None:
            continue
        # few enough users to keep the batches small
        step = max(1, BATCH_ROWS // (bits.shape[1] * WORD_BITS // 8))
        for first in range(0, len(bits), step):
            words = np.ascontiguousarray(bits[first : first + step])
            rows, bit = np.nonzero(np.unpackbits(words.view(np.uint8), axis=1, bitorder="little"))
            positions = bit + first_word * WORD_BITS
            if len(rows):
                yield (
                    after,
                    changes.users[first + rows],
                    np.searchsorted(unit.segment_end, positions // WORD_BITS, side="right"),
                    np.searchsorted(unit.position, positions),
                )


def _pack(
    buffered: dict[bool, list[tuple[Array, Array, Array]]], order: PairOrder, names: pa.StringArray
) -> Iterator[pa.RecordBatch]:
    """Yield a row of PACKED_PAIRS for each part and answer."""
    for after, chunks in buffered.items():
        if not chunks:
            continue
        sort_keys, entities, rules = (np.concatenate(column) for column in zip(*chunks, strict=True))
        part_by_pair = np.searchsorted(order.first_keys, sort_keys, side="right") - 1
        by_part = np.argsort(part_by_pair)
        parts, begins = np.unique(part_by_pair[by_part], return_index=True)
        for part, pairs in zip(parts.tolist(), np.split(by_part, begins[1:]), strict=True):
            used_names, name_indexes = np.unique(entities[pairs], return_inverse=True)
            yield pa.record_batch(
                {
                    "part": pa.array([part], pa.int32()),
                    "after": [after],
                    "sort_keys": packed_column(sort_keys[pairs] - order.first_keys[part]),
                    "entities": packed_column(name_indexes),
                    "rules": packed_column(rules[pairs]),
                    "names": [table_bytes(pa.table({"name": names.take(pa.array(used_names))}))],
                }
            )


def merge_pairs(
    order: PairOrder, columns: Sequence[str], operations: Sequence[str], broadcast: DirectoryBroadcast
) -> BatchFunction:
    """Return a function that turns PACKED_PAIRS of whole parts into `columns`, in the order of the table's
    key.

    columns: some of namespace, user, entity, OPERATION_COLUMNS, before and after. operations: by rule number.
    """
    if not set(columns).intersection(OPERATION_COLUMNS):
        operations = [""] * len(operations)

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = rows_by_part(batches)
        directory = Directory.load(broadcast)
        for part in sorted(parts):
            yield from _sorted_rows(parts.pop(part), part, order, columns, operations, directory)

    return merge


def _sorted_rows(
    packed_rows: list[dict[str, Any]],
    part: int,
    order: PairOrder,
    columns: Sequence[str],
    operations: Sequence[str],
    directory: Directory,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one part. Each pair becomes one number, so sorting the numbers sorts the pairs."""
    names_by_row = [table_of(row.pop("names"))["name"] for row in packed_rows]
    entities, entity_ranks = _rank_entities(names_by_row)
    known_operations = sorted(set(operations))
    operation_ranks = np.array([known_operations.index(operation) for operation in operations], np.int64)
    names, sizes = ("sort_key", "entity", "operation", "after"), (1, len(entities), len(known_operations), 2)
    pair = Key(names, sizes)
    chunks, first = [], 0
    for row, row_names in zip(packed_rows, names_by_row, strict=True):
        chunks.append(
            pair.encode(
                sort_key=unpack_numbers(row["sort_keys"]).astype(np.int64),
                entity=entity_ranks[first : first + len(row_names)][unpack_numbers(row["entities"])],
                operation=operation_ranks[unpack_numbers(row["rules"])],
                after=int(row["after"]),
            )
        )
        first += len(row_names)
    pairs = np.concatenate(chunks)
    pairs.sort()
    texts = {
        "user": directory.user_names,
        "namespace": directory.namespace_names,
        "entity": entities,
        **dict.fromkeys(OPERATION_COLUMNS, pa.array(known_operations, pa.string())),
    }
    for begin in range(0, len(pairs), TABLE_BATCH_ROWS):
        numbers = pair.decode(pairs[begin : begin + TABLE_BATCH_ROWS])
        numbers |= order.key(directory).decode(numbers["sort_key"] + order.first_keys[part])
        numbers |= dict.fromkeys(OPERATION_COLUMNS, numbers["operation"])
        flags = {"before": numbers["after"] == 0, "after": numbers["after"] == 1}
        yield pa.record_batch(
            {
                name: pa.array(flags[name]) if name in flags else text_array(numbers[name], texts[name])
                for name in columns
            }
        )


def _rank_entities(names_by_row: list[pa.ChunkedArray]) -> tuple[pa.Array, Array]:
    """Return (the distinct names, sorted; the rank of each name, one row after the other)."""
    names = pa.chunked_array(
        [chunk for names in names_by_row for chunk in names.chunks], pa.string()
    ).combine_chunks()
    encoded = names.dictionary_encode()
    by_name = pc.sort_indices(encoded.dictionary)
    rank_by_code = np.argsort(by_name.to_numpy())
    return encoded.dictionary.take(by_name), rank_by_code[encoded.indices.to_numpy()]
