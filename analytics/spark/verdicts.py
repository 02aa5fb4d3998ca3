"""Two laws over a block of numbered entities: for whom does an answer differ, as rows of bits, one row a user.

The rules come as plain tuples `(kind, before, after)`, requirements over numbered facts (analytics.spark.law). A holding makes
facts true of places in the block: of an entity at its position, of all entities of an application, or of the whole block. What
a user holds is the OR of the user's holdings. Rows of many users are judged at once; no loop passes over users, and none over
pairs of users and entities. Those who hold nothing have a row of their own, and every other row says how it differs from it.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.blocks import WORD_BITS

# a place that stands for all entities of the block
EVERYWHERE = -1
# a fact and a place as one number: `fact * FACTS_APART + place - EVERYWHERE`
FACTS_APART = 1 << 48
# what is held by all at once, and how many users are judged at once
ROWS_BYTES = 16_000_000

# held: each a fact and a place as one number
HOLDINGS = "array<struct<users:array<long>,held:array<long>>>"
APPLICATIONS = "array<struct<place:long,positions:array<long>>>"
# user_id: null are those who hold nothing
COUNTS = "array<struct<user_id:long,rule:int,gained:long,lost:long>>"
# words: from the word `first` on, lowest bit first
WORDS = "array<struct<user_id:long,rule:int,after:boolean,first:long,words:array<long>>>"

# Python workers, on a cluster above all, need not have this package installed
cloudpickle.register_pickle_by_value(sys.modules[__name__])

# over the columns kinds, applications and holdings of blocks
BlockFunction = Callable[[pa.Array, pa.Array, pa.Array], pa.Array]
_ALL, _NONE = np.uint64(2**64 - 1), np.uint64(0)
_NOBODY = -1


def changes_counted(rules: tuple, by_application: frozenset[int]) -> BlockFunction:
    """Blocks -> COUNTS. rules: each a kind and what it asks before and after. by_application: the facts held on applications."""
    return lambda *columns: _listed([list(map(_counts, _judged(block, rules, by_application))) for block in _blocks(columns)],
                                    _COUNTS_FIELDS)


def changes_spread(rules: tuple, by_application: frozenset[int]) -> BlockFunction:
    """Blocks -> WORDS: the positions that change; against those who hold nothing by XOR."""
    return lambda *columns: _listed([[rows for judged in _judged(block, rules, by_application) for rows in _words(judged)]
                                     for block in _blocks(columns)], _WORDS_FIELDS)


@dataclass(frozen=True, slots=True)
class _Judged:
    """What one rule changes for some users: a row of words each, from the word `first` of the block on.

    users: their numbers, _NOBODY for those who hold nothing. basis: the rows of these.
    """

    users: np.ndarray
    rule: int
    first: int
    gained: np.ndarray
    lost: np.ndarray
    basis: tuple[np.ndarray, np.ndarray]


def _counts(judged: _Judged) -> dict[str, np.ndarray]:
    """COUNTS as columns, of those for whom it differs."""
    gained, lost = (_ones(rows) - _ones(basis)[0] for rows, basis in zip((judged.gained, judged.lost), judged.basis, strict=True))
    who = np.nonzero((gained != 0) | (lost != 0))[0]
    return {"user_id": judged.users[who], "rule": _rule(judged, who), "gained": gained[who], "lost": lost[who]}


def _ones(rows: np.ndarray) -> np.ndarray:
    return np.bitwise_count(rows).sum(axis=1, dtype=np.int64)


def _words(judged: _Judged) -> Iterator[dict[str, np.ndarray]]:
    """WORDS as columns, of those for whom it differs."""
    for after, rows, basis in zip((True, False), (judged.gained, judged.lost), judged.basis, strict=True):
        differing = rows ^ basis
        who = np.nonzero(differing.any(axis=1))[0]
        yield {"user_id": judged.users[who], "rule": _rule(judged, who), "after": np.full(len(who), after),
               "first": np.full(len(who), judged.first, np.int64), "words": differing[who].view(np.int64)}


def _rule(judged: _Judged, who: np.ndarray) -> np.ndarray:
    return np.full(len(who), judged.rule, np.int32)


def _judged(block: "_Block", rules: tuple, by_application: frozenset[int]) -> Iterator[_Judged]:
    masks = {kind: _mask(first, count) for kind, first, count in block.kinds}
    asked = [(number, *rule) for number, rule in enumerate(rules) if rule[0] in masks]
    held = _Held(block, by_application)
    basis = []
    for users, rows in held.rows():
        changes = [_change(before, after, rows, *masks[kind]) for _, kind, before, after in asked]
        # those who hold nothing come first, and differ from nothing
        against = basis or [(np.zeros_like(gained), np.zeros_like(lost)) for _, gained, lost in changes]
        for (number, *_), change, other in zip(asked, changes, against, strict=True):
            yield _Judged(users, number, *change, other)
        basis = basis or [(gained, lost) for _, gained, lost in changes]


def _mask(first: int, count: int) -> tuple[int, np.ndarray]:
    """The word in which a run of positions begins, and its bits from there on."""
    begin, end = first // WORD_BITS, -(-(first + count) // WORD_BITS)
    mask = np.full(end - begin, _ALL)
    mask[0] &= _ALL << np.uint64(first % WORD_BITS)
    if over := end * WORD_BITS - (first + count):
        mask[-1] &= _ALL >> np.uint64(over)
    return begin, mask


def _change(before: tuple, after: tuple, rows: np.ndarray, begin: int, mask: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
    """begin, gained, lost. rows: by fact and user, words."""
    held = rows[:, :, begin : begin + len(mask)]
    was, becomes = (np.broadcast_to(_met(asked, held), held.shape[1:]) for asked in (before, after))
    differs = (was ^ becomes) & mask
    return begin, differs & becomes, differs & was


def _met(requirement: tuple, held: np.ndarray) -> np.ndarray | np.uint64:
    """The entities for which it is met, by user. Raises ValueError for a word that it does not know."""
    word, parts = requirement
    match word:
        case "all":
            bits = _ALL
            for part in parts:
                bits = bits & _met(part, held)
        case "any":
            bits = _NONE
            for part in parts:
                bits = bits | _met(part, held)
        case "held":
            bits = _NONE
            for fact in parts:
                # what is held nowhere in the block has no rows
                if fact < len(held):
                    bits = bits | held[fact]
        case _:
            raise ValueError(f"`{word}` is no requirement")
    return bits


@dataclass(frozen=True, slots=True)
class _Block:
    """kinds: name, first position, count. applications and holdings: as APPLICATIONS and HOLDINGS, None where there are none."""

    kinds: list[tuple[str, int, int]]
    applications: pa.StructArray | None
    holdings: pa.StructArray | None


def _blocks(columns: tuple[pa.Array, ...]) -> Iterator[_Block]:
    for kinds, applications, holdings in zip(*columns, strict=True):
        runs = [kinds.values.field(name).to_pylist() for name in ("kind", "first", "count")]
        yield _Block(list(zip(*runs, strict=True)), applications.values, holdings.values)


class _Held:
    """What is held in one block: rows of bits that several users may share, and who has which of them.

    A row is of one holding and one fact. The rows of those who hold nothing are the first of every user's.
    """

    def __init__(self, block: _Block, by_application: frozenset[int]):
        size = sum(count for _, _, count in block.kinds)
        self._words = -(-size // WORD_BITS)
        self._users = np.empty(0, np.int64)
        self._facts = 0
        self._everybody = np.zeros((0, self._words), np.uint64)
        if block.holdings is None or not len(block.holdings):
            return
        users, held = block.holdings.field("users"), block.holdings.field("held")
        facts, places = np.divmod(held.flatten().to_numpy(zero_copy_only=False), FACTS_APART)
        places += EVERYWHERE
        self._facts = int(facts.max(initial=-1)) + 1
        holding = np.repeat(np.arange(len(held)), _lengths(held))
        # a row for each holding with each of its facts
        keys, row = np.unique(holding * self._facts + facts, return_inverse=True)
        self._row_holding, self._row_fact = np.divmod(keys, self._facts)
        self._bits = _Bits(row, places, np.isin(facts, list(by_application)), block.applications)
        self._share(users, len(held))

    def _share(self, users: pa.ListArray, holdings: int) -> None:
        """Notes who has which rows, by user."""
        numbers, lengths = users.flatten().to_numpy(zero_copy_only=False), _lengths(users)
        self._users, user = np.unique(numbers, return_inverse=True)
        holding = np.repeat(np.arange(holdings), lengths)
        order = np.argsort(user, kind="stable")
        user, holding = user[order], holding[order]
        # the rows of a holding follow each other
        first_row = np.searchsorted(self._row_holding, np.arange(holdings + 1))
        row_counts = np.diff(first_row)[holding]
        self._pair_user = np.repeat(user, row_counts)
        self._pair_row = _runs(first_row[holding], row_counts)
        # those of everybody belong to no user
        everybody = np.nonzero(users.is_null().to_numpy(zero_copy_only=False)[self._row_holding])[0]
        self._everybody = np.zeros((self._facts, self._words), np.uint64)
        bits, at = self._bits.of(everybody, self._words)
        np.bitwise_or.at(self._everybody, self._row_fact[everybody], bits[at])

    def rows(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(users, rows by fact, user and word); first _NOBODY."""
        yield np.array([_NOBODY]), self._everybody[:, None, :]
        if not len(self._users):
            return
        begins = np.searchsorted(self._pair_user, np.arange(len(self._users) + 1))
        first = 0
        while first < len(self._users):
            last = self._chunk_end(first, begins)
            pairs = slice(begins[first], begins[last])
            yield self._users[first:last], self._gathered(self._pair_user[pairs] - first, self._pair_row[pairs], last - first)
            first = last

    def _chunk_end(self, first: int, begins: np.ndarray) -> int:
        """As many users as fit into ROWS_BYTES, at least one."""
        most_rows = max(1, ROWS_BYTES // (8 * self._words))
        by_pairs = int(np.searchsorted(begins, begins[first] + most_rows, side="right")) - 1
        return min(len(self._users), max(first + 1, min(by_pairs, first + most_rows // max(1, self._facts))))

    def _gathered(self, user: np.ndarray, row: np.ndarray, users: int) -> np.ndarray:
        rows = np.repeat(self._everybody[:, None, :], users, axis=1)
        key = self._row_fact[row] * users + user
        order = np.argsort(key, kind="stable")
        key, row = key[order], row[order]
        distinct, begins = np.unique(key, return_index=True)
        counts = np.diff(np.append(begins, len(key)))
        target, bits, at = rows.reshape(-1, self._words), *self._bits.of(row, self._words)
        # the first row of each user, then the second, ...: a user has few, and each step is one for all users
        for place in range(int(counts.max(initial=0))):
            has_more = counts > place
            target[distinct[has_more]] |= bits[at[begins[has_more] + place]]
        return rows


class _Bits:
    """The bits of rows, made when they are asked for: all together they may be far more than memory holds."""

    def __init__(self, row: np.ndarray, places: np.ndarray, is_application: np.ndarray, applications: pa.StructArray | None):
        if is_application.any():
            row, places = _with_positions(row, places, is_application & (places != EVERYWHERE), applications)
        order = np.argsort(row, kind="stable")
        self._places = places[order]
        self._begins = np.searchsorted(row[order], np.arange(int(row.max(initial=-1)) + 2))

    def of(self, rows: np.ndarray, words: int) -> tuple[np.ndarray, np.ndarray]:
        """The words of these rows, each once, and the place of each row among them."""
        unique, at = np.unique(rows, return_inverse=True)
        counts = self._begins[unique + 1] - self._begins[unique]
        places = self._places[_runs(self._begins[unique], counts)]
        row = np.repeat(np.arange(len(unique)), counts)
        bits = np.zeros(len(unique) * words, np.uint64)
        is_everywhere = places == EVERYWHERE
        single, of_row = places[~is_everywhere], row[~is_everywhere]
        np.bitwise_or.at(bits, of_row * words + single // WORD_BITS, np.uint64(1) << (single % WORD_BITS).astype(np.uint64))
        bits = bits.reshape(len(unique), words)
        bits[row[is_everywhere]] = _ALL
        return bits, at


def _with_positions(row: np.ndarray, places: np.ndarray, is_application: np.ndarray,
                    applications: pa.StructArray | None) -> tuple[np.ndarray, np.ndarray]:
    """Applications replaced by the positions of what is in them."""
    keys = applications.field("place").to_numpy(zero_copy_only=False)
    positions = applications.field("positions")
    lengths, flat = _lengths(positions), positions.flatten().to_numpy(zero_copy_only=False)
    begins = np.concatenate(([0], np.cumsum(lengths)))
    order = np.argsort(keys)
    found = order[np.searchsorted(keys, places[is_application], sorter=order)]
    counts = lengths[found]
    inside = flat[_runs(begins[found], counts)]
    return (np.concatenate((row[~is_application], np.repeat(row[is_application], counts))),
            np.concatenate((places[~is_application], inside)))


def _runs(begins: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Of each run its numbers from `begins` on, one run after the other."""
    return np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())


def _lengths(lists: pa.ListArray) -> np.ndarray:
    return lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


_COUNTS_FIELDS = {"user_id": pa.int64(), "rule": pa.int32(), "gained": pa.int64(), "lost": pa.int64()}
_WORDS_FIELDS = {"user_id": pa.int64(), "rule": pa.int32(), "after": pa.bool_(), "first": pa.int64(),
                 "words": pa.list_(pa.int64())}


def _listed(blocks: list[list[dict[str, np.ndarray]]], fields: dict[str, pa.DataType]) -> pa.Array:
    """The rows of each block as a list."""
    counts = [sum(len(rows["rule"]) for rows in block) for block in blocks]
    every = [rows for block in blocks for rows in block]
    columns = [_column([rows[name] for rows in every], name, data_type) for name, data_type in fields.items()]
    struct = pa.StructArray.from_arrays(columns, list(fields))
    return pa.ListArray.from_arrays(pa.array(np.concatenate(([0], np.cumsum(counts, dtype=np.int64))), pa.int32()), struct)


def _column(parts: list[np.ndarray], name: str, data_type: pa.DataType) -> pa.Array:
    if name == "words":
        lengths = _joined([np.full(len(part), part.shape[1]) for part in parts])
        offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
        return pa.ListArray.from_arrays(offsets, pa.array(_joined([part.ravel() for part in parts]), pa.int64()))
    values = _joined(parts)
    return pa.array(values, data_type, mask=values == _NOBODY if name == "user_id" else None)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
