"""Run the WSGI application for one request and collect its response."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import IO

from authzconsole.server.limits import DIRECT_RESPONSE_BYTES, MAX_GENERATING, RETRY_AFTER_SECONDS
from authzconsole.server.streams import ResponseStream, StreamStopped
from authzconsole.server.threads import ThreadPool, TooManyStreams

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
