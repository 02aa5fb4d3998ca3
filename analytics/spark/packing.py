"""Counts on their way into a table: packed by the part of it where they belong, then summed and put in order.

What is exchanged are numbers, many to a row: rows of their own would have to be sorted by name.
"""

import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from analytics.spark.verdicts import BATCH_ROWS, BatchFunction, Law, counts, per_run, summed

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# for one part of the users: changes of some of them or of EVERYBODY_CHANGES (numbers as bytes; number: how many users there
# are in all), or the name of the user or of the namespace with that number (its place by name, its rank)
CHANGES, EVERYBODY_CHANGES, USER_NAME, NAMESPACE_NAME = range(4)
PACKED = "part int, what int, number long, name string, place binary, run binary, gained binary, lost binary"
RUNS = "user string, rule int, namespace string, gained long, lost long"
# of one namespace, by its rank: users by place, and on how much each gains something
PACKED_HOLDERS = "rank long, place binary, held binary"
HOLDERS = "namespace string, user string, required long, held long"
_FLUSHED_ROWS = 2_000_000


def changes_packed(law: Law, order: tuple[int, ...], parts: int, *, families: int) -> BatchFunction:
    """Rows of a part -> PACKED. order: the place of each rule. parts: to cut the users into.

    families: more than there are ranks; 0 to sum over them.
    """
    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting, count, users_in_all = [], 0, 0
        for part, unit, everybody, users, (run, rule, gained, lost) in counts(batches, law, per_run if families else summed):
            users_in_all = len(part.user_ids)
            key = order[rule] * max(1, families) + (unit.run_rank[run] if families else 0)
            key = np.broadcast_to(np.asarray(key, np.int64), len(users))
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
        part_of_row = columns[0] // _users_per_part(users, parts)
        rows = np.argsort(part_of_row, kind="stable")
        bounds = np.searchsorted(part_of_row[rows], np.arange(parts + 1))
        for part in range(parts):
            if bounds[part] < bounds[part + 1]:
                mine = rows[bounds[part] : bounds[part + 1]]
                yield _packed_batch(part, users, False, [column[mine] for column in columns])


def _users_per_part(users: int, parts: int) -> int:
    return max(1, -(-users // parts))


def _packed_batch(part: int, users: int, is_everybody: bool, columns: list[np.ndarray]) -> pa.RecordBatch:
    place, run, gained, lost = (pa.array([column.astype(np.int64).tobytes()], pa.binary()) for column in columns)
    return pa.record_batch({
        "part": pa.array([part], pa.int32()), "what": pa.array([EVERYBODY_CHANGES if is_everybody else CHANGES], pa.int32()),
        "number": pa.array([users], pa.int64()), "name": pa.array([None], pa.string()), "place": place, "run": run,
        "gained": gained, "lost": lost})


def changes_merged(order: tuple[int, ...], parts: int, *, families: int) -> BatchFunction:
    """PACKED of whole parts of the users -> RUNS, summed, in the order of users, rules and namespaces, where anything changes."""
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
                yield from _named(_sums(changes, part, parts, each * len(rules)), rows, rules, each)

    return merged


def _named(sums: tuple[np.ndarray, ...], rows: list[dict], rules: np.ndarray, families: int) -> Iterator[pa.RecordBatch]:
    """As RUNS."""
    (users, user_places), (namespaces, ranks) = _names(rows, USER_NAME), _names(rows, NAMESPACE_NAME)
    for first in range(0, len(sums[0]), BATCH_ROWS):
        place, run, gained, lost = (column[first : first + BATCH_ROWS] for column in sums)
        rank = np.searchsorted(ranks, run % families)
        yield pa.record_batch({
            "user": users.take(pa.array(np.searchsorted(user_places, place))), "rule": rules[run // families].astype(np.int32),
            "namespace": namespaces.take(pa.array(rank)), "gained": gained, "lost": lost})


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
        users = np.arange(first, last)
        found.append((np.repeat(users, len(changes[0])), *(np.tile(column, len(users)) for column in changes)))
    place, run, gained, lost = (np.concatenate(column) for column in zip(*found, strict=True))
    key, gained, lost = _added(place * runs + run, gained, lost)
    differs = (gained != 0) | (lost != 0)
    place, run = np.divmod(key[differs], runs)
    return place, run, gained[differs], lost[differs]


def _added(key: np.ndarray, *columns: np.ndarray) -> list[np.ndarray]:
    """Each key once, in order, and each column summed by it."""
    order = np.argsort(key, kind="stable")
    key = key[order]
    begins = np.nonzero(np.diff(key, prepend=key[:1] - 1))[0]
    return [key[begins], *(np.add.reduceat(column[order], begins) for column in columns)]


def _unpacked(row: dict) -> tuple[np.ndarray, ...]:
    return tuple(np.frombuffer(row[name], np.int64) for name in ("place", "run", "gained", "lost"))


def holders_packed(law: Law, marking: frozenset[int]) -> BatchFunction:
    """Rows of a part -> PACKED_HOLDERS. marking: rules by which nothing is held; who gains only by them holds 0."""
    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting, count = [], 0
        for part, unit, everybody, users, (run, rule, gained, _) in counts(batches, law, per_run):
            if not everybody:
                held = np.zeros_like(gained) if rule in marking else gained
                waiting.append((unit.run_rank[run], part.user_places[users], held))
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
        places, held_there = _added(place[mine], held[mine])
        yield pa.record_batch({"rank": pa.array([number], pa.int64()), "place": pa.array([places.tobytes()], pa.binary()),
                               "held": pa.array([held_there.tobytes()], pa.binary())})


def holders_merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """PACKED_HOLDERS of whole namespaces, with `namespace` and `required`, and rows of `user` and `number` alone, which name all
    users and tell their places -> HOLDERS, in order."""
    batches = list(batches)
    if not batches:
        return
    table = pa.Table.from_batches(batches)
    is_user = pc.is_valid(table["user"])
    users = table.filter(is_user).sort_by("number")["user"].combine_chunks()
    by_rank: dict[int, list[dict]] = {}
    for row in table.filter(pc.invert(is_user)).to_pylist():
        by_rank.setdefault(row["rank"], []).append(row)
    for rank in sorted(by_rank):
        rows = by_rank.pop(rank)
        columns = [np.concatenate([np.frombuffer(row[name], np.int64) for row in rows]) for name in ("place", "held")]
        place, held = _added(*columns)
        yield pa.record_batch({
            "namespace": pa.repeat(pa.scalar(rows[0]["namespace"], pa.string()), len(place)),
            "user": users.take(pa.array(place)), "required": np.full(len(place), rows[0]["required"], np.int64), "held": held})
