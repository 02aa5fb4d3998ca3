"""Receive request bodies in the event loop, with limits on their size, time and number."""

import asyncio
import contextlib
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, cast

from authzconsole.server.environ import CHUNKED
from authzconsole.server.limits import MEMORY_BYTES, RETRY_AFTER_SECONDS, BodyLimits

LINGER_SECONDS = 30
LINGER_IDLE_SECONDS = 5


class BodyRefused(Exception):
    """A body that is not read to its end: the status and the message of the response."""

    def __init__(self, status: int, message: str, *, is_retry_useful: bool = False):
        self.status, self.message = status, message
        self.headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if is_retry_useful else {}
        super().__init__(message)


class AnonymousBodyRefused(BodyRefused):
    """A body above MEMORY_BYTES without valid credentials."""

    def __init__(self):
        super().__init__(413, f"sign in before you send more than {MEMORY_BYTES:,} bytes")


class ClientDisconnected(Exception):
    """The client closed the connection, or the body is malformed; granian does not tell which."""


class BodyReceiver:
    """Receive the bodies of the requests of this process."""

    def __init__(self, limits: BodyLimits, folder: Path):
        self._limits, self._folder = limits, folder
        self._by_address, self._unfinished, self._large = Counter[str](), 0, 0

    async def receive_body(
        self,
        receive: Callable[[], Awaitable[dict]],
        length: int,
        *,
        address: str,
        is_identified: Callable[[], Awaitable[bool]],
    ) -> IO[bytes]:
        """Return the complete body as a file at its start. Raise BodyRefused or ClientDisconnected.

        address: the client address that is counted, empty for a proxy. is_identified: whether the caller has
        valid credentials; it is only called for a body above MEMORY_BYTES, before any of it is stored on
        disk.
        """
        if length > MEMORY_BYTES:
            await self._check_large(length, is_identified)
        with self._count_body(address):
            return await self._receive(receive, length, is_identified)

    async def _receive(self, receive, length, is_identified) -> IO[bytes]:
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
                                await self._check_large(received + len(chunk), is_identified)
                            large.enter_context(self._count_large_body())
                            body = self._move_to_disk(body)
                        received += len(chunk)
                        if received > self._limits.max_bytes:
                            raise _too_large(self._limits.max_bytes)
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

    async def _check_large(self, length: int, is_identified: Callable[[], Awaitable[bool]]) -> None:
        if not await is_identified():
            raise AnonymousBodyRefused
        if length > self._limits.max_bytes:
            raise _too_large(self._limits.max_bytes)

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
    def _count_large_body(self) -> Iterator[None]:
        if self._large >= self._limits.max_large:
            raise BodyRefused(
                503, "the console receives too many large requests at the moment", is_retry_useful=True
            )
        self._large += 1
        try:
            yield
        finally:
            self._large -= 1


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


def _too_large(max_bytes: int) -> BodyRefused:
    return BodyRefused(413, f"the request body is longer than {max_bytes:,} bytes")
