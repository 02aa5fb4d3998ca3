"""Run the WSGI application in threads, and send its responses.

A response that is too long for the memory is sent at the speed of the client, without occupying a thread: a
thread generates it into a temporary file, and the event loop sends the file as fast as the client reads. granian
accepts another chunk only when it has sent earlier ones.
"""

import asyncio
import contextlib
import logging
import os
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from django.db import connections

from authzconsole.server.requests import DIRECT_RESPONSE_BYTES, MAX_GENERATING, RETRY_AFTER_SECONDS

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


logger = logging.getLogger(__name__)


class TooManyStreams(Exception):
    """All further threads are busy with long responses."""


class ThreadPool:
    """A fixed number of threads for requests, and up to `max_streams` further threads for long responses."""

    def __init__(self, size: int, max_streams: int):
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._size, self._max_streams = size, max_streams
        self._lock, self._threads, self._streams = threading.Lock(), 0, 0
        self._current = threading.local()

    def submit(self, job: Callable[[], None]) -> None:
        """Run the job in a thread. It must handle its own exceptions."""
        if self._threads < self._size:
            self._start_thread()
        self._jobs.put(job)

    def start_stream(self) -> None:
        """Let another thread take the next job, because the job of this thread takes long.

        Raise TooManyStreams at the limit.
        """
        with self._lock:
            if self._streams >= self._max_streams:
                raise TooManyStreams
            self._streams += 1
        self._current.is_replaced = True
        threading.Thread(target=self._work, daemon=True).start()

    def _start_thread(self) -> None:
        with self._lock:
            if self._threads >= self._size:
                return
            self._threads += 1
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        self._current.is_replaced = False
        while not self._current.is_replaced:
            job = self._jobs.get()
            try:
                job()
            except Exception:
                logger.exception("a request failed in the server")
        with self._lock:
            self._streams -= 1
        connections.close_all()


Headers = list[tuple[str, str]]
_generating = threading.Semaphore(MAX_GENERATING)


class FileBody:
    """The `wsgi.file_wrapper`: a response that is an open file."""

    def __init__(self, file: IO[bytes], block_size: int = 64 * 1024):
        self.file, self._block_size = file, block_size
        self.close = getattr(file, "close", lambda: None)

    def __iter__(self) -> Iterator[bytes]:
        while block := self.file.read(self._block_size):
            yield block

    def whole_file(self) -> IO[bytes] | None:
        """Return the same file, opened again, if it is regular and long, and sent from its start."""
        try:
            descriptor = self.file.fileno()
            if self.file.tell() or os.fstat(descriptor).st_size <= DIRECT_RESPONSE_BYTES:
                return None
        except (AttributeError, OSError):
            return None
        return os.fdopen(os.dup(descriptor), "rb")


@dataclass(slots=True)
class Response:
    """The status and headers of a response, and its content: `body`, or a `stream` if it is long."""

    status: int
    headers: Headers
    body: bytes = b""
    stream: ResponseStream | None = None


def run_application(
    application: Callable,
    environ: dict,
    *,
    pool: ThreadPool,
    deliver: Callable[[Response], None],
    new_stream: Callable[[IO[bytes] | None], ResponseStream],
) -> None:
    """Call the application in a thread and deliver its response, at the latest when DIRECT_RESPONSE_BYTES are
    generated.
    """
    started: list[tuple[int, Headers]] = []

    def start_response(status: str, headers: Headers, exc_info: object = None) -> None:
        started[:] = [(int(status[:3]), headers)]

    content: Iterable[bytes] = ()
    try:
        content = application(environ, start_response)
        if isinstance(content, list):
            return deliver(Response(*started[0], b"".join(content)))
        _deliver_content(content, environ, *started[0], pool=pool, deliver=deliver, new_stream=new_stream)
    finally:
        if close := getattr(content, "close", None):
            close()
        environ["wsgi.input"].close()


def _deliver_content(
    content: Iterable[bytes],
    environ: dict,
    status: int,
    headers: Headers,
    *,
    pool: ThreadPool,
    deliver: Callable[[Response], None],
    new_stream: Callable[[IO[bytes] | None], ResponseStream],
) -> None:
    if environ["REQUEST_METHOD"] == "HEAD":
        return deliver(Response(status, headers))
    if isinstance(content, FileBody) and (file := content.whole_file()):
        return deliver(Response(status, headers, stream=new_stream(file)))
    chunks, size = iter(content), 0
    parts: list[bytes] = []
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > DIRECT_RESPONSE_BYTES:
            break
    else:
        return deliver(Response(status, headers, b"".join(parts)))
    try:
        pool.start_stream()
    except TooManyStreams:
        return deliver(_busy_response())
    stream = new_stream(None)
    deliver(Response(status, headers, stream=stream))
    # the client may end its download
    with contextlib.suppress(StreamStopped):
        stream.write(chain(parts, in_turn(chunks)))


def in_turn(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the chunks. At most MAX_GENERATING threads of this process generate one at the same time."""
    while True:
        with _generating:
            chunk = next(chunks, None)
        if chunk is None:
            return
        yield chunk


def _busy_response() -> Response:
    body = b"the console generates too many long responses at the moment; repeat the request later\n"
    return Response(503, [("Content-Type", "text/plain"), ("Retry-After", str(RETRY_AFTER_SECONDS))], body)
