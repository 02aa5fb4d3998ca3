"""Count permitted decisions in the memory of the process, and write the counts once a minute in a thread.

A decision costs one dictionary update and no query. The memory is bounded: beyond MAX_KEYS different users,
entities and days in one minute, further ones are not recorded, and the log has their number. The end of a
process writes its counts. A process that is killed loses those of the last minute.
"""

import logging
import os
import time
from collections.abc import Iterable
from datetime import date
from multiprocessing.util import Finalize
from threading import Lock, Thread

from django.conf import settings
from django.db import connection
from django.utils import timezone

from grants.bulk_rows import ROWS_PER_STATEMENT, chunks
from grants.policies.question import Question
from grants.usage.storage import UsageRecord, add_usage

logger = logging.getLogger(__name__)
MAX_KEYS = 50_000
SECONDS_BETWEEN_WRITES = 60.0
# how long the end of the process waits for counts that are being written
MAX_SECONDS_TO_WAIT = 10.0

_Key = tuple[str, str, str, date]


class UsageRecorder:
    """The counts of one process that are not written yet."""

    def __init__(self, *, writes_in_thread: bool = True):
        self._writes_in_thread = writes_in_thread
        self.reset()

    def reset(self) -> None:
        """Discard all counts. A forked process must call this: its parent writes the counts, and the threads
        of the parent do not exist in it."""
        self._lock = Lock()
        # held while counts are written, so that the end of the process waits for them
        self._writing = Lock()
        self._counts: dict[_Key, int] = {}
        self._skipped = 0
        self._has_thread = False

    def count(self, questions: Iterable[Question]) -> None:
        """Count permitted questions about users."""
        today = timezone.now().date()
        with self._lock:
            for question in questions:
                if question.subject_type != "user" or question.target is None:
                    continue
                key = (question.subject, question.target.kind, question.target.key, today)
                known = self._counts.get(key)
                if known is not None:
                    self._counts[key] = known + 1
                elif len(self._counts) < MAX_KEYS:
                    self._counts[key] = 1
                else:
                    self._skipped += 1
            needs_thread = self._writes_in_thread and not self._has_thread
            self._has_thread = self._has_thread or needs_thread
        if needs_thread:
            Thread(target=self._write_regularly, name="usage", daemon=True).start()
            # Unlike `atexit`, this also runs at the end of a process that multiprocessing forked, such as a
            # worker of the server.
            Finalize(None, self.write, exitpriority=0)

    def write(self) -> int:
        """Add the counts to the database.

        Return the number of written rows. On an error, keep the others for the next time.
        """
        if not self._writing.acquire(timeout=MAX_SECONDS_TO_WAIT):
            return 0
        try:
            return self._write()
        finally:
            self._writing.release()

    def _write(self) -> int:
        with self._lock:
            counts, self._counts = self._counts, {}
            skipped, self._skipped = self._skipped, 0
        if skipped:
            logger.warning(
                "%d uses were not recorded, because more than %d users and entities were used",
                skipped,
                MAX_KEYS,
            )
        written = 0
        try:
            # each part in a transaction, so that no count is added twice
            part: list[tuple[_Key, int]]
            for part in chunks(list(counts.items()), ROWS_PER_STATEMENT):
                written += add_usage([UsageRecord(*key, count) for key, count in part])
                for key, _ in part:
                    del counts[key]
        except Exception as error:
            logger.warning("the use of %d entities could not be written yet: %s", len(counts), error)
            self._keep(counts)
        return written

    def _keep(self, counts: dict[_Key, int]) -> None:
        with self._lock:
            for key, count in counts.items():
                if key in self._counts or len(self._counts) < MAX_KEYS:
                    self._counts[key] = self._counts.get(key, 0) + count

    def _write_regularly(self) -> None:
        while True:
            time.sleep(SECONDS_BETWEEN_WRITES)
            try:
                self.write()
            finally:
                connection.close()


recorder = UsageRecorder()
os.register_at_fork(after_in_child=recorder.reset)


def record_use(questions: Iterable[Question]) -> None:
    """Record permitted questions, unless RECORD_USAGE is off."""
    if settings.RECORD_USAGE:
        recorder.count(questions)
