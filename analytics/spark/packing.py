"""Counts on their way into a table: packed by the part of it where they belong, then summed and put in order.

What is exchanged are numbers, many to a row: rows of their own would have to be sorted by name.
"""

import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from analytics.spark.counting import counts, split
from analytics.spark.verdicts import BatchFunction, Law

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# for one part of the users: changes of some of them, by their places in a slice of the part, or of everybody (number: how many
# users there are in all), or the name of the user or of the namespace with that number (its place by name, its rank)
CHANGES, EVERYBODY_CHANGES, USER_NAME, NAMESPACE_NAME = range(4)
PACKED = "part int, what int, slice int, number long, name string, place binary, run binary, gained binary, lost binary"
# of one namespace, by its rank: users by place, and on how much each gains something
PACKED_HOLDERS = "rank long, place binary, held binary"
_FLUSHED_ROWS = 2_000_000
# that a part is summed in, one after the other: what is at hand stays near a core
SLICES = 4
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
            yield from (_packed_batch(part, 0, users, EVERYBODY_CHANGES, columns) for part in range(min(parts, users)))
            continue
        each = _users_per_slice(users, parts)
        # numbers of few bits are sorted by their digits
        slice_of_row = (columns[0] // each).astype(np.min_scalar_type(parts * SLICES))
        columns = [_small(columns[0] - slice_of_row * np.int64(each)), *map(_small, columns[1:])]
        rows = np.argsort(slice_of_row, kind="stable")
        bounds = np.searchsorted(slice_of_row[rows], np.arange(parts * SLICES + 1))
        for number in np.nonzero(np.diff(bounds))[0].tolist():
            mine = rows[bounds[number] : bounds[number + 1]]
            yield _packed_batch(*divmod(number, SLICES), users, CHANGES, [column[mine] for column in columns])


def _users_per_slice(users: int, parts: int) -> int:
    return max(1, -(-users // (parts * SLICES)))


def _packed_batch(part: int, of_part: int, users: int, what: int, columns: list[np.ndarray]) -> pa.RecordBatch:
    place, run, gained, lost = (pa.array([_bytes(column)], pa.binary()) for column in columns)
    return pa.record_batch({
        "part": pa.array([part], pa.int32()), "what": pa.array([what], pa.int32()), "slice": pa.array([of_part], pa.int32()),
        "number": pa.array([users], pa.int64()), "name": pa.array([None], pa.string()), "place": place, "run": run,
        "gained": gained, "lost": lost})


def _small(numbers: np.ndarray) -> np.ndarray:
    """Of as few bits as it takes."""
    return numbers.astype(np.result_type(*map(np.min_scalar_type, (numbers.min(), numbers.max()))))


def _bytes(numbers: np.ndarray) -> bytes:
    """The letter of their type, and the numbers."""
    return numbers.dtype.char.encode() + numbers.tobytes()


def _numbers(packed: bytes) -> np.ndarray:
    return np.frombuffer(packed, packed[:1].decode(), offset=1)


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
            if any(row["what"] in (CHANGES, EVERYBODY_CHANGES) for row in rows):
                names = {"user": _names(rows, USER_NAME), "namespace": _names(rows, NAMESPACE_NAME)}
                for sums in _sums(rows, part, parts, each * len(rules)):
                    yield from _shown(sums, names, columns, rules, each)

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


def _sums(rows: list[dict], part: int, parts: int, runs: int) -> Iterator[tuple[np.ndarray, ...]]:
    """place, run, gained, lost, by place and run; of one slice of the users after the other."""
    by_slice: dict[int, list[tuple]] = {}
    everybody = [_unpacked(row) for row in rows if row["what"] == EVERYBODY_CHANGES]
    for row in rows:
        if row["what"] == CHANGES:
            by_slice.setdefault(row["slice"], []).append(_unpacked(row))
    users_in_all = next(row["number"] for row in rows if row["what"] in (CHANGES, EVERYBODY_CHANGES))
    each = _users_per_slice(users_in_all, parts)
    for number in range(SLICES):
        first = (part * SLICES + number) * each
        found = by_slice.pop(number, [])
        users = np.arange(max(0, min(each, users_in_all - first)))
        found += [(np.repeat(users, len(changes[0])), *(np.tile(column, len(users)) for column in changes))
                  for _, *changes in everybody]
        if found:
            place, *changes = _summed(found, runs)
            yield place + first, *changes


def _summed(found: list[tuple], runs: int) -> tuple[np.ndarray, ...]:
    # made piece by piece, each of which stays near a core
    key = np.concatenate([place.astype(np.int64) * runs + run for place, run, *_ in found])
    key, gained, lost = _added(key, *(np.concatenate(column) for column in list(zip(*found, strict=True))[2:]))
    differs = (gained != 0) | (lost != 0)
    if not differs.all():
        key, gained, lost = key[differs], gained[differs], lost[differs]
    return *split(key, runs), gained, lost


def _added(key: np.ndarray, *columns: np.ndarray) -> list[np.ndarray]:
    """Each key once, in order, and each column summed by it."""
    counting = [column for column in columns if column.any()]
    bits = int(counting[0].max()).bit_length() if len(counting) == 1 and counting[0].min() >= 0 else 64
    if len(key) and int(key.max()).bit_length() + bits < 64:
        # numbers alone are sorted in a fraction of the time that their order takes
        both = key << bits
        both |= counting[0]
        both.sort()
        key, counting = both >> bits, [both & (1 << bits) - 1]
    else:
        order = np.argsort(key)
        key, counting = key[order], [column[order] for column in counting]
    begins = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else np.empty(0, np.int64)
    sums = iter([np.add.reduceat(column, begins, dtype=np.int64) for column in counting])
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
