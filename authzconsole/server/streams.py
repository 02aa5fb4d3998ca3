"""Send responses that are too long for the memory, at the speed of the client, without occupying a thread.

A thread generates the response into a temporary file, and the event loop copies the file into a pipe as fast
as the client reads. granian sends the other end of the pipe like a file, and reads from it only when the
client accepts more data. (The messages of ASGI would collect in the memory, because granian queues them
without a limit.)
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

CHUNK_BYTES = 64 * 1024
PIPE_BYTES = 64 * 1024
# the response is aborted if the client accepts no data for this long
STALLED_SECONDS = 60
UNOPENED_SECONDS = 10


class StreamStopped(Exception):
    """The client disconnected or reads too slowly."""


class ResponseStream:
    """A response that a thread writes and the event loop sends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, folder: Path, max_backlog: int):
        self._loop, self._max_backlog = loop, max_backlog
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)
        self._reader, self._writer = os.pipe()
        fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(self._writer, False)
        self._written = self._sent = 0
        self._is_complete, self._is_stopped, self._failed = False, False, False
        self._more, self._room = asyncio.Event(), threading.Event()

    @property
    def path(self) -> str:
        """The path under which this process can open the pipe."""
        return f"/proc/self/fd/{self._reader}"

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

    async def send(self, abort_connection: Callable[[], None]) -> None:
        """Copy the file into the pipe until the response is complete; called in the event loop.

        abort_connection: called if the response cannot be completed, so that the client notices.
        """
        try:
            while (chunk := await self._next_chunk()) is not None:
                await self._send_chunk(chunk)
        except StreamStopped:
            abort_connection()
        finally:
            self._is_stopped = True
            self._room.set()
            self._close_pipe()
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

    async def _send_chunk(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:
            try:
                sent = os.write(self._writer, view)
            except BlockingIOError:
                await self._wait_until_writable()
            except BrokenPipeError:
                raise StreamStopped from None
            else:
                self._sent += sent
                view = view[sent:]
                self._room.set()
        if self._reader >= 0 and self._sent > PIPE_BYTES:
            # some data was read, so granian has opened the pipe; without this second reader, a disconnection
            # breaks the pipe
            os.close(self._reader)
            self._reader = -1

    async def _wait_until_writable(self) -> None:
        writable = asyncio.Event()
        self._loop.add_writer(self._writer, writable.set)
        try:
            async with asyncio.timeout(STALLED_SECONDS if self._reader < 0 else UNOPENED_SECONDS):
                await writable.wait()
        except TimeoutError:
            raise StreamStopped from None
        finally:
            self._loop.remove_writer(self._writer)

    def _close_pipe(self) -> None:
        os.close(self._writer)
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1


def abort_connection(client: tuple[str, str]) -> None:
    """Shut down the connection of this process to the client, because ASGI has no message for an incomplete
    response.
    """
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as duplicate:
                # for other families, the name of the peer is a string
                peer = (
                    duplicate.getpeername()
                    if duplicate.family in (socket.AF_INET, socket.AF_INET6)
                    else ("", "")
                )
                if (peer[0], str(peer[1])) == tuple(client):
                    duplicate.shutdown(socket.SHUT_RDWR)
                    return
