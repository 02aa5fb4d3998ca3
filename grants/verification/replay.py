"""Replay the journal and compare the result with the tables.

The facts of the journal and of the tables go to a temporary SQLite file, so memory use does not grow with the
journal.
"""

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from django.conf import settings

from grants.consistent_read import consistent_read
from grants.journal import ChainBreak, first_break
from grants.journal_details import parse_detail, period_detail
from grants.models import JournalLine
from grants.verification.anchor import AnchorCheck
from grants.verification.facts import (
    ALLOWED_TYPES,
    OPTIONAL_TYPES,
    SEPARATOR,
    Fact,
    facts_of_line,
    facts_of_tables,
    title_of,
)

_REVISION, _ACTION, _PRINCIPAL, _DETAIL = (
    JournalLine.HASHED.index(name) for name in ("revision", "action", "principal", "detail")
)
_RENAMES = ("user-rename", "group-rename")
_MEMBERSHIPS = ("member-add", "member-remove")
# between a name and the revision of the rename after which another principal may have the name; in no name
_REUSED = "\x1e"


class Renames:
    """The names that principals had first, by their current names. Facts are stated with the first names."""

    def __init__(self) -> None:
        self._first_names: dict[str, str] = {}

    def translate_line(self, values: tuple) -> tuple:
        """Return the line with first names. values: in the order of `JournalLine.HASHED`."""
        if values[_ACTION] in _RENAMES:
            self._add(values[_PRINCIPAL], values[_DETAIL], values[_REVISION])
            return values
        if not self._first_names:
            return values
        line = list(values)
        line[_PRINCIPAL] = self._first_name(line[_PRINCIPAL])
        if line[_ACTION] in _MEMBERSHIPS:
            period, before, group = parse_detail(line[_DETAIL])
            line[_DETAIL] = period_detail(period, self._first_name(group), before=before)
        return tuple(line)

    def translate_facts(self, facts: Iterable[Fact]) -> Iterator[Fact]:
        """Yield the facts of the tables with first names."""
        if not self._first_names:
            yield from facts
            return
        for key, value in facts:
            type_, *names = key.split(SEPARATOR)
            yield SEPARATOR.join((type_, *map(self._first_name, names))), self._translated_value(type_, value)

    def _translated_value(self, type_: str, value: str | None) -> str | None:
        """Return a value with first names. The value of an identity is its account, that of approvers a
        group.

        The value of a token starts with its owner.
        """
        if value is None or type_ not in ("identity", "token", "approvers"):
            return value
        if type_ != "token":
            return self._first_name(value)
        owners = [name for name in self._first_names if value.startswith(f"{name}, ")]
        owner = max(owners, key=len, default="")
        return self._first_name(owner) + value[len(owner) :] if owner else value

    def _add(self, old: str, new: str, revision: int) -> None:
        first_name = self._first_name(old)
        self._first_names[old] = f"{old}{_REUSED}{revision}"
        self._first_names[new] = first_name

    def _first_name(self, name: str) -> str:
        return self._first_names.get(name, name)


def shown_name(name: str) -> str:
    """Return a first name as it was written in the journal."""
    return name.partition(_REUSED)[0]


FACTS_PER_BATCH = 100_000
_SCHEMA = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536; PRAGMA locking_mode = EXCLUSIVE;
CREATE TABLE replayed (key TEXT PRIMARY KEY, value TEXT, revision INTEGER) WITHOUT ROWID;
CREATE TABLE stored (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""
_OPTIONAL, _ALLOWED = (", ".join(f"'{name}'" for name in types) for types in (OPTIONAL_TYPES, ALLOWED_TYPES))
_FIRST_DIFFERENCE = f"""
SELECT key, stored.value, replayed.value, revision FROM stored LEFT JOIN replayed USING (key)
WHERE replayed.value IS NOT stored.value
    AND NOT (revision IS NULL AND substr(key, 1, instr(key, :separator) - 1) IN ({_OPTIONAL}))
UNION ALL
SELECT key, NULL, value, revision FROM replayed WHERE value IS NOT NULL AND key NOT IN (SELECT key FROM stored)
    AND substr(key, 1, instr(key, :separator) - 1) NOT IN ({_ALLOWED})
ORDER BY key LIMIT 1"""


def first_fault(more_facts: Callable[[], Iterable[Fact]] = tuple) -> ChainBreak | str | None:
    """Verify the chain, the anchors and the tables. Return the first fault, or None.

    more_facts: the facts of the tables of other packages, such as tokens.
    """
    with consistent_read(), _fact_store() as store:
        replay, anchors, renames = _Replay(store), AnchorCheck(), Renames()

        def visit(values: tuple) -> None:
            replay.add(renames.translate_line(values))
            anchors.check(values)

        if (chain_break := first_break(visit)) is not None:
            return chain_break
        if fault := anchors.first_fault():
            return fault
        replay.write()
        _store_facts(store, renames.translate_facts(facts_of_tables()))
        _store_facts(store, renames.translate_facts(more_facts()))
        return _first_difference(store)


class _Replay:
    """The facts of the lines since the last batch; the last value of each key counts."""

    def __init__(self, store: sqlite3.Connection):
        self._store = store
        self._batch: dict[str, tuple[str | None, int]] = {}
        self._passkeys = Counter[str]()

    def add(self, values: tuple) -> None:
        revision = values[0]
        for key, value in facts_of_line(values, self._passkeys):
            self._batch[key] = (value, revision)
        if len(self._batch) >= FACTS_PER_BATCH:
            self.write()

    def write(self) -> None:
        # in the order of the keys, because random insertion into a large table is slow
        rows = [(key, *self._batch[key]) for key in sorted(self._batch)]
        self._store.executemany("INSERT OR REPLACE INTO replayed VALUES (?, ?, ?)", rows)
        self._batch.clear()


def _store_facts(store: sqlite3.Connection, facts: Iterable[Fact]) -> None:
    facts = iter(facts)
    while batch := list(islice(facts, FACTS_PER_BATCH)):
        store.executemany("INSERT OR REPLACE INTO stored VALUES (?, ?)", sorted(batch))


def _first_difference(store: sqlite3.Connection) -> str | None:
    row = store.execute(_FIRST_DIFFERENCE, {"separator": SEPARATOR}).fetchone()
    if row is None:
        return None
    key, stored, replayed, revision = row
    title = title_of(SEPARATOR.join(map(shown_name, key.split(SEPARATOR))))
    if stored is None:
        return f"{title} is `{replayed}` after line {revision} of the journal, but missing in the tables"
    if revision is None:
        return f"{title} is `{stored}` in the tables, but no line of the journal says so"
    if replayed is None:
        return f"{title} is `{stored}` in the tables, but line {revision} of the journal removed it"
    return f"{title} is `{stored}` in the tables, but `{replayed}` after line {revision} of the journal"


@contextmanager
def _fact_store() -> Iterator[sqlite3.Connection]:
    with tempfile.TemporaryDirectory(prefix="verify-journal-", dir=settings.TEMP_DIR) as folder:
        store = sqlite3.connect(Path(folder) / "facts.sqlite3", isolation_level=None)
        try:
            store.executescript(_SCHEMA)
            store.execute("BEGIN")
            yield store
        finally:
            store.close()
