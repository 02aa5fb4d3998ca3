"""Parse the revisions and times that questions name."""

import re
from datetime import datetime

from django.utils import timezone

from entities.vocabulary import clip
from grants.history.errors import AsOfError
from grants.journal import current_revision
from grants.models import JournalLine

_REVISION = re.compile(r"\d{1,18}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|z|[+-]\d\d:\d\d)?", re.ASCII)


def parse_as_of(value: str | int) -> int:
    """Return the revision for a revision or an RFC 3339 time; for a time, that of the last line at or before it.

    Runs one query for a revision, up to two for a time. Raise AsOfError if there is no such revision.
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise AsOfError("as_of must be a revision (a whole number) or a time, such as 2026-05-01T12:00:00Z")
    text = str(value).strip()
    if _REVISION.fullmatch(text):
        return check_revision(int(text))
    if not _TIME.fullmatch(text):
        raise AsOfError(f"`{clip(text)}` is neither a revision (a whole number) nor a time, such as 2026-05-01T12:00:00Z")
    return _revision_at(_time(text))


def parse_at(value: str) -> datetime:
    """Return the time that a question is about. Raise AsOfError if it is not an RFC 3339 time with a time zone."""
    text = value.strip() if isinstance(value, str) else ""
    if not _TIME.fullmatch(text):
        raise AsOfError(f"`{clip(str(value))}` is not a time, such as 2026-05-01T12:00:00Z")
    return _time(text)


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


def _time(text: str) -> datetime:
    # Python reads at most six digits of a second
    text = re.sub(r"(\.\d{6})\d+", r"\1", text).upper()
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise AsOfError(f"`{clip(text)}` is not a time: there is no such day or hour") from None
    if time.tzinfo is None:
        raise AsOfError(f"`{clip(text)}` has no time zone: add Z for UTC, or an offset such as +01:00")
    return time


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
