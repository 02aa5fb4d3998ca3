"""Changed pairs: each user with each entity whose answer changes, as they are found or sorted as a detail table.

A detail table can have hundreds of millions of rows. Two things keep that cheap:

- The number of pairs of each user (or namespace) is known before the pairs are found: an analysis counts them in its first table.
  So the ranges of the key that make up the parts of the table are known too, and Spark does not run the workers once only to
  sample the ranges.
- A pair travels as two or three small numbers. Names are looked up where the rows are written. The directory has no addresses:
  each is sent once to each part that needs it.

The position of a pair orders pairs by user, or by namespace and user: see `PairOrder`.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from analytics.spark.batches import BATCH_ROWS, BatchFunction
from analytics.spark.engine.compiled import CompiledRules
from analytics.spark.engine.evaluate import RuleGroup, changed_bits, chunk_users, group_rules
from analytics.spark.engine.facts import FactBits, find_entries
from analytics.spark.engine.layout import WORD_BITS, Unit, split_into_units
from analytics.spark.engine.members import Directory, Shared
from analytics.spark.engine.rows import NONE, Array, TenantRows, decode

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# Pairs that are not sorted, for a caller that reads them as they come.
PAIRS = "user string, entity string, operation string, after boolean"
# One row for each part and answer. positions: relative to the first of the part. entities: indexes into `names`.
# rules: rule numbers. All three as in `_pack_numbers`. names: addresses, as an Arrow IPC stream.
PACKED_PAIRS = "part int, after boolean, positions binary, entities binary, rules binary, names binary"
# A part is sorted in memory, which takes about 40 bytes for each pair.
PAIRS_PER_PART = 4_000_000
# A part with fewer pairs is not worth its overhead.
MIN_PAIRS_PER_PART = 100_000
# A worker packs the pairs that it has found when there are so many.
WAITING_PAIRS = 2_000_000
# Rows in a batch of a table.
TABLE_ROWS = 1 << 20


def pair_stages(rules: CompiledRules, operations: tuple[str, ...], each_user: bool, shared: Shared) -> tuple[BatchFunction]:
    return (find_pairs(rules, operations, shared, each_user=each_user),)


def find_pairs(rules: CompiledRules, operations: tuple[str, ...], shared: Shared, *, each_user: bool) -> BatchFunction:
    """Return a function from tenant rows with names to PAIRS. operations: by rule. each_user: as in each_pair."""
    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = list(batches)
        if not received:
            return
        directory, rows = Directory.load(shared), decode(received)
        if rows.names is None:
            raise ValueError("pairs need tenant rows with names")
        for unit, users, targets, rule, after in each_pair(rows, directory, rules, each_user=each_user):
            yield pa.record_batch({
                "user": directory.user_names.take(pa.array(directory.user_places[users])),
                "entity": rows.names.take(pa.array(unit.target_row[targets])),
                "operation": pa.array(operations, pa.string()).take(pa.array(rule)),
                "after": np.full(len(users), after)})

    return find


def each_pair(rows: TenantRows, directory: Directory, rules: CompiledRules, *,
              each_user: bool) -> Iterator[tuple[Unit, Array, Array, Array, bool]]:
    """Yield (unit, user indexes, targets of the unit, rule numbers, the answer after), for a batch of pairs at a time.

    each_user: evaluate all users, also those without grants; needed if is_met_without_grants.
    """
    for unit, mine in split_into_units(rows, directory):
        facts = [FactBits(directory, unit, entries) for entries in find_entries(unit, mine, rules, directory)]
        is_evaluated = np.full(directory.user_count, each_user)
        for fact in facts:
            fact.mark_holders(is_evaluated)
        groups = list(group_rules(unit, rules))
        for users in chunk_users(np.nonzero(is_evaluated)[0], sum(fact.width for fact in facts)):
            held = [fact.of(users) for fact in facts]
            for group in groups:
                changed = changed_bits(unit, facts, held, len(users), group)
                for pairs in _pairs(unit, users, group, changed):
                    yield unit, *pairs


def _pairs(unit: Unit, users: Array, group: RuleGroup,
           changed: tuple[Array, Array | None]) -> Iterator[tuple[Array, Array, Array, bool]]:
    """Yield (user indexes, targets of the unit, rule numbers, the answer after)."""
    begin = int(unit.run_begin[group.runs[0]])
    for after, bits in zip((True, False), changed, strict=True):
        if bits is None:
            continue
        # Few enough users to keep the batches small.
        step = max(1, BATCH_ROWS // max(1, bits.shape[1] * WORD_BITS // 8))
        for first in range(0, len(bits), step):
            some = np.ascontiguousarray(bits[first : first + step])
            user, bit = np.nonzero(np.unpackbits(some.view(np.uint8), axis=1, bitorder="little"))
            target = np.searchsorted(unit.position, bit + begin * WORD_BITS)
            run = np.searchsorted(unit.run_begin[group.runs], bit // WORD_BITS + begin, side="right") - 1
            for rules in group.rules:
                which = np.nonzero(rules[run] != NONE)[0]
                if len(which):
                    yield users[first + user[which]], target[which], rules[run[which]], after


@dataclass(frozen=True, eq=False)
class PairOrder:
    """The division of the positions of pairs into the parts of a table.

    The position of a pair is the place of its user in the order of names. If the key of the table begins with the namespace, it
    is the rank of the namespace, times the number of users, plus that place.
    first_positions: of each part, ascending from 0.
    """

    first_positions: Array
    has_namespace: bool

    @staticmethod
    def one_part(*, has_namespace: bool) -> "PairOrder":
        return PairOrder(np.zeros(1, np.int64), has_namespace)

    @staticmethod
    def by_user(pairs: Array, partitions: int) -> "PairOrder":
        """pairs: how many each user has, by place."""
        return PairOrder(cut_evenly(pairs, 1, part_count(pairs, partitions)), has_namespace=False)

    @staticmethod
    def by_namespace(pairs: Array, users: int, partitions: int) -> "PairOrder":
        """pairs: how many each namespace has, by rank. A namespace with many pairs is cut between its users."""
        return PairOrder(cut_evenly(pairs, max(1, users), part_count(pairs, partitions)), has_namespace=True)

    @property
    def parts(self) -> int:
        return len(self.first_positions)


def part_count(pairs: Array, partitions: int) -> int:
    """Return the number of parts for sorting this many pairs: at least one for each partition, if these are not too small."""
    total = int(pairs.sum())
    return max(1, -(-total // PAIRS_PER_PART), min(partitions, total // MIN_PAIRS_PER_PART))


def cut_evenly(weights: Array, width: int, parts: int) -> Array:
    """Return the first positions of at most `parts` ranges of about the same weight.

    weights: of each `width` neighbouring positions, which count as equally heavy.
    """
    total = np.concatenate([[0], np.cumsum(weights)]).astype(np.float64)
    wanted = total[-1] * np.arange(1, parts) / parts
    cuts = np.interp(wanted, total, np.arange(len(total)) * width).astype(np.int64)
    return np.unique(np.append(0, cuts))


def pair_table_stages(rules: CompiledRules, operations: tuple[str, ...], each_user: bool, columns: tuple[str, ...],
                      order: PairOrder, shared: Shared) -> tuple[BatchFunction, BatchFunction]:
    """Return two functions: from tenant rows with names to PACKED_PAIRS, and from those to `columns`.

    The arguments are those of the two functions.
    """
    return (pack_pairs(rules, order, shared, each_user=each_user), merge_pairs(order, columns, operations, shared))


def pack_pairs(rules: CompiledRules, order: PairOrder, shared: Shared, *, each_user: bool) -> BatchFunction:
    """Return a function from tenant rows with names to PACKED_PAIRS. each_user: as in each_pair."""
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = list(batches)
        if not received:
            return
        directory, rows, packer = Directory.load(shared), decode(received), PairPacker(order)
        for unit, users, targets, rule, after in each_pair(rows, directory, rules, each_user=each_user):
            positions = directory.user_places[users]
            if order.has_namespace:
                positions = positions + unit.run_rank[unit.run[targets]] * directory.user_count
            packer.add(positions, unit.target_row[targets], rule, after)
            if packer.is_full:
                yield from packer.pack(rows.names)
        yield from packer.pack(rows.names)

    return pack


@dataclass(eq=False)
class PairPacker:
    """A buffer that collects pairs and packs them by part."""

    order: PairOrder
    _waiting: dict[bool, list[tuple[Array, Array, Array]]] = field(default_factory=lambda: {True: [], False: []})
    _count: int = 0

    def add(self, positions: Array, entities: Array, rules: Array, after: bool) -> None:
        """entities: indexes into the names that the next `pack` is given."""
        self._waiting[after].append((positions, entities, rules))
        self._count += len(positions)

    @property
    def is_full(self) -> bool:
        return self._count >= WAITING_PAIRS

    def pack(self, names: pa.StringArray) -> Iterator[pa.RecordBatch]:
        """Yield the waiting pairs as PACKED_PAIRS, one row for each part and answer, and clear them."""
        for after, waiting in self._waiting.items():
            if waiting:
                yield from self._pack_waiting(after, waiting, names)
        self._waiting, self._count = {True: [], False: []}, 0

    def _pack_waiting(self, after: bool, waiting: list[tuple[Array, Array, Array]],
                      names: pa.StringArray) -> Iterator[pa.RecordBatch]:
        firsts = self.order.first_positions
        positions, entities, rules = (np.concatenate(column) for column in zip(*waiting, strict=True))
        # Numbers of few bits are sorted by their digits.
        part_of_pair = (np.searchsorted(firsts, positions, side="right") - 1).astype(np.min_scalar_type(len(firsts)))
        by_part = np.argsort(part_of_pair, kind="stable")
        ends = np.cumsum(np.bincount(part_of_pair, minlength=len(firsts)))
        for part in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
            mine = by_part[ends[part - 1] if part else 0 : ends[part]]
            indexes, known = _renumber(entities[mine], len(names))
            yield pa.record_batch({
                "part": pa.array([part], pa.int32()), "after": [after],
                "positions": _pack_numbers(positions[mine] - firsts[part]), "entities": _pack_numbers(indexes),
                "rules": _pack_numbers(rules[mine]), "names": _pack_names(names.take(pa.array(known)))})


def _renumber(indexes: Array, count: int) -> tuple[Array, Array]:
    """Return (numbers, known): the indexes as positions in `known`, which has each index once, ascending.

    count: the number of possible indexes.
    """
    is_there = np.zeros(count, bool)
    is_there[indexes] = True
    numbers = np.cumsum(is_there, dtype=np.int32) - np.int32(1)
    return numbers[indexes], np.flatnonzero(is_there)


def _pack_numbers(numbers: Array) -> pa.Array:
    """Return a binary value: the letter of the smallest type for these nonnegative numbers, then the numbers."""
    small = numbers.astype(np.min_scalar_type(int(numbers.max())))
    return pa.array([small.dtype.char.encode() + small.tobytes()], pa.binary())


def _unpack_numbers(packed: bytes) -> Array:
    return np.frombuffer(packed, packed[:1].decode(), offset=1)


def _pack_names(names: pa.StringArray) -> pa.Array:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"name": names})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.array([sink.getvalue().to_pybytes()], pa.binary())


def _unpack_names(packed: bytes) -> pa.ChunkedArray:
    with pa.ipc.open_stream(packed) as reader:
        return reader.read_all()["name"]


def merge_pairs(order: PairOrder, columns: Sequence[str], operations: Sequence[str], shared: Shared) -> BatchFunction:
    """Return a function from PACKED_PAIRS of whole parts to `columns`, in the order of the key of the table.

    columns: some of namespace, user, entity, operation, before and after. operations: by rule number.
    """
    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        by_part: dict[int, list[dict[str, Any]]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                by_part.setdefault(row["part"], []).append(row)
        if not by_part:
            return
        directory = Directory.load(shared)
        for part in sorted(by_part):
            pairs = SortedPairs(by_part.pop(part), operations if "operation" in columns else [""] * len(operations))
            yield from pairs.batches(columns, int(order.first_positions[part]), directory)

    return merge


class SortedPairs:
    """The pairs of one part. Each is one number, so sorting the numbers sorts the pairs.

    The number of a pair combines its position, the rank of its entity by address, the rank of its operation and its answer.
    """

    def __init__(self, rows: list[dict[str, Any]], operations: Sequence[str]):
        """rows: PACKED_PAIRS. operations: by rule number."""
        self.operations = sorted(set(operations)) or [""]
        rank_of_rule = np.array([self.operations.index(operation) for operation in operations], np.int64)
        names = [_unpack_names(row.pop("names")) for row in rows]
        ranks = self._rank_entities(names)
        numbers, first = [], 0
        for row, some in zip(rows, names, strict=True):
            number = _unpack_numbers(row["positions"]).astype(np.int64)
            number *= len(self.entities)
            number += ranks[first : first + len(some)][_unpack_numbers(row["entities"])]
            number *= len(self.operations)
            if len(self.operations) > 1:
                number += rank_of_rule[_unpack_numbers(row["rules"])]
            number *= 2
            number += row["after"]
            numbers.append(number)
            first += len(some)
        self.numbers = np.concatenate(numbers)
        self.numbers.sort()

    def _rank_entities(self, names: list[pa.ChunkedArray]) -> Array:
        """Set `entities` to the different names, sorted. Return the rank of each name."""
        encoded = pa.chunked_array([chunk for some in names for chunk in some.chunks], pa.string()).combine_chunks()
        encoded = encoded.dictionary_encode()
        by_name = pc.sort_indices(encoded.dictionary)
        self.entities = encoded.dictionary.take(by_name)
        rank = np.empty(len(by_name), np.int64)
        rank[by_name.to_numpy()] = np.arange(len(by_name))
        return rank[encoded.indices.to_numpy()]

    def batches(self, columns: Sequence[str], first_position: int, directory: Directory) -> Iterator[pa.RecordBatch]:
        operations = pa.array(self.operations, pa.string())
        for first in range(0, len(self.numbers), TABLE_ROWS):
            rest, is_after = np.divmod(self.numbers[first : first + TABLE_ROWS], 2)
            rest, operation = np.divmod(rest, len(self.operations))
            position, entity = np.divmod(rest, len(self.entities))
            rank, place = np.divmod(position + first_position, max(1, directory.user_count))
            texts = {"namespace": (rank, directory.namespace_names), "user": (place, directory.user_names),
                     "entity": (entity, self.entities), "operation": (operation, operations)}
            flags = {"before": is_after == 0, "after": is_after == 1}
            yield pa.record_batch({name: pa.array(flags[name]) if name in flags else _as_dictionary(*texts[name])
                                   for name in columns})


def _as_dictionary(numbers: Array, texts: pa.Array) -> pa.DictionaryArray:
    """Return the text of each number. The dictionary contains only the texts that occur."""
    indexes, known = _renumber(numbers, len(texts))
    return pa.DictionaryArray.from_arrays(indexes, texts.take(pa.array(known)))
