"""Validity periods of grants and memberships: the time that a question is about, and the condition that a row
counts then.

A grant or a membership counts where `valid_from <= at < valid_until`; a missing limit always holds. Outside
its period it does not exist for any decision, list, search, effect or report. Lists of stored grants show it
with its period.

Every evaluator uses `question_time`, so all its parts agree. `at_time` sets it: to the time that a request
names, or to one "now" for several statements. Periods are compared with the clock of this process, not with
that of the database, and no task is needed for a period to end.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import local
from typing import NamedTuple, Self, TypeVar

from django.apps import apps
from django.db import connection
from django.db.models import Q
from django.utils import timezone

from entities.vocabulary import clip
from grants.errors import GrantError
from grants.policies.times import TimeError, format_time, parse_time, time_in_words

Row = TypeVar("Row")
VALIDITY_COLUMNS = ("valid_from", "valid_until")
# the models with these columns whose rows evaluators read; `RoleMembership` is derived from the last two
_MODELS = ("UserGrant", "GroupGrant", "Membership", "RoleGroup")
_OPEN = ".."
_PERIOD = re.compile(r"valid (\S+)/(\S+?)(?:; |$)")
# A thread has its own time, like its connection to the database; see also `grants.history.past`.
_current = local()


class ValidityError(GrantError):
    """A period is invalid. field: `valid_from` or `valid_until`."""


class Validity(NamedTuple):
    """A period in which a grant or a membership counts.

    None means no limit. Both times are whole seconds, in UTC.
    """

    valid_from: datetime | None = None
    valid_until: datetime | None = None

    @classmethod
    def parse(cls, valid_from: object = None, valid_until: object = None) -> Self:
        """Return the period between two RFC 3339 times with a time zone; None and an empty text are no limit.

        Raise ValidityError for an invalid time, for fractions of a second, or if the end is not after the
        beginning.
        """
        return cls.between(_parse("valid_from", valid_from), _parse("valid_until", valid_until))

    @classmethod
    def between(cls, valid_from: datetime | None = None, valid_until: datetime | None = None) -> Self:
        """Return the period between two times. Raise ValidityError like `parse`."""
        period = cls(_whole_seconds("valid_from", valid_from), _whole_seconds("valid_until", valid_until))
        if period.valid_from and period.valid_until and period.valid_from >= period.valid_until:
            raise ValidityError(
                f"the end {format_time(period.valid_until)} is not after the beginning "
                f"{format_time(period.valid_from)}",
                field="valid_until",
            )
        return period

    def within(self, period: "Validity") -> "Validity | None":
        """Return the part of the period that lies in another one; None if there is none."""
        start = max(filter(None, (self.valid_from, period.valid_from)), default=None)
        end = min(filter(None, (self.valid_until, period.valid_until)), default=None)
        return None if start and end and start >= end else Validity(start, end)

    def overlaps(self, other: "Validity") -> bool:
        """Return whether the periods have a common time."""
        return (
            self.valid_from is None or other.valid_until is None or self.valid_from < other.valid_until
        ) and (other.valid_from is None or self.valid_until is None or other.valid_from < self.valid_until)

    def union(self, other: "Validity") -> "Validity":
        """Return the period of both, if they meet; otherwise the one that begins first."""
        first, second = sorted(
            (self, other), key=lambda period: (period.valid_from is not None, period.valid_from)
        )
        if first.valid_until and second.valid_from and first.valid_until < second.valid_from:
            return first
        ends = (first.valid_until, second.valid_until)
        return Validity(first.valid_from, None if None in ends else max(filter(None, ends)))

    @property
    def is_limited(self) -> bool:
        return self.valid_from is not None or self.valid_until is not None

    def includes(self, at: datetime) -> bool:
        """Return whether a row with this period counts at this time."""
        return (self.valid_from is None or self.valid_from <= at) and not self.is_over(at)

    def is_over(self, at: datetime) -> bool:
        """Return whether the period has ended."""
        return self.valid_until is not None and self.valid_until <= at

    def check_not_over(self, at: datetime | None = None) -> None:
        """Raise ValidityError if the period has ended, because a row with it would never count. at: now by
        default.
        """
        if self.is_over(at or timezone.now()):
            raise ValidityError(
                f"the end {format_time(self.valid_until)} is in the past", field="valid_until"
            )

    @property
    def sentence(self) -> str:
        """The period in words, such as `until 5 December 2026, 17:00 UTC`; empty without limits."""
        parts = (
            (word, time)
            for word, time in (("from", self.valid_from), ("until", self.valid_until))
            if time is not None
        )
        return " ".join(f"{word} {time_in_words(time)}" for word, time in parts)


def format_period(period: Validity, detail: str = "") -> str:
    """Return the `detail` of a journal line about a grant or a membership with this period.

    detail: the other content. The period is first, such as `valid 2026-12-01T00:00:00Z/2026-12-05T16:00:00Z;
    group:analysts`, because names may contain any text. Two dots stand for no limit. Without limits the
    detail is unchanged.
    """
    if not period.is_limited:
        return detail
    text = f"valid {'/'.join(format_time(time) or _OPEN for time in period)}"
    return f"{text}; {detail}" if detail else text


def parse_period(detail: str) -> tuple[Validity, str]:
    """Return the period in the `detail` of a journal line, and the other content.

    The only reader of `format_period`.
    """
    if (match := _PERIOD.match(detail)) is None:
        return Validity(), detail
    times = (None if text == _OPEN else parse_time(text) for text in match.groups())
    return Validity(*times), detail[match.end() :]


def question_time() -> datetime:
    """Return the time that the current question is about: that of the surrounding `at_time`, or now."""
    return getattr(_current, "time", None) or timezone.now()


@contextmanager
def at_time(moment: datetime | None = None) -> Iterator[datetime]:
    """Evaluate the questions of this thread at a time, until the context exits. Yield the time.

    moment: None keeps the time of a surrounding `at_time`; without one it is now, the same for all questions
    inside. A generator must not yield inside, because the time would also apply to its caller.
    """
    before = getattr(_current, "time", None)
    _current.time = moment = moment or question_time()
    try:
        yield moment
    finally:
        _current.time = before


def iterate_at_time(moment: datetime | None, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows. Each row is computed inside `at_time(moment)`; the code between two rows is not."""
    iterator = iter(rows)
    with at_time(moment) as moment:
        pass
    while True:
        with at_time(moment):
            try:
                row = next(iterator)
            except StopIteration:
                return
        yield row


def in_force(path: str = "", at: datetime | None = None) -> dict[str, datetime]:
    """Return the condition that a row counts, as keyword arguments for `filter`.

    path: the query path to the row, such as `memberships__`. If the path leads to many rows of one object,
    pass the condition in the same call of `filter` as the other conditions on the path. at: default
    `question_time`.
    """
    return {f"{path}pk__in_force": at or question_time()}


def in_force_condition(path: str = "", at: datetime | None = None) -> Q:
    """Return the condition that a row counts; see `in_force`."""
    return Q(**in_force(path, at))


def not_over_condition(at: datetime) -> Q:
    """Return the condition that a period has not ended at this time. It may not have begun yet."""
    return Q(valid_until__isnull=True) | Q(valid_until__gt=at)


def period_change_condition(since: datetime, until: datetime) -> Q:
    """Return the condition that a period began or ended between two times, both included."""
    return Q(valid_from__range=(since, until)) | Q(valid_until__range=(since, until))


def in_force_sql(alias: str, at: str) -> str:
    """Return the SQL condition that a row counts. alias: that of its table. at: an SQL expression for the
    time, used twice.
    """
    return (
        f"({alias}.valid_from IS NULL OR {alias}.valid_from <= {at}) "
        f"AND ({alias}.valid_until IS NULL OR {alias}.valid_until > {at})"
    )


def next_change_of_time(after: datetime) -> datetime | None:
    """Return the first time after `after` at which a period begins or ends; None if there is none.

    Until then, time alone changes no answer, so a cached answer of `after` stays correct while the journal
    does not change. Runs one query, which reads one index entry for each column.
    """
    return _first_limit("MIN", ">", after)


def has_change_of_time(between: datetime, and_: datetime) -> bool:
    """Return whether a period begins or ends after the earlier one of two times, up to the later one. Runs
    one query.

    If it returns False, a result for one of the times is also correct for the other one, unless data changed.
    Either time may be the earlier one, because the clock may have been set back.
    """
    change = next_change_of_time(min(between, and_))
    return change is not None and change <= max(between, and_)


def last_change_of_time(at: datetime) -> datetime | None:
    """Return the last time up to `at` at which a period began or ended; None if there is none.

    A result of `at` is also correct for other times with the same last change. Runs one query, like
    `next_change_of_time`.
    """
    return _first_limit("MAX", "<=", at)


def _first_limit(aggregate: str, comparison: str, time: datetime) -> datetime | None:
    tables = [apps.get_model("grants", name)._meta.db_table for name in _MODELS]
    limits = " UNION ALL ".join(
        f"SELECT {aggregate}({column}) AS at FROM {table} WHERE {column} {comparison} %s"
        for table in tables
        for column in VALIDITY_COLUMNS
    )
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {aggregate}(at) FROM ({limits}) limits",
            [connection.ops.adapt_datetimefield_value(time)] * len(tables) * len(VALIDITY_COLUMNS),
        )
        (value,) = cursor.fetchone()
    if isinstance(value, str):
        # SQLite has no type for times
        value = datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value


def _parse(field: str, value: object) -> datetime | None:
    if value is None or value == "":
        return None
    try:
        return parse_time(value)
    except TimeError as error:
        raise ValidityError(str(error), field=field) from None


def _whole_seconds(field: str, time: datetime | None) -> datetime | None:
    if time is None:
        return None
    if time.tzinfo is None:
        raise ValidityError(f"`{clip(str(time))}` has no time zone", field=field)
    if time.microsecond:
        raise ValidityError(f"`{clip(str(time))}` has fractions of a second: use whole seconds", field=field)
    return time.astimezone(UTC)
