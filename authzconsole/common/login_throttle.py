"""Throttle guesses of passwords and tokens. Failures are counted by the entered name and by the client address.

INVARIANT: the throttle does not reveal which accounts exist. Failures for an unknown name are counted and delayed like those
for an existing account, before any password is checked.

Failures are counted in Redis for WINDOW_SECONDS, so that all processes of all servers share the counts. While Redis is not
reachable, each process counts separately: the limit is then multiplied by the number of processes, but users can sign in.
"""

import hashlib
import ipaddress
import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import time
from typing import TypeVar

from django.core.cache import BaseCache, caches
from django.http import HttpRequest
from redis import RedisError
from rest_framework.throttling import BaseThrottle

from entities.vocabulary import clip

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 600
MAX_PASSWORDS_PER_NAME = 10
# higher than the limit per name, because many people can share one address
MAX_PASSWORDS_PER_ADDRESS = 100
MAX_TOKENS_PER_ADDRESS = 300
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class FailureCounter:
    """One count of failures.

    subject: a description of the counted failures. value: the name or the address. limit: the number of failures in a window
    after which further attempts have to wait.
    """

    subject: str
    value: str
    limit: int

    def window(self) -> tuple[str, int]:
        """Return the cache key of the current window and the seconds until it ends.

        The start of the window depends on the key, so that the windows of different names do not all end together.
        """
        digest = hashlib.sha256(f"{self.subject}\n{self.value}".encode(errors="replace")).hexdigest()
        number, elapsed_seconds = divmod(int(time()) + int(digest[:8], 16), WINDOW_SECONDS)
        return f"guesses:{digest}:{number}", WINDOW_SECONDS - elapsed_seconds


def password_counters(request: HttpRequest, name: str) -> tuple[FailureCounter, FailureCounter]:
    """Return the counters of a sign-in attempt: by name, and by client address."""
    return (FailureCounter("passwords for the name", name, MAX_PASSWORDS_PER_NAME),
            FailureCounter("passwords from the address", client_address(request), MAX_PASSWORDS_PER_ADDRESS))


def token_counter(request: HttpRequest) -> FailureCounter:
    return FailureCounter("tokens from the address", client_address(request), MAX_TOKENS_PER_ADDRESS)


def client_address(request: HttpRequest) -> str:
    """Return the client address that the trusted proxies (PROXIES) report.

    For IPv6, return the /64 network, because a single host can use all its addresses.
    """
    client_ip = BaseThrottle().get_ident(request) or ""
    try:
        address = ipaddress.ip_address(client_ip)
    except ValueError:
        return client_ip
    return client_ip if address.version == 4 else str(ipaddress.ip_network(f"{address}/64", strict=False))


def seconds_to_wait(*counters: FailureCounter) -> int:
    """Return the seconds until the next attempt is allowed, or 0. Calling this does not count as an attempt."""
    limits = {counter.window(): counter.limit for counter in counters}
    counts = _with_cache(lambda cache: cache.get_many([key for key, _ in limits]))
    return max((seconds for (key, seconds), limit in limits.items() if counts.get(key, 0) >= limit), default=0)


def count_failure(*counters: FailureCounter) -> None:
    for counter in counters:
        key, seconds = counter.window()
        # logged once per window, so that an attacker cannot fill the log
        if _with_cache(lambda cache, key=key: _increment(cache, key)) == counter.limit:
            logger.warning("%d wrong %s %r: further attempts wait for %d s", counter.limit, counter.subject,
                           clip(counter.value), seconds)


def reset_counters(*counters: FailureCounter) -> None:
    """Delete the counts of the current window."""
    _with_cache(lambda cache: cache.delete_many([counter.window()[0] for counter in counters]))


def wait_in_words(seconds: int) -> str:
    minutes = -(-seconds // 60)
    return f"{seconds} seconds" if seconds <= 60 else f"{minutes} minutes"


def _increment(cache: BaseCache, key: str) -> int:
    cache.add(key, 0, WINDOW_SECONDS)
    try:
        return cache.incr(key)
    except ValueError:
        # the key expired or was evicted between the two calls
        return 1


def _with_cache(operation: Callable[[BaseCache], Result]) -> Result:
    """Run the operation on the shared cache, or on the cache of this process while Redis is not reachable."""
    try:
        return operation(caches["shared"])
    except (RedisError, OSError, ValueError) as error:
        logger.error("Redis does not answer (%s): this process counts failed attempts alone", type(error).__name__)
        return operation(caches["default"])
