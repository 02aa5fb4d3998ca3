"""Parse the revisions and times that questions name."""

import re
from datetime import datetime

from django.utils import timezone

from entities.vocabulary import clip
from grants.history.errors import AsOfError
from grants.journal import current_revision
from grants.models import JournalLine
from grants.policies.times import EXAMPLE, TimeError, is_time, parse_time

_MAX_REVISION = 10**18 - 1
_REVISION = re.compile(r"\d{1,18}", re.ASCII)


def parse_as_of(value: str | int) -> int:
    """Return the revision for a revision or an RFC 3339 time; for a time, that of the last line at or before it.

    Runs one query for a revision, up to two for a time. Raise AsOfError if there is no such revision.
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise AsOfError(f"as_of must be a revision (a whole number) or a time, such as {EXAMPLE}")
    # a number with thousands of digits cannot be written as text
    text = value.strip() if isinstance(value, str) else str(max(-1, min(value, _MAX_REVISION)))
    if _REVISION.fullmatch(text):
        return check_revision(int(text))
    if not is_time(text):
        raise AsOfError(f"`{clip(text)}` is neither a revision (a whole number) nor a time, such as {EXAMPLE}")
    return _revision_at(_parse(text))


def parse_at(value: str) -> datetime:
    """Return the time that a question is about. Raise AsOfError if it is not an RFC 3339 time with a time zone."""
    return _parse(value)


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


def _parse(text: object) -> datetime:
    try:
        return parse_time(text)
    except TimeError as error:
        raise AsOfError(str(error)) from None


def _revision_at(time: datetime) -> int:
    if time > timezone.now():
        raise AsOfError(f"{time.isoformat()} is in the future: as_of is a time in the past")
    lines = JournalLine.objects.filter(at__lte=time).order_by("-at", "-revision").values_list("revision", flat=True)
    if revision := lines.first():
        return revision
    first = JournalLine.objects.order_by("revision").values_list("at", flat=True).first()
    if first is None:
        raise AsOfError("the journal is empty: there is no earlier state")
    raise AsOfError(f"{time.isoformat()} is before the first journal line, of {first.isoformat(timespec='seconds')}")
