"""Limit the request rate of each account and of each token, and the concurrent questions about the past.

Each limit is a token bucket: a full bucket has as many requests as the setting allows in its period, and it
fills evenly. The buckets of all processes on this machine are in one memory-mapped file in STATE_DIR, so a
request needs no Redis and no query, and the number of worker processes does not change the limit. Each
machine counts separately.

Processes do not lock the file. If two processes count a request of the same account within the same
microsecond, one of the two counts can be lost.
"""

import logging
import mmap
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from django.conf import settings

from authzconsole.common.problems import Problem
from entities.frozen import frozen

logger = logging.getLogger(__name__)

FILE_NAME = "rate_limits"
SLOTS = 1 << 15
_SLOT_BYTES = 16
_PROBES = 8
# Fibonacci hashing spreads consecutive numbers over the slots
_MULTIPLIER, _WORD = 0x9E3779B97F4A7C15, (1 << 64) - 1


class BucketTable:
    """A hash table in shared memory. It maps each key to the time at which the bucket will be full again.

    Times are read from the monotonic clock, which all processes of a machine share and which restarts with
    the machine.
    """

    def __init__(self, memory: mmap.mmap):
        view = memoryview(memory)
        self._keys = view[: SLOTS * 8].cast("Q")
        self._full_at = view[SLOTS * 8 :].cast("d")

    def take(self, key: int, count: int, seconds: int, cost: int = 1) -> float:
        """Take `cost` requests, at most all, out of a bucket of `count` requests per `seconds`.

        Return 0, or the seconds until there are so many.
        """
        now = time.monotonic()
        slot = self._slot_of(key, now)
        if slot < 0:
            return 0
        full_at = self._full_at[slot]
        # a time beyond the period was written before the machine restarted or the limit changed
        if not now <= full_at <= now + seconds:
            full_at = now
        full_at += seconds / count * min(cost, count)
        wait_seconds = full_at - now - seconds
        if wait_seconds > 1e-9:
            return wait_seconds
        self._full_at[slot] = full_at
        return 0

    def _slot_of(self, key: int, now: float) -> int:
        """Return the slot of the key, or assign it a slot with a full bucket.

        Return -1 if all probed slots are in use.
        """
        first, free = (key * _MULTIPLIER & _WORD) >> 49, -1
        for probe in range(_PROBES):
            slot = (first + probe) % SLOTS
            if self._keys[slot] == key:
                return slot
            if free < 0 and self._full_at[slot] <= now:
                free = slot
        if free >= 0:
            self._full_at[free] = 0
            self._keys[free] = key
        return free


@frozen
class RateLimit:
    """A limit and what it counts. number: distinguishes the keys of the limits. name: its name in RateLimit
    headers.
    """

    setting: str
    number: int
    name: str
    subject: str
    unit: str

    def check(self, identifier: int, cost: int = 1) -> None:
        """Count a request of the account or token with this primary key as `cost` requests.

        Raise Problem (429) above the limit.
        """
        limit = settings.RATE_LIMITS[self.setting]
        if limit is None:
            return
        count, seconds = limit
        wait_seconds = _table().take(self.number << 60 | identifier, count, seconds, cost)
        if wait_seconds:
            wait = int(wait_seconds) + 1
            raise Problem(
                429,
                f"{self.subject} may send {count:,} {self.unit} in {seconds:,} seconds: wait {wait} s before you "
                f"send the next one",
                headers={
                    "Retry-After": str(wait),
                    "RateLimit-Policy": f'"{self.name}";q={count};w={seconds}',
                    "RateLimit": f'"{self.name}";r=0;t={wait}',
                },
            )


_REQUESTS_OF_ACCOUNT = RateLimit("requests_per_account", 1, "account", "your account", "requests")
_REQUESTS_OF_TOKEN = RateLimit("requests_per_token", 2, "token", "this token", "requests")
_DECISIONS_OF_ACCOUNT = RateLimit(
    "decisions_per_account", 3, "decisions", "your account", "requests for decisions"
)
_DECISIONS_OF_TOKEN = RateLimit(
    "decisions_per_token", 4, "token-decisions", "this token", "requests for decisions"
)


def check_request_rate(
    account_id: int, *, token_number: int | None = None, is_decision: bool, cost: int = 1
) -> None:
    """Count a request to AuthZEN or REST. Raise Problem (429) above a limit.

    is_decision: whether the request asks for decisions. They have separate limits, because programs send many
    of them. cost: how many requests it counts as.
    """
    if token_number is not None:
        (_DECISIONS_OF_TOKEN if is_decision else _REQUESTS_OF_TOKEN).check(token_number, cost)
    (_DECISIONS_OF_ACCOUNT if is_decision else _REQUESTS_OF_ACCOUNT).check(account_id, cost)


# of the threads of a process, how many answer questions about the past at the same time; the others keep the
# console responsive
MAX_PAST_REQUESTS = 2
# so that one ordinary account leaves room for others
MAX_PAST_REQUESTS_OF_ACCOUNT = 1
PAST_RETRY_SECONDS = 1
_past_requests, _past_lock = Counter[int](), threading.Lock()


@contextmanager
def past_request(account_id: int, *, is_limited: bool) -> Iterator[None]:
    """Count a request about the past while it is answered. Raise Problem (429 or 503) above the limits.

    is_limited: the account may only ask about itself, so it can only ask one such request at a time.
    """
    with _past_lock:
        if is_limited and _past_requests[account_id] >= MAX_PAST_REQUESTS_OF_ACCOUNT:
            raise _busy(429, "your account has an unfinished request about the past")
        if _past_requests.total() >= MAX_PAST_REQUESTS:
            raise _busy(503, "the console answers other requests about the past")
        _past_requests[account_id] += 1
    try:
        yield
    finally:
        with _past_lock:
            _past_requests[account_id] -= 1
            if not _past_requests[account_id]:
                del _past_requests[account_id]


def _busy(status: int, sentence: str) -> Problem:
    return Problem(
        status,
        f"{sentence}: repeat yours in {PAST_RETRY_SECONDS} s",
        headers={"Retry-After": str(PAST_RETRY_SECONDS)},
    )


@cache
def _table() -> BucketTable:
    size = SLOTS * _SLOT_BYTES
    try:
        return BucketTable(_shared_memory(settings.STATE_DIR / FILE_NAME, size))
    except OSError as error:
        logger.error("the request rates cannot be shared (%s): this process counts requests alone", error)
        return BucketTable(mmap.mmap(-1, size))


def _shared_memory(path: Path, size: int) -> mmap.mmap:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        # reserve the space now: if the disk is full, writing to a mapped page without a disk block kills the
        # process
        os.posix_fallocate(descriptor, 0, size)
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)
