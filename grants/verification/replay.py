"""Replay the journal and compare the result with the tables, and with the periods of the history.

The facts of the journal and of the tables go to a temporary SQLite file, so memory use does not grow with the
journal.
"""

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from pathlib import Path

from django.conf import settings

from grants.consistent_read import consistent_read
from grants.derived import first_derived_fault
from grants.journal import ChainBreak, current_head, first_break
from grants.journal_details import parse_detail, period_detail
from grants.models import JournalLine
from grants.role_members import role_membership_fault
from grants.verification.anchor import AnchorCheck
from grants.verification.facts import (
    ALLOWED_TYPES,
    OPTIONAL_TYPES,
    REUSED,
    SEPARATOR,
    Fact,
    fact_key,
    facts_of_line,
    facts_of_tables,
    previous_generation,
    title_of,
)
from grants.verification.periods import (
    PERIOD_TYPES,
    HistoryFault,
    derived_revision,
    stored_periods,
)

_REVISION, _ACTION, _PRINCIPAL, _DETAIL = (
    JournalLine.HASHED.index(name) for name in ("revision", "action", "principal", "detail")
)
_RENAMES = ("user-rename", "group-rename")
_MEMBERSHIPS = ("member-add", "member-remove")


class Renames:
    """The names that principals had first, by their current names. Facts are stated with the first names."""

    def __init__(self) -> None:
        self._first_names: dict[str, str] = {}
        # by name: the revision of each rename from or to it, and the first name of who had it before
        self._earlier: dict[str, list[tuple[int, str]]] = {}

    def translate_line(self, values: tuple) -> tuple:
        """Return the line with first names. values: in the order of `JournalLine.HASHED`."""
        if values[_ACTION] in _RENAMES:
            self._add(values[_PRINCIPAL], values[_DETAIL], values[_REVISION])
            return values
        if not self._first_names:
            return values
        line = list(values)
        line[_PRINCIPAL] = self.first_name(line[_PRINCIPAL])
        if line[_ACTION] in _MEMBERSHIPS:
            period, before, group = parse_detail(line[_DETAIL])
            line[_DETAIL] = period_detail(period, self.first_name(group), before=before)
        return tuple(line)

    def translate_facts(self, facts: Iterable[Fact]) -> Iterator[Fact]:
        """Yield the facts of the tables with first names."""
        if not self._first_names:
            yield from facts
            return
        for key, value in facts:
            type_, *names = key.split(SEPARATOR)
            yield SEPARATOR.join((type_, *map(self.first_name, names))), self._translated_value(type_, value)

    def _translated_value(self, type_: str, value: str | None) -> str | None:
        """Return a value with first names. The value of an identity is its account, that of approvers a
        group, and that of a guardrail the principal that it is about.

        The value of a token starts with its owner.
        """
        if value is None or type_ not in ("identity", "token", "approvers", "guardrail-principal"):
            return value
        if type_ != "token":
            return self.first_name(value)
        owners = [name for name in self._first_names if value.startswith(f"{name}, ")]
        owner = max(owners, key=len, default="")
        return self.first_name(owner) + value[len(owner) :] if owner else value

    def _add(self, old: str, new: str, revision: int) -> None:
        first_name = self.first_name(old)
        for name in (old, new):
            self._earlier.setdefault(name, []).append((revision, self.first_name(name)))
        self._first_names[old] = f"{old}{REUSED}{revision}"
        self._first_names[new] = first_name

    def first_name(self, name: str) -> str:
        """Return the first name of the principal that has this name now."""
        return self._first_names.get(name, name)

    def first_name_at(self, name: str, revision: int) -> str:
        """Return the first name of the principal that had this name at a revision."""
        later = (first_name for renamed, first_name in self._earlier.get(name, ()) if renamed > revision)
        return next(later, self.first_name(name))


FACTS_PER_BATCH = 100_000
# events: what each line says; replayed: what the last line about each key says; stored: what the tables contain
_SCHEMA = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536; PRAGMA locking_mode = EXCLUSIVE;
CREATE TABLE events (key TEXT, revision INTEGER, value TEXT, PRIMARY KEY (key, revision)) WITHOUT ROWID;
CREATE TABLE replayed (key TEXT PRIMARY KEY, value TEXT, revision INTEGER) WITHOUT ROWID;
CREATE TABLE stored (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE periods (
    key TEXT, revision INTEGER, until INTEGER, value TEXT, PRIMARY KEY (key, revision)
) WITHOUT ROWID;
"""
_OPTIONAL, _ALLOWED, _IN_PERIODS = (
    ", ".join(f"'{name}'" for name in types) for types in (OPTIONAL_TYPES, ALLOWED_TYPES, PERIOD_TYPES)
)
_TYPE = "substr(key, 1, instr(key || :separator, :separator) - 1)"
_LAST_EVENTS = "INSERT INTO replayed SELECT key, value, MAX(revision) FROM events GROUP BY key"
_FIRST_DIFFERENCE = f"""
SELECT key, stored.value, replayed.value, revision FROM stored LEFT JOIN replayed USING (key)
WHERE replayed.value IS NOT stored.value AND NOT (revision IS NULL AND {_TYPE} IN ({_OPTIONAL}))
UNION ALL
SELECT key, NULL, value, revision FROM replayed WHERE value IS NOT NULL AND key NOT IN (SELECT key FROM stored)
    AND {_TYPE} NOT IN ({_ALLOWED})
ORDER BY key LIMIT 1"""
# the periods that follow from the events; an event that repeats the value of the one before changes nothing
_EXPECTED = f"""
WITH changes AS (
    SELECT key, revision, value, LAG(value) OVER (PARTITION BY key ORDER BY revision) AS value_before
    FROM events WHERE revision <= :last AND {_TYPE} IN ({_IN_PERIODS})
), spans AS (
    SELECT key, revision, value, LEAD(revision) OVER (PARTITION BY key ORDER BY revision) AS until
    FROM changes WHERE value IS NOT value_before
), expected AS (SELECT * FROM spans WHERE value IS NOT NULL)
"""
_SAME_PERIODS = f"""{_EXPECTED}
SELECT COUNT(*), COUNT(periods.key) FROM expected LEFT JOIN periods
ON periods.key = expected.key AND periods.revision = expected.revision
    AND periods.until IS expected.until AND periods.value = expected.value"""
_FIRST_MISSING_PERIOD = f"""{_EXPECTED}
SELECT key, revision, until, value FROM expected EXCEPT SELECT key, revision, until, value FROM periods
ORDER BY key, revision LIMIT 1"""
_FIRST_ADDED_PERIOD = f"""{_EXPECTED}
SELECT key, revision, until, value FROM periods EXCEPT SELECT key, revision, until, value FROM expected
ORDER BY key, revision LIMIT 1"""
REBUILD_HINT = "`manage.py verify_journal --rebuild-history` derives the history from the journal again"


def first_fault(more_facts: Callable[[], Iterable[Fact]] = tuple) -> ChainBreak | str | None:
    """Verify the chain, the anchors, the tables and the history. Return the first fault, or None.

    more_facts: the facts of the tables of other packages, such as tokens.
    """
    with consistent_read(), _fact_store() as store:
        renames = Renames()
        if fault := _replay_journal(store, renames):
            return fault
        store.execute(_LAST_EVENTS)
        _store_facts(store, renames.translate_facts(facts_of_tables()))
        _store_facts(store, renames.translate_facts(more_facts()))
        return (
            _first_difference(store)
            or role_membership_fault()
            or first_derived_fault()
            or _history_difference(store, renames)
            or None
        )


def first_history_fault() -> ChainBreak | str | None:
    """Verify the chain, the anchors and the history, for a caller that reads only the history.

    Return the first fault, or None.
    """
    with consistent_read(), _fact_store() as store:
        renames = Renames()
        return _replay_journal(store, renames) or _history_difference(store, renames)


def _replay_journal(store: sqlite3.Connection, renames: Renames) -> ChainBreak | str | None:
    """Store the events of all lines. Return the first fault of the chain or the anchors, or None."""
    replay, anchors = _Replay(store, renames), AnchorCheck()

    def visit(values: tuple) -> None:
        replay.add(values)
        anchors.check(values)

    if (chain_break := first_break(visit)) is not None:
        return chain_break
    replay.write()
    return anchors.first_fault() or None


class _Replay:
    """The events of the lines since the last batch."""

    def __init__(self, store: sqlite3.Connection, renames: Renames):
        self._store, self._renames = store, renames
        self._batch: list[tuple[str, int, str | None]] = []
        self._passkeys = Counter[str]()
        self._knows_generation = False

    def add(self, values: tuple) -> None:
        revision, line = values[_REVISION], self._renames.translate_line(values)
        facts = facts_of_line(line, self._passkeys)
        if (named := self._name_of_line(values, line)) is not None:
            facts.append(named)
        self._batch += ((key, revision, value) for key, value in facts)
        if not self._knows_generation and (before := previous_generation(values)) is not None:
            # the history begins with the generation before the first change of it
            self._knows_generation = True
            self._batch.append((fact_key("generation"), 0, before))
        if len(self._batch) >= FACTS_PER_BATCH:
            self.write()

    def _name_of_line(self, values: tuple, line: tuple) -> Fact | None:
        """Return the fact that a principal gets or loses a name, by its first name."""
        action, name = values[_ACTION], values[_PRINCIPAL]
        if action in ("user-add", "group-add"):
            return fact_key("name", line[_PRINCIPAL]), name
        if action in ("user-remove", "group-remove"):
            return fact_key("name", line[_PRINCIPAL]), None
        if action in _RENAMES:
            return fact_key("name", self._renames.first_name(values[_DETAIL])), values[_DETAIL]
        return None

    def write(self) -> None:
        # in the order of the keys, because random insertion into a large table is slow
        self._store.executemany(
            "INSERT INTO events VALUES (?, ?, ?)", sorted(self._batch, key=itemgetter(0, 1))
        )
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
    title = title_of(key)
    if stored is None:
        return f"{title} is `{replayed}` after line {revision} of the journal, but missing in the tables"
    if revision is None:
        return f"{title} is `{stored}` in the tables, but no line of the journal says so"
    if replayed is None:
        return f"{title} is `{stored}` in the tables, but line {revision} of the journal removed it"
    return f"{title} is `{stored}` in the tables, but `{replayed}` after line {revision} of the journal"


def _history_difference(store: sqlite3.Connection, renames: Renames) -> str | None:
    """Compare the periods of the history with those that follow from the events."""
    last, count = derived_revision(), 0
    if not last:
        return None
    periods = stored_periods(renames, is_current=last == current_head().revision)
    try:
        while batch := sorted(islice(periods, FACTS_PER_BATCH), key=itemgetter(0, 1)):
            count += len(batch)
            store.executemany("INSERT OR REPLACE INTO periods VALUES (?, ?, ?, ?)", batch)
    except HistoryFault as fault:
        return f"{fault}; {REBUILD_HINT}"
    # each of the two sorts of the comparison uses as much memory as the cache
    store.execute("PRAGMA cache_size = -16384")
    parameters = {"separator": SEPARATOR, "last": last}
    expected, found = store.execute(_SAME_PERIODS, parameters).fetchone()
    if expected == found == count:
        return None
    if row := store.execute(_FIRST_MISSING_PERIOD, parameters).fetchone():
        key, revision, until, value = row
        end = "" if until is None else f" to line {until}"
        return (
            f"{title_of(key)} is `{value}` from line {revision} of the journal{end}, but the history does not "
            f"contain this; {REBUILD_HINT}"
        )
    row = store.execute(_FIRST_ADDED_PERIOD, parameters).fetchone()
    if row is None:
        return f"the history contains a period twice; {REBUILD_HINT}"
    key, revision, _, value = row
    return (
        f"{title_of(key)} is `{value}` from line {revision} in the history, but the journal does not say so; "
        f"{REBUILD_HINT}"
    )


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
