"""Throttle guesses of passwords and tokens.

Wrong passwords are counted by name and client address together, by address, and by name:

- After MAX_PASSWORDS_PER_PAIR, this address has to wait before it tries this name again.
- After MAX_PASSWORDS_PER_ADDRESS, this address has to wait before it tries any name.
- After MAX_PASSWORDS_PER_NAME from any addresses, each address gets only MAX_PASSWORDS_WHILE_ATTACKED
attempts for this name.

INVARIANT: an address without failures is never refused, so an attacker at another address cannot lock out an
account.

INVARIANT: the throttle does not reveal which accounts exist. Failures for an unknown name are counted and
delayed like those for an existing account, before any password is checked.

`manage.py clear_sign_in_limits` and a new password set by an administrator reset the counts. Both write a
journal line, and each process reads it before it refuses an attempt. This also works while each process
counts separately.

Failures are counted in Redis for WINDOW_SECONDS, so all processes of all servers share the counts. While
Redis is unreachable, each process counts separately: users can still sign in, but the limit is multiplied by
the number of processes.
"""

import hashlib
import ipaddress
import logging
import re
from collections.abc import Callable
from datetime import timedelta
from time import time
from typing import TypeVar

from django.core.cache import BaseCache, caches
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from redis import RedisError
from rest_framework.throttling import BaseThrottle

from entities.frozen import frozen
from entities.text import is_storable
from entities.vocabulary import clip
from grants.models import JournalLine

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 600
MAX_PASSWORDS_PER_PAIR = 10
# higher, because many people can share one address
MAX_PASSWORDS_PER_ADDRESS = 100
MAX_PASSWORDS_PER_NAME = 100
MAX_PASSWORDS_WHILE_ATTACKED = 3
CLEAR_ACTION = "sign-in-limits-clear"
MAX_TOKENS_PER_ADDRESS = 300
ADDRESS_WITH_PORT = re.compile(r"\[(?P<ipv6>[^]]*)\](:[0-9]*)?|(?P<ipv4>[0-9.]*):[0-9]*")
Result = TypeVar("Result")


@frozen
class FailureCounter:
    """One count of failures.

    subject: a description of the counted failures. value: the name or the address. limit: the number of
    failures in a window after which further attempts have to wait. account: the account with which this
    counter is cleared; empty if it is only cleared together with those of all accounts.
    """

    subject: str
    value: str
    limit: int
    account: str = ""

    def window(self) -> tuple[str, int]:
        """Return the cache key of the current window and the seconds until it ends.

        The start of the window depends on the key, so that the windows of different names do not all end
        together.
        """
        digest = hashlib.sha256(f"{self.subject}\n{self.value}".encode(errors="replace")).hexdigest()
        number, elapsed_seconds = divmod(int(time()) + int(digest[:8], 16), WINDOW_SECONDS)
        return f"guesses:{digest}:{number}", WINDOW_SECONDS - elapsed_seconds

    def count(self) -> tuple[int, str, int]:
        """Return the number of failures since the last clearance, its cache key, and the seconds until the
        window ends.

        Only a count that has reached the limit takes a query, for the clearances in this window.
        """
        key, seconds = self.window()
        total = with_shared_cache(lambda cache: cache.get(key, 0))
        if total >= self.limit and (clearances := self._clearances(seconds)):
            key = f"{key}:{clearances}"
            total = with_shared_cache(lambda cache: cache.get(key, 0))
        return total, key, seconds

    def _clearances(self, seconds: int) -> int:
        if not is_storable(self.account):
            return 0
        window_start = timezone.now() - timedelta(seconds=WINDOW_SECONDS - seconds)
        is_relevant = Q(action=CLEAR_ACTION, principal="")
        if self.account:
            is_relevant |= Q(action__in=(CLEAR_ACTION, "password-set"), principal=f"user:{self.account}")
        return JournalLine.objects.filter(is_relevant, at__gte=window_start).count()


@frozen
class PasswordCounters:
    """The counters of wrong passwords: by name and address, by name, and by address."""

    pair: FailureCounter
    name: FailureCounter
    address: FailureCounter

    def seconds_to_wait(self) -> int:
        """Return the seconds until the next attempt is allowed, or 0.

        Calling this does not count as an attempt.
        """
        wait_seconds = seconds_to_wait(self.address)
        pair_total, _, seconds = self.pair.count()
        if pair_total >= self.pair.limit or (
            pair_total >= MAX_PASSWORDS_WHILE_ATTACKED and seconds_to_wait(self.name)
        ):
            wait_seconds = max(wait_seconds, seconds)
        return wait_seconds

    def count_failure(self) -> None:
        count_failure(self.pair, self.name, self.address)

    def reset(self) -> None:
        """Delete the count of this name and address, after a correct password.

        The count of the address stays: otherwise, the owner of one account could guess the passwords of
        others without limit. The count of the name stays, because other addresses may still be guessing.
        """
        reset_counters(self.pair)


def password_counters(request: HttpRequest, name: str) -> PasswordCounters:
    """Return the counters of a sign-in attempt."""
    address = client_address(request)
    return PasswordCounters(
        FailureCounter(
            "passwords for the name and address",
            f"{name} from {address}",
            MAX_PASSWORDS_PER_PAIR,
            account=name,
        ),
        FailureCounter("passwords for the name", name, MAX_PASSWORDS_PER_NAME, account=name),
        FailureCounter("passwords from the address", address, MAX_PASSWORDS_PER_ADDRESS),
    )


def token_counter(request: HttpRequest) -> FailureCounter:
    return FailureCounter("tokens from the address", client_address(request), MAX_TOKENS_PER_ADDRESS)


def client_address(request: HttpRequest) -> str:
    """Return the client address that the trusted proxies (PROXIES) report, or the address of the peer if it
    is malformed.

    For IPv6, return the /64 network, because a single host can use all its addresses. IPv4 addresses that are
    written as IPv6 addresses are converted: they would all be in one network.
    """
    peer = request.META.get("REMOTE_ADDR") or ""
    address = _parsed_address(BaseThrottle().get_ident(request) or "") or _parsed_address(peer)
    if address is None:
        return peer
    address = getattr(address, "ipv4_mapped", None) or address
    return (
        str(address) if address.version == 4 else str(ipaddress.ip_network((int(address), 64), strict=False))
    )


def _parsed_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address in a text, without the port that some proxies append and a client can change."""
    match = ADDRESS_WITH_PORT.fullmatch(text)
    try:
        return ipaddress.ip_address(match["ipv6"] or match["ipv4"] if match else text)
    except ValueError:
        return None


def seconds_to_wait(*counters: FailureCounter) -> int:
    """Return the seconds until the next attempt is allowed, or 0.

    Calling this does not count as an attempt.
    """
    counts = [(counter.limit, *counter.count()) for counter in counters]
    return max((seconds for limit, total, _, seconds in counts if total >= limit), default=0)


def count_failure(*counters: FailureCounter) -> None:
    for counter in counters:
        _, key, seconds = counter.count()
        # logged once per window, so that an attacker cannot fill the log
        if with_shared_cache(lambda cache, key=key: increment(cache, key)) == counter.limit:
            logger.warning(
                "%d wrong %s %r: further attempts wait for %d s",
                counter.limit,
                counter.subject,
                clip(counter.value),
                seconds,
            )


def reset_counters(*counters: FailureCounter) -> None:
    """Delete the counts of the current window."""
    keys = [counter.count()[1] for counter in counters]
    with_shared_cache(lambda cache: cache.delete_many(keys))


def wait_in_words(seconds: int) -> str:
    minutes = -(-seconds // 60)
    return f"{seconds} seconds" if seconds <= 60 else f"{minutes} minutes"


def increment(cache: BaseCache, key: str) -> int:
    cache.add(key, 0, WINDOW_SECONDS)
    try:
        return cache.incr(key)
    except ValueError:
        # the key expired or was evicted between the two calls
        return 1


def with_shared_cache(operation: Callable[[BaseCache], Result]) -> Result:
    """Run the operation on the shared cache, or on the cache of this process while Redis is not reachable."""
    try:
        return operation(caches["shared"])
    except (RedisError, OSError, ValueError) as error:
        logger.error(
            "Redis does not answer (%s): this process counts failed attempts alone", type(error).__name__
        )
        return operation(caches["default"])


class IntegerSerializer:
    """Serialize the values of the shared cache in Redis: integers only, as decimal digits.

    Django's own serializer unpickles what it reads, so anyone who can write to Redis could execute code in
    this process.
    """

    def dumps(self, value: int) -> int:
        """Return the value for Redis. Raise ValueError for anything but an integer."""
        if type(value) is not int:
            raise ValueError("the shared cache stores integers only")
        return value

    def loads(self, data: bytes) -> int:
        """Return the stored integer. Raise ValueError if something else was written to Redis."""
        return int(data)
