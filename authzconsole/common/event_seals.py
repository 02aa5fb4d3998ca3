"""Seal security events: journal lines with the digests of the events since the line before.

`verify_journal` computes the digests again, so it notices deleted, changed and added events. Events that their
retention deletes are not compared.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from authzconsole.models import SecurityEvent
from grants.bulk_rows import stream_rows
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import JournalLine
from grants.policies.times import format_time
from grants.verification import EVENTS_SEAL, Fact, fact_key

AUTHOR = Author("security-events")
MAX_EVENTS_PER_SEAL = 200_000
# numbers are assigned before a transaction commits, so an event with a lower number can become visible later
SETTLE_TIME = timedelta(minutes=10)
_SEAL = re.compile(r"events (\d+) to (\d+): (\d+ since (\S+), content [0-9a-f]{64})", re.ASCII)
_COLUMNS = ("pk", "at", "kind", "account", "address", "target", "detail", "request_id", "token", "count")


def seal_security_events() -> int:
    """Append a journal line about the events since the last such line. Return the number of sealed events.

    At most MAX_EVENTS_PER_SEAL of them; the next call continues.
    """
    with transaction.atomic():
        # no transaction that writes events together with journal lines is open while this lock is held
        head = lock_journal()
        newest = _seals().order_by("-revision").values_list("detail", flat=True).first()
        match = _SEAL.fullmatch(newest or "")
        first = int(match[2]) + 1 if match else 1
        numbers = _settled_numbers(first)
        if not numbers:
            return 0
        last = numbers[-1]
        detail = f"events {first} to {last}: {_content(first, last)}"
        append_to_journal(head, [JournalEntry(EVENTS_SEAL, detail=detail)], author=AUTHOR)
    return len(numbers)


def facts_of_security_events() -> Iterator[Fact]:
    """Yield the content of the events of each seal. What their retention may have deleted is not compared."""
    kept_days = settings.SECURITY_EVENTS_KEPT_DAYS
    kept_since = timezone.now() - timedelta(days=kept_days) if kept_days else None
    for detail in _seals().order_by("revision").values_list("detail", flat=True).iterator():
        if match := _SEAL.fullmatch(detail):
            first, last, content, since = match.groups()
            is_kept = kept_since is None or datetime.fromisoformat(since) > kept_since
            yield fact_key("events", first, last), _content(int(first), int(last)) if is_kept else content


def _seals() -> QuerySet[JournalLine]:
    return JournalLine.objects.filter(action=EVENTS_SEAL)


def _settled_numbers(first: int) -> list[int]:
    """Return the numbers of the next events, without those after an event that is not old enough yet."""
    events = SecurityEvent.objects.filter(pk__gte=first).order_by("pk").values_list("pk", flat=True)
    young = events.filter(at__gt=timezone.now() - SETTLE_TIME).first()
    return list((events if young is None else events.filter(pk__lt=young))[:MAX_EVENTS_PER_SEAL])


def _content(first: int, last: int) -> str:
    """Return number, earliest time and digest of events, such as `12 since 2026-12-01T00:00:00Z, content ...`."""
    digest, count, since = hashlib.sha256(), 0, None
    events = SecurityEvent.objects.filter(pk__gte=first, pk__lte=last).order_by("pk")
    for number, at, *values in stream_rows(events, *_COLUMNS):
        digest.update(json.dumps([number, at.isoformat(), *values]).encode())
        since, count = min(at, since or at), count + 1
    return f"{count} since {format_time(since or timezone.now())}, content {digest.hexdigest()}"
