"""Limit the number of rows for failures, so that a flood of wrong passwords does not fill the table.

In each window, each of the first failures of a kind from one address has a row. After that, a row is written
when the number of failures reaches a power of two, and its `count` is the number of failures since the
previous row.
"""

import logging
from time import time

from django.core.cache import BaseCache, caches
from redis import RedisError

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 600
MAX_ROWS_PER_ADDRESS = 20
# many addresses can send failures at the same time
MAX_ROWS_PER_KIND = 2_000


def count_to_record(kind: str, network: str) -> int:
    """Count a failure.

    Return the number of failures that the next row represents, or 0 if no row must be written.
    """
    window = int(time()) // WINDOW_SECONDS
    number, total = _counts(f"events:{kind}:{window}:{network}", f"events:{kind}:{window}")
    if total > MAX_ROWS_PER_KIND:
        return _since_previous_row(total, MAX_ROWS_PER_KIND)
    return _since_previous_row(number, MAX_ROWS_PER_ADDRESS)


def _since_previous_row(number: int, limit: int) -> int:
    if number <= limit:
        return 1
    is_power_of_two = number & (number - 1) == 0
    return number - max(limit, number // 2) if is_power_of_two else 0


def _counts(*keys: str) -> list[int]:
    """Increment the counters in Redis, or in this process while Redis is not reachable."""
    try:
        return [_increment(caches["shared"], key) for key in keys]
    except (RedisError, OSError, ValueError) as error:
        logger.warning(
            "Redis does not answer (%s): this process counts security events alone", type(error).__name__
        )
        return [_increment(caches["default"], key) for key in keys]


def _increment(cache: BaseCache, key: str) -> int:
    cache.add(key, 0, WINDOW_SECONDS)
    try:
        return cache.incr(key)
    except ValueError:
        # the key was evicted between the two calls
        return 1
