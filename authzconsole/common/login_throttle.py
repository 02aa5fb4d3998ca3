"""Wrong passwords and unknown tokens are counted: by the name that was tried, and by the address that they came from.

INVARIANT: nobody learns from it who has an account: a name that nobody has is counted and held back like any other, before a
password is looked at.

They are counted in Redis, so that all processes of all servers share them, each for WINDOW_SECONDS. While Redis does not
answer, each process counts for itself: weaker by the number of processes, and nobody is locked out.
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
MOST_OF_A_NAME = 10
# many people may stand behind one address
MOST_OF_AN_ADDRESS = 100
MOST_TOKENS_OF_AN_ADDRESS = 300
Answered = TypeVar("Answered")


@dataclass(frozen=True, slots=True)
class Guesses:
    """What is counted together. what: in words; who: the name or the address. most: so many, and the next are held back."""

    what: str
    who: str
    most: int

    def window(self) -> tuple[str, int]:
        """The key of the present window, and the seconds until it ends. Windows of different names do not end together."""
        digest = hashlib.sha256(f"{self.what}\n{self.who}".encode(errors="replace")).hexdigest()
        number, passed = divmod(int(time()) + int(digest[:8], 16), WINDOW_SECONDS)
        return f"guesses:{digest}:{number}", WINDOW_SECONDS - passed


def passwords(request: HttpRequest, name: str) -> tuple[Guesses, Guesses]:
    return (Guesses("passwords for the name", name, MOST_OF_A_NAME),
            Guesses("passwords from the address", caller_address(request), MOST_OF_AN_ADDRESS))


def tokens(request: HttpRequest) -> Guesses:
    return Guesses("tokens from the address", caller_address(request), MOST_TOKENS_OF_AN_ADDRESS)


def caller_address(request: HttpRequest) -> str:
    """As far as the proxies in front of the console (PROXIES) tell it. Of IPv6 the network: one machine has all of it."""
    told = BaseThrottle().get_ident(request) or ""
    try:
        address = ipaddress.ip_address(told)
    except ValueError:
        return told
    return told if address.version == 4 else str(ipaddress.ip_network(f"{address}/64", strict=False))


def seconds_to_wait(*counted: Guesses) -> int:
    """0 where none of them is held back. It counts nothing: who waits does not make the wait longer."""
    windows = {guesses.window(): guesses.most for guesses in counted}
    found = _asked(lambda cache: cache.get_many([key for key, _ in windows]))
    return max((seconds for (key, seconds), most in windows.items() if found.get(key, 0) >= most), default=0)


def count_wrong(*counted: Guesses) -> None:
    for guesses in counted:
        key, seconds = guesses.window()
        # told once in each window: whoever goes on fills no log
        if _asked(lambda cache, key=key: _counted(cache, key)) == guesses.most:
            logger.warning("%d wrong %s %r: further ones are held back for %d s", guesses.most, guesses.what, clip(guesses.who),
                           seconds)


def forget(*counted: Guesses) -> None:
    _asked(lambda cache: cache.delete_many([guesses.window()[0] for guesses in counted]))


def in_words(seconds: int) -> str:
    minutes = -(-seconds // 60)
    return f"{seconds} seconds" if seconds <= 60 else f"{minutes} minutes"


def _counted(cache: BaseCache, key: str) -> int:
    cache.add(key, 0, WINDOW_SECONDS)
    try:
        return cache.incr(key)
    except ValueError:
        # it went in between: its window is over, or a store that forgets was full
        return 1


def _asked(ask: Callable[[BaseCache], Answered]) -> Answered:
    try:
        return ask(caches["shared"])
    except (RedisError, OSError, ValueError) as error:
        logger.error("Redis does not answer (%s): this process counts wrong passwords for itself", type(error).__name__)
        return ask(caches["default"])
