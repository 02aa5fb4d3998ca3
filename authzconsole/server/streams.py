"""Send responses that are too long for the memory, at the speed of the client, without occupying a thread.

A thread generates the response into a temporary file, and the event loop sends the file as fast as the client
reads: granian accepts another chunk only when it has sent earlier ones.
"""

import asyncio
import contextlib
import os
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import IO

# granian holds 32 chunks of each response in memory
CHUNK_BYTES = 32 * 1024
# the response is aborted if the client accepts no data for this long
STALLED_SECONDS = 60


class StreamStopped(Exception):
    """The client disconnected or reads too slowly, or the response could not be generated."""


class ResponseStream:
    """A file that the event loop sends, and that a thread may still write.

    file: an existing file, which is complete.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, folder: Path, max_backlog: int, file: IO[bytes] | None = None
    ):
        self._loop, self._max_backlog = loop, max_backlog
        self._file = file or tempfile.TemporaryFile(dir=folder, buffering=0)
        self._written = self._sent = 0
        self._is_complete, self._is_stopped, self._failed = file is not None, False, False
        self._more, self._room = asyncio.Event(), threading.Event()

    def write(self, chunks: Iterable[bytes]) -> None:
        """Write the response; called in a thread. Raise StreamStopped if the client is gone."""
        try:
            for chunk in chunks:
                self._wait_for_client()
                self._file.write(chunk)
                self._written += len(chunk)
                self._notify()
            self._is_complete = True
        except BaseException:
            self._failed = True
            raise
        finally:
            self._notify()
            if self._is_stopped:
                self._file.close()

    def _notify(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._more.set)

    def _wait_for_client(self) -> None:
        while not self._is_stopped and self._written - self._sent > self._max_backlog:
            self._room.clear()
            self._room.wait(1)
        if self._is_stopped:
            raise StreamStopped

    async def send(self, receive: Callable[[], Awaitable[dict]], send: Callable[[dict], Awaitable]) -> None:
        """Send the file until the response is complete; called in the event loop.

        A response that cannot be completed gets no last message: granian then closes the connection, so that
        the client notices.
        """
        disconnected = asyncio.create_task(_wait_for_disconnection(receive))
        try:
            while (chunk := await self._next_chunk()) is not None and not disconnected.done():
                async with asyncio.timeout(STALLED_SECONDS):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                self._sent += len(chunk)
                self._room.set()
            if chunk is None:
                await send({"type": "http.response.body", "body": b""})
        except (StreamStopped, TimeoutError):
            return
        finally:
            disconnected.cancel()
            self._is_stopped = True
            self._room.set()
            if self._is_complete or self._failed:
                self._file.close()

    async def _next_chunk(self) -> bytes | None:
        while True:
            self._more.clear()
            is_last = self._is_complete
            if chunk := os.pread(self._file.fileno(), CHUNK_BYTES, self._sent):
                return chunk
            if is_last:
                return None
            if self._failed:
                raise StreamStopped
            await self._more.wait()


async def _wait_for_disconnection(receive: Callable[[], Awaitable[dict]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
