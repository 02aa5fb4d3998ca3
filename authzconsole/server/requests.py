"""Turn ASGI requests into WSGI requests: the environ, and the body, which is received in the event loop with
limits on its size, time and number.
"""

import asyncio
import contextlib
import ipaddress
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import IO, cast
from urllib.parse import unquote_to_bytes

from entities.frozen import frozen

CHUNKED = -1
# set if the request came through a proxy, trusted or not
IS_FORWARDED = "authzconsole.is_forwarded"
_WITHOUT_PREFIX = {"CONTENT_TYPE": "CONTENT_TYPE", "CONTENT_LENGTH": "CONTENT_LENGTH"}
_FORWARDED = frozenset({"HTTP_FORWARDED", "HTTP_X_REAL_IP"})
# the server has removed the chunk framing and answered the expectation
_HOP_BY_HOP = frozenset({"HTTP_TRANSFER_ENCODING", "HTTP_EXPECT"})
_CONSTANTS = {
    "GATEWAY_INTERFACE": "CGI/1.1",
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "granian",
    "wsgi.errors": sys.stderr,
    "wsgi.input_terminated": True,
    "wsgi.multiprocess": True,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}


class TrustedProxies:
    """The networks of the trusted proxies. `X-Forwarded-*` headers from other addresses are dropped."""

    def __init__(self, networks: Sequence[str]):
        self._networks = [ipaddress.ip_network(network) for network in networks]
        self.contains = lru_cache(1_000)(self._contains)

    def _contains(self, address: str) -> bool:
        try:
            host = ipaddress.ip_address(address)
        except ValueError:
            return False
        host = getattr(host, "ipv4_mapped", None) or host
        return any(host in network for network in self._networks)


def build_environ(scope: dict, proxies: TrustedProxies) -> dict:
    """Return the environ of a request with an empty body.

    Headers with `_` in their name are dropped, because they would overwrite those with `-`. X-Forwarded-* and
    related headers are dropped unless a trusted proxy sent them.
    """
    client, server, raw_path = scope["client"], scope["server"], scope["raw_path"]
    is_from_proxy = proxies.contains(client[0])
    environ = {
        **_CONSTANTS,
        "REQUEST_METHOD": scope["method"],
        "PATH_INFO": (unquote_to_bytes(raw_path) if b"%" in raw_path else raw_path).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": "HTTP/1.0" if scope["http_version"] == "1" else f"HTTP/{scope['http_version']}",
        "SERVER_NAME": server[0],
        "SERVER_PORT": server[1],
        "REMOTE_ADDR": client[0],
        "REMOTE_PORT": client[1],
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": BytesIO(),
    }
    for raw_name, raw_value in scope["headers"]:
        name, is_forwarded = _environ_name(raw_name)
        if is_forwarded:
            environ[IS_FORWARDED] = True
        if not name or is_forwarded and not is_from_proxy:
            continue
        value = raw_value.decode("latin-1")
        if name in environ:
            value = f"{environ[name]}{';' if name == 'HTTP_COOKIE' else ','}{value}"
        environ[name] = value
    return environ


def body_length(scope: dict, environ: dict) -> int:
    """Return the announced length of the body, or CHUNKED."""
    if any(name == b"transfer-encoding" for name, _ in scope["headers"]):
        environ.pop("CONTENT_LENGTH", None)
        return CHUNKED
    length = environ.get("CONTENT_LENGTH", "")
    return int(length) if length.isascii() and length.isdigit() else 0


@lru_cache(1_000)
def _environ_name(raw_name: bytes) -> tuple[str, bool]:
    """Return the name of a header in the environ, empty if it is dropped, and whether only proxies may send
    it.
    """
    if b"_" in raw_name:
        return "", False
    name = raw_name.decode("latin-1").upper().replace("-", "_")
    name = _WITHOUT_PREFIX.get(name, f"HTTP_{name}")
    if name in _HOP_BY_HOP:
        return "", False
    return name, name in _FORWARDED or name.startswith("HTTP_X_FORWARDED_")


# larger bodies are only read for identified callers, and are stored in a temporary file
MEMORY_BYTES = 64 * 1024
# responses up to this size are sent immediately; longer ones are generated into a temporary file while they
# are sent
DIRECT_RESPONSE_BYTES = 1024 * 1024
# the generation of a response pauses while the client is this far behind
MAX_BACKLOG_BYTES = 256 * 1024 * 1024
THREADS = 4
# unfinished long responses in additional threads; each needs a database connection
MAX_STREAMS = 24
# of these, how many generate a chunk at the same time; the others wait, so that short requests get the
# processor
MAX_GENERATING = 2
RETRY_AFTER_SECONDS = 5


@frozen
class BodyLimits:
    """The limits on request bodies of one worker process.

    max_bytes: the longest body of an identified caller. grace_seconds: the time before the minimum rate
    applies.
    min_bytes_per_second: the lowest average rate after that. max_per_address: unfinished bodies from one
    client address.
    max_unfinished: unfinished bodies from all addresses. max_large: unfinished bodies above MEMORY_BYTES.
    max_large_per_account: of these, those of one account.
    """

    max_bytes: int = 32 * 1024 * 1024
    grace_seconds: float = 10
    min_bytes_per_second: int = 10_000
    max_per_address: int = 100
    max_unfinished: int = 1_000
    max_large: int = 16
    max_large_per_account: int = 4

    def seconds_for(self, received_bytes: int) -> float:
        """Return the time after which a body with this many received bytes is too slow."""
        return self.grace_seconds + received_bytes / self.min_bytes_per_second


LINGER_SECONDS = 30
LINGER_IDLE_SECONDS = 5


class BodyRefused(Exception):
    """A body that is not read to its end: the status and the message of the response."""

    def __init__(self, status: int, message: str, *, is_retry_useful: bool = False):
        self.status, self.message = status, message
        self.headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if is_retry_useful else {}
        super().__init__(message)


class LongBodyRefused(BodyRefused):
    """A body that is longer than this path, or a caller without valid credentials, may send."""

    def __init__(self, message: str):
        super().__init__(413, message)


class ClientDisconnected(Exception):
    """The client closed the connection, or the body is malformed; granian does not tell which."""


class BodyReceiver:
    """Receive the bodies of the requests of this process."""

    def __init__(self, limits: BodyLimits, folder: Path):
        self._limits, self._folder = limits, folder
        self._by_address, self._unfinished = Counter[str](), 0
        # unfinished bodies above MEMORY_BYTES, by the number of the account
        self._large = Counter[int]()

    async def receive_body(
        self,
        receive: Callable[[], Awaitable[dict]],
        length: int,
        *,
        address: str,
        max_bytes: int,
        find_account: Callable[[], Awaitable[int]],
    ) -> IO[bytes]:
        """Return the complete body as a file at its start. Raise BodyRefused or ClientDisconnected.

        address: the client address that is counted, empty for a proxy. max_bytes: what the path accepts.
        find_account: returns the number of the account of the caller, 0 without valid credentials; it is only
        called for a body above MEMORY_BYTES, before any of it is stored on disk.
        """
        max_bytes, account = min(max_bytes, self._limits.max_bytes), 0
        if length > MEMORY_BYTES:
            account = await self._account_of_large(length, max_bytes, find_account)
        with self._count_body(address):
            return await self._receive(receive, length, max_bytes, account, find_account)

    async def _receive(self, receive, length, max_bytes, account, find_account) -> IO[bytes]:
        loop = asyncio.get_running_loop()
        start, received = loop.time(), 0
        body: IO[bytes] = BytesIO()
        with contextlib.ExitStack() as failure, contextlib.ExitStack() as large:
            failure.callback(lambda: body.close())
            try:
                async with asyncio.timeout_at(start + self._limits.seconds_for(0)) as timeout:
                    while received != length:
                        message = await receive()
                        if message["type"] != "http.request":
                            raise ClientDisconnected
                        chunk = message["body"]
                        if received <= MEMORY_BYTES < received + len(chunk):
                            if length == CHUNKED:
                                account = await self._account_of_large(0, max_bytes, find_account)
                            large.enter_context(self._count_large_body(account))
                            body = self._move_to_disk(body)
                        received += len(chunk)
                        if received > max_bytes:
                            raise _too_large(max_bytes)
                        body.write(chunk)
                        if not message["more_body"]:
                            break
                        timeout.reschedule(start + self._limits.seconds_for(received))
            except TimeoutError:
                raise BodyRefused(408, "the request body arrived too slowly") from None
            if length not in (CHUNKED, received):
                raise ClientDisconnected
            body.seek(0)
            # the application closes it
            failure.pop_all()
            return body

    def _move_to_disk(self, body: IO[bytes]) -> IO[bytes]:
        file = cast(IO[bytes], tempfile.TemporaryFile(dir=self._folder))
        body.seek(0)
        file.write(body.read())
        return file

    async def _account_of_large(
        self, length: int, max_bytes: int, find_account: Callable[[], Awaitable[int]]
    ) -> int:
        """Return the account that may send a body above MEMORY_BYTES. length: 0 if it is not known yet."""
        account = await find_account()
        if not account:
            raise LongBodyRefused(f"sign in before you send more than {MEMORY_BYTES:,} bytes")
        if length > max_bytes:
            raise _too_large(max_bytes)
        return account

    @contextlib.contextmanager
    def _count_body(self, address: str) -> Iterator[None]:
        if address and self._by_address[address] >= self._limits.max_per_address:
            raise BodyRefused(
                429, "too many unfinished requests came from your address", is_retry_useful=True
            )
        if self._unfinished >= self._limits.max_unfinished:
            raise BodyRefused(
                503, "the console receives too many requests at the moment", is_retry_useful=True
            )
        self._unfinished += 1
        self._by_address[address] += 1
        try:
            yield
        finally:
            self._unfinished -= 1
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    @contextlib.contextmanager
    def _count_large_body(self, account: int) -> Iterator[None]:
        if self._large[account] >= self._limits.max_large_per_account:
            raise BodyRefused(
                429, "too many unfinished large requests came from your account", is_retry_useful=True
            )
        if self._large.total() >= self._limits.max_large:
            raise BodyRefused(
                503, "the console receives too many large requests at the moment", is_retry_useful=True
            )
        self._large[account] += 1
        try:
            yield
        finally:
            self._large[account] -= 1
            if not self._large[account]:
                del self._large[account]


async def discard_body(receive: Callable[[], Awaitable[dict]]) -> None:
    """Receive and drop the rest of a refused body, so that the client reads the response instead of a
    connection reset.

    End after LINGER_SECONDS, or LINGER_IDLE_SECONDS without data.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while True:
                async with asyncio.timeout(LINGER_IDLE_SECONDS):
                    message = await receive()
                if message["type"] != "http.request" or not message["more_body"]:
                    return


def _too_large(max_bytes: int) -> LongBodyRefused:
    return LongBodyRefused(f"the body is longer than {max_bytes:,} bytes, which is the limit")
