"""Counts on their way into a table: packed by the part of it where they belong, then summed and put in order.

What is exchanged are numbers, many to a row: rows of their own would have to be sorted by name.
"""

import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from analytics.spark.verdicts import BatchFunction, Law, counts, split

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# for one part of the users: changes of some of them, by their places in the part, or of everybody (number: how many users there
# are in all), or the name of the user or of the namespace with that number (its place by name, its rank)
CHANGES, EVERYBODY_CHANGES, USER_NAME, NAMESPACE_NAME = range(4)
PACKED = "part int, what int, number long, name string, place binary, run binary, gained binary, lost binary"
# of one namespace, by its rank: users by place, and on how much each gains something
PACKED_HOLDERS = "rank long, place binary, held binary"
_FLUSHED_ROWS = 2_000_000
# a batch of a table
TABLE_ROWS = 1 << 20
# a table's column by its name, with what it shows: `user`, `namespace`, `gained`, `lost`, or text by rule
Columns = tuple[tuple[str, str | tuple[str, ...]], ...]


def changes_packed(law: Law, order: tuple[int, ...], parts: int, *, families: int) -> BatchFunction:
    """Rows of a part -> PACKED. order: the place of each rule. parts: to cut the users into.

    families: more than there are ranks; 0 to sum over them.
    """
    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting, count, users_in_all, place_of_rule = [], 0, 0, np.asarray(order, np.int64)
        for part, unit, everybody, users, (runs, rules, at, gained, lost) in counts(batches, law, is_by_family=bool(families)):
            users_in_all = len(part.user_ids)
            key = (place_of_rule[rules] * max(1, families) + (unit.run_rank[runs] if families else 0))[at]
            lost = np.zeros(len(users), np.int8) if lost is None else lost
            waiting.append((everybody, users if everybody else part.user_places[users], key, gained, lost))
            count += len(users)
            if count > _FLUSHED_ROWS:
                yield from _flushed(waiting, users_in_all, parts)
                waiting, count = [], 0
        yield from _flushed(waiting, users_in_all, parts)

    return packed


def _flushed(waiting: list[tuple], users: int, parts: int) -> Iterator[pa.RecordBatch]:
    for is_everybody in (True, False):
        some = [rows[1:] for rows in waiting if rows[0] == is_everybody]
        if not some:
            continue
        columns = [np.concatenate(column) for column in zip(*some, strict=True)]
        if is_everybody:
            yield from (_packed_batch(part, users, True, columns) for part in range(min(parts, users)))
            continue
        # numbers of few bits are sorted by their digits
        part_of_row = (columns[0] // _users_per_part(users, parts)).astype(np.min_scalar_type(parts))
        columns = [_small(columns[0] % _users_per_part(users, parts)), *map(_small, columns[1:])]
        rows = np.argsort(part_of_row, kind="stable")
        bounds = np.searchsorted(part_of_row[rows], np.arange(parts + 1))
        for part in range(parts):
            if bounds[part] < bounds[part + 1]:
                mine = rows[bounds[part] : bounds[part + 1]]
                yield _packed_batch(part, users, False, [column[mine] for column in columns])


def _users_per_part(users: int, parts: int) -> int:
    return max(1, -(-users // parts))


def _packed_batch(part: int, users: int, is_everybody: bool, columns: list[np.ndarray]) -> pa.RecordBatch:
    place, run, gained, lost = (pa.array([_bytes(column)], pa.binary()) for column in columns)
    return pa.record_batch({
        "part": pa.array([part], pa.int32()), "what": pa.array([EVERYBODY_CHANGES if is_everybody else CHANGES], pa.int32()),
        "number": pa.array([users], pa.int64()), "name": pa.array([None], pa.string()), "place": place, "run": run,
        "gained": gained, "lost": lost})


def _small(numbers: np.ndarray) -> np.ndarray:
    """Of as few bits as it takes."""
    return numbers.astype(np.result_type(*map(np.min_scalar_type, (numbers.min(), numbers.max()))))


def _bytes(numbers: np.ndarray) -> bytes:
    """The letter of their type, and the numbers."""
    return numbers.dtype.char.encode() + numbers.tobytes()


def _numbers(packed: bytes) -> np.ndarray:
    return np.frombuffer(packed, packed[:1].decode(), offset=1).astype(np.int64)


def changes_merged(order: tuple[int, ...], parts: int, columns: Columns, *, families: int) -> BatchFunction:
    """PACKED of whole parts of the users -> `columns`, summed, in the order of users, rules and namespaces, where anything
    changes."""
    rules = np.argsort(np.asarray(order, np.int64))
    each = max(1, families)

    def merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        by_part: dict[int, list[dict]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                by_part.setdefault(row["part"], []).append(row)
        for part in sorted(by_part):
            rows = by_part.pop(part)
            changes = [row for row in rows if row["what"] in (CHANGES, EVERYBODY_CHANGES)]
            if changes:
                names = {"user": _names(rows, USER_NAME), "namespace": _names(rows, NAMESPACE_NAME)}
                del rows
                yield from _shown(_sums(changes, part, parts, each * len(rules)), names, columns, rules, each)

    return merged


def _shown(sums: tuple[np.ndarray, ...], names: dict[str, tuple], columns: Columns, rules: np.ndarray,
           families: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, len(sums[0]), TABLE_ROWS):
        place, run, gained, lost = (column[first : first + TABLE_ROWS] for column in sums)
        rule, rank = split(run, families)
        shown = {"user": place, "namespace": rank, "gained": gained, "lost": lost}
        yield pa.record_batch({
            name: _texts(rules[rule], pa.array(what), np.arange(len(what))) if isinstance(what, tuple)
            else _texts(shown[what], *names[what]) if what in names else pa.array(shown[what])
            for name, what in columns})


def _texts(numbers: np.ndarray, texts: pa.Array, known: np.ndarray) -> pa.DictionaryArray:
    """The text of each number; known: the number of each text, ascending. The dictionary holds what is there, and no more."""
    least = int(numbers.min())
    is_there = np.zeros(int(numbers.max()) - least + 1, bool)
    is_there[numbers - least] = True
    places = np.cumsum(is_there, dtype=np.int32) - np.int32(1)
    return pa.DictionaryArray.from_arrays(
        places[numbers - least], texts.take(pa.array(np.searchsorted(known, np.nonzero(is_there)[0] + least))))


def _names(rows: list[dict], what: int) -> tuple[pa.Array, np.ndarray]:
    """Names and their numbers, by number. What lies outside has the number 0 and an empty name."""
    found = sorted({(row["number"], row["name"]) for row in rows if row["what"] == what}
                   | ({(0, "")} if what == NAMESPACE_NAME else set()))
    return pa.array([name for _, name in found], pa.string()), np.array([number for number, _ in found], np.int64)


def _sums(rows: list[dict], part: int, parts: int, runs: int) -> tuple[np.ndarray, ...]:
    """place, run, gained, lost, by place and run."""
    found = [_unpacked(row) for row in rows if row["what"] == CHANGES]
    users_in_all = rows[0]["number"]
    each = _users_per_part(users_in_all, parts)
    first, last = part * each, min((part + 1) * each, users_in_all)
    for _, *changes in (_unpacked(row) for row in rows if row["what"] == EVERYBODY_CHANGES):
        users = np.arange(last - first)
        found.append((np.repeat(users, len(changes[0])), *(np.tile(column, len(users)) for column in changes)))
    place, run, gained, lost = (np.concatenate(column) for column in zip(*found, strict=True))
    key, gained, lost = _added(place * runs + run, gained, lost)
    differs = (gained != 0) | (lost != 0)
    place, run = split(key[differs], runs)
    return place + first, run, gained[differs], lost[differs]


def _added(key: np.ndarray, *columns: np.ndarray) -> list[np.ndarray]:
    """Each key once, in order, and each column summed by it."""
    counting = [column for column in columns if column.any()]
    bits = int(counting[0].max()).bit_length() if len(counting) == 1 and counting[0].min() >= 0 else 64
    if len(key) and int(key.max()).bit_length() + bits < 64:
        # numbers alone are sorted in a fraction of the time that their order takes
        both = np.sort(key << bits | counting[0])
        key, counting = both >> bits, [both & (1 << bits) - 1]
    else:
        order = np.argsort(key)
        key, counting = key[order], [column[order] for column in counting]
    begins = np.nonzero(np.diff(key, prepend=key[:1] - 1))[0]
    sums = iter([np.add.reduceat(column, begins) for column in counting])
    return [key[begins], *(next(sums) if column.any() else np.zeros(len(begins), np.int64) for column in columns)]


def _unpacked(row: dict) -> tuple[np.ndarray, ...]:
    return tuple(_numbers(row[name]) for name in ("place", "run", "gained", "lost"))


def holders_packed(law: Law, marking: frozenset[int]) -> BatchFunction:
    """Rows of a part -> PACKED_HOLDERS. marking: rules by which nothing is held; who gains only by them holds 0."""
    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting, count = [], 0
        for part, unit, everybody, users, (runs, rules, at, gained, _) in counts(batches, law, is_by_family=True):
            if not everybody:
                held = np.where(np.isin(rules, list(marking))[at], 0, gained)
                waiting.append((unit.run_rank[runs][at], part.user_places[users], held))
                count += len(users)
            if count > _FLUSHED_ROWS:
                yield from _by_rank(waiting)
                waiting, count = [], 0
        yield from _by_rank(waiting)

    return packed


def _by_rank(waiting: list[tuple]) -> Iterator[pa.RecordBatch]:
    if not waiting:
        return
    rank, place, held = (np.concatenate(column) for column in zip(*waiting, strict=True))
    rows = np.argsort(rank, kind="stable")
    ranks, begins = np.unique(rank[rows], return_index=True)
    for number, mine in zip(ranks.tolist(), np.split(rows, begins[1:]), strict=True):
        # what several rules say of one user here is one row
        places, held_there = (column.astype(np.int64) for column in _added(place[mine], held[mine]))
        yield pa.record_batch({"rank": pa.array([number], pa.int64()), "place": pa.array([places.tobytes()], pa.binary()),
                               "held": pa.array([held_there.tobytes()], pa.binary())})


def holders_merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """PACKED_HOLDERS of whole namespaces, with `namespace` and `required`, and rows of `user` and `number` alone, which name all
    users and tell their places -> tables.READINESS, in order."""
    batches = list(batches)
    if not batches:
        return
    table = pa.Table.from_batches(batches)
    is_user = pc.is_valid(table["user"])
    named = table.filter(is_user).sort_by("number")
    users = named["user"].combine_chunks(), named["number"].to_numpy()
    by_rank: dict[int, list[dict]] = {}
    for row in table.filter(pc.invert(is_user)).to_pylist():
        by_rank.setdefault(row["rank"], []).append(row)
    namespaces = pa.array([by_rank[rank][0]["namespace"] for rank in sorted(by_rank)], pa.string()), np.array(sorted(by_rank))
    waiting, count = [], 0
    for rank in sorted(by_rank):
        rows = by_rank.pop(rank)
        place, held = _added(*(np.concatenate([_int64(row[name]) for row in rows]) for name in ("place", "held")))
        waiting.append((np.full(len(place), rank), place, np.full(len(place), rows[0]["required"]), held))
        count += len(place)
        if count > TABLE_ROWS or not by_rank:
            rank, place, required, held = (np.concatenate(column) for column in zip(*waiting, strict=True))
            yield pa.record_batch({
                "namespace": _texts(rank, *namespaces), "user": _texts(place, *users), "required": required, "held": held,
                "missing": required - held, "ready": required == held})
            waiting, count = [], 0


def _int64(packed: bytes) -> np.ndarray:
    return np.frombuffer(packed, np.int64)
