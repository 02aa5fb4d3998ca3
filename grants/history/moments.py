"""Parse the revisions and times that questions name."""

import re
from collections.abc import Collection
from datetime import UTC, datetime
from typing import NamedTuple

from django.db import connection
from django.utils import timezone

from entities.vocabulary import clip
from grants.bulk_rows import chunks, database_time
from grants.history.errors import AsOfError
from grants.journal import current_revision
from grants.models import JournalLine
from grants.policies.times import EXAMPLE, TimeError, is_time, parse_time

_MAX_REVISION = 10**18 - 1
_REVISION = re.compile(r"\d{1,18}", re.ASCII)


class Moment(NamedTuple):
    """The state and the time that a question is about.

    revision: the state after this journal line; None for the current state. at: the time; None for now, or
    for the time of the journal line.
    """

    revision: int | None = None
    at: datetime | None = None


NOW = Moment()


def parse_moment(as_of: object, at: object = None) -> Moment:
    """Return the moment of a question with the members or parameters `as_of` and `at`; None means that there
    is none.

    A time in `as_of` is also the time of the question, unless `at` names another one. Runs the queries of
    `parse_as_of`. Raise AsOfError if one of them is invalid.
    """
    time = None if at is None else parse_at(at)
    if as_of is None:
        return Moment(None, time)
    return Moment(parse_as_of(as_of), time or time_of_as_of(as_of))


def time_of_as_of(value: object) -> datetime | None:
    """Return the time of a valid `as_of`; None for a revision."""
    return parse_at(value) if isinstance(value, str) and is_time(value.strip()) else None


def parse_as_of(value: object) -> int:
    """Return the revision for a revision or an RFC 3339 time; for a time, that of the last line at or before
    it.

    Runs one query for a revision, up to two for a time. Raise AsOfError if there is no such revision.
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise AsOfError(f"as_of must be a revision (a whole number) or a time, such as {EXAMPLE}")
    # a number with thousands of digits cannot be written as text
    text = value.strip() if isinstance(value, str) else str(max(-1, min(value, _MAX_REVISION)))
    if _REVISION.fullmatch(text):
        return check_revision(int(text))
    if not is_time(text):
        raise AsOfError(
            f"`{clip(text)}` is neither a revision (a whole number) nor a time, such as {EXAMPLE}"
        )
    return _revision_at(parse_at(text))


def parse_at(value: object) -> datetime:
    """Return the time that a question is about.

    Raise AsOfError if it is not an RFC 3339 time with a time zone.
    """
    try:
        return parse_time(value)
    except TimeError as error:
        raise AsOfError(str(error)) from None


def check_revision(revision: int) -> int:
    """Return the revision. Runs one query. Raise AsOfError if there is no such journal line."""
    newest = current_revision()
    if revision > newest:
        raise AsOfError(f"revision {revision:,} does not exist: the newest revision is {newest:,}")
    if revision < 1:
        raise AsOfError("the first revision is 1")
    return revision


def revision_time(revision: int) -> datetime | None:
    """Return the time of a journal line; None if it does not exist. Runs one query."""
    return JournalLine.objects.filter(revision=revision).values_list("at", flat=True).first()


def first_revisions(times: Collection[datetime]) -> dict[datetime, int]:
    """Return the revision of the first journal line at or after each time. A time after the newest line is
    absent.

    Runs one query for every `ROWS_PER_STATEMENT` times.
    """
    revisions: dict[datetime, int] = {}
    table = JournalLine._meta.db_table
    first = (
        f"SELECT %s, (SELECT l.revision FROM {table} l WHERE l.at >= %s ORDER BY l.at, l.revision LIMIT 1)"
    )
    for chunk in chunks(times):
        parameters = [
            parameter for number, time in enumerate(chunk) for parameter in (number, database_time(time))
        ]
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join([first] * len(chunk)), parameters)
            revisions |= {
                chunk[number]: revision for number, revision in cursor.fetchall() if revision is not None
            }
    return revisions


def _revision_at(time: datetime) -> int:
    if time > timezone.now():
        raise AsOfError(f"{_in_words(time)} is in the future: as_of is a time in the past")
    lines = (
        JournalLine.objects.filter(at__lte=time)
        .order_by("-at", "-revision")
        .values_list("revision", flat=True)
    )
    if revision := lines.first():
        return revision
    first = JournalLine.objects.order_by("revision").values_list("at", flat=True).first()
    if first is None:
        raise AsOfError("the journal is empty: there is no earlier state")
    raise AsOfError(f"{_in_words(time)} is before the first journal line, of {_in_words(first)}")


def _in_words(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
