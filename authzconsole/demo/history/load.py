"""Write the history of the demo tenant with the services of the console, at times in the past.

The services have no parameter for a time. Instead, this module replaces the clock of its process, which no
request can reach: only the command `bootstrap` calls it, and it refuses a journal that has lines.
"""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from unittest.mock import patch
from zlib import crc32

from django.db import transaction
from django.utils import timezone

from authzconsole.demo.history.present import Present
from authzconsole.demo.history.requests import create_pending_requests
from authzconsole.demo.history.steps import first_document, steps
from authzconsole.demo.history.story import AUTHORS, FIRST_DAY
from grants.active_generation import activate_generation
from grants.errors import GrantError
from grants.journal import Author, lock_journal
from grants.tenant.import_document import import_tenant

FIRST_GENERATION = "existing"
WORK_BEGINS, BETWEEN_STEPS = timedelta(hours=8), timedelta(minutes=11)


class _PastClock:
    """The clock of this process while it writes the history.

    It moves only forward, and not into the future.
    """

    def __init__(self) -> None:
        self._real_now = timezone.now
        self._time: datetime | None = None

    def now(self) -> datetime:
        return self._time or self._real_now()

    def set(self, time: datetime) -> None:
        if not (self._time or time) <= time <= self._real_now():
            raise ValueError(f"the history goes from {self._time} to {time}")
        self._time = time


@contextmanager
def _past_clock() -> Iterator[_PastClock]:
    clock = _PastClock()
    with patch.object(timezone, "now", clock.now):
        yield clock


def load_history(document: Path) -> int:
    """Write the history that leads to the tenant document. Return the number of journal lines.

    The times depend only on the date of the call. Raise GrantError if the journal has lines.
    """
    present = Present([json.loads(line) for line in document.read_bytes().splitlines()])
    with transaction.atomic():
        if lock_journal().revision:
            raise GrantError(
                "the journal has lines already: a history can only be written into an empty journal"
            )
        with _past_clock() as clock:
            _write(present, clock, timezone.now().replace(hour=0, minute=0, second=0, microsecond=0))
        return lock_journal().revision


def _write(present: Present, clock: _PastClock, today: datetime) -> None:
    clock.set(today - timedelta(days=FIRST_DAY) + WORK_BEGINS)
    content = "".join(f"{json.dumps(line)}\n" for line in first_document(present)).encode()
    import_tenant(
        stream=io.BytesIO(content), author=Author("import_tenant", reason="first inventory of the platform")
    )
    clock.set(today - timedelta(days=FIRST_DAY) + WORK_BEGINS + BETWEEN_STEPS)
    activate_generation(
        author=Author(AUTHORS[0], reason="what the platform decides today"), name=FIRST_GENERATION
    )
    for day, day_steps in groupby(steps(present), lambda step: step.day_before):
        author_name = AUTHORS[crc32(str(day).encode()) % len(AUTHORS)]
        for position, step in enumerate(day_steps, 2):
            clock.set(today - timedelta(days=day) + WORK_BEGINS + position * BETWEEN_STEPS)
            step.run(Author(author_name, reason=step.reason))
    clock.set(today - timedelta(days=1) + WORK_BEGINS)
    create_pending_requests(today)
