"""Translate journal lines to events: what a line sets for a grant, a membership, an address, a user, a group
or the generation.

The definition of what a line sets is `grants.verification.facts.facts_of_line`, with which `verify_journal`
replays the journal. This module adds whether a user is a principal, and the generation before the first
change of it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from grants.models import JournalLine
from grants.verification import SEPARATOR, facts_of_line

LINE_COLUMNS = JournalLine.HASHED
_REVISION, _AT, _ACTOR, _ACTION, _PRINCIPAL, _DETAIL, _REASON = (
    LINE_COLUMNS.index(name)
    for name in ("revision", "at", "actor", "action", "principal", "detail", "reason")
)
# facts about a user that its periods contain, with the name of their column
_USER_FACTS = {"active": "is_active", "role": "role", "service": "is_service"}


class Event(NamedTuple):
    """The value that one journal line sets for a key; None ends the period.

    For a user, the changed columns by name.
    """

    revision: int
    value: Any
    at: datetime
    actor: str
    reason: str


# the events of each key in the order of their lines, by type of the key: grant, member, entity, user, group,
# generation
Events = dict[str, dict[tuple[str, ...], list[Event]]]


def events_of_lines(lines: Iterable[tuple]) -> Events:
    """Return the events of lines in the order of their revisions.

    The values of a line are in the order of LINE_COLUMNS.
    """
    events: Events = defaultdict(lambda: defaultdict(list))
    for line in lines:
        for type_, key, value in _values_of_line(line):
            events[type_][key].append(Event(line[_REVISION], value, line[_AT], line[_ACTOR], line[_REASON]))
    return events


def rename_of_line(line: tuple) -> tuple[str, str] | None:
    """Return the old and the new name of a principal, in written form, if the line is a rename; otherwise
    None.

    This is the only place that reads such lines. A rename changes the name of all open periods of the
    principal at once, so it is no event of a key (grants.history.periods).
    """
    if line[_ACTION] not in ("user-rename", "group-rename"):
        return None
    old = line[_PRINCIPAL]
    return old, line[_DETAIL]


def line_position(line: tuple) -> tuple[int, datetime]:
    """Return the revision and the time of a line."""
    return line[_REVISION], line[_AT]


def new_users(lines: Iterable[tuple]) -> set[str]:
    """Return the written names of the users that the lines add."""
    return {line[_PRINCIPAL] for line in lines if line[_ACTION] == "user-add"}


def late_principals(lines: Iterable[tuple]) -> dict[str, int]:
    """Return the accounts that became principals after they were added, by written name, with the first such
    revision.
    """
    late: dict[str, int] = {}
    for line in lines:
        if line[_ACTION] == "principal-add":
            late.setdefault(line[_PRINCIPAL], line[_REVISION])
    return late


def _values_of_line(line: tuple) -> Iterable[tuple[str, tuple[str, ...], Any]]:
    user_columns: dict[str, Any] = {}
    principal, is_removed = line[_PRINCIPAL], False
    for key, value in facts_of_line(line, Counter()):
        type_, *names = key.split(SEPARATOR)
        if type_ in ("grant", "member", "entity", "group"):
            yield type_, tuple(names), value
        elif type_ == "generation":
            yield type_, (), value
        elif type_ == "active" and value is None:
            is_removed = True
            yield "user", (principal,), None
        elif type_ in _USER_FACTS:
            user_columns[_USER_FACTS[type_]] = {"active": True, "inactive": False, "yes": True}.get(
                value, value
            )
    if line[_ACTION] == "principal-add":
        user_columns["is_principal"] = True
    if user_columns and not is_removed:
        yield "user", (principal,), user_columns
