"""The ASGI application that receives the body of a request, runs the WSGI application in a thread, and sends
the response.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TypeVar

from django.conf import settings

from authzconsole.common.problems import Problem
from authzconsole.common.request_body import MAX_BODY_BYTES, MAX_IMPORT_BYTES
from authzconsole.server.requests import (
    MAX_BACKLOG_BYTES,
    MAX_STREAMS,
    THREADS,
    BodyLimits,
    BodyReceiver,
    BodyRefused,
    ClientDisconnected,
    LongBodyRefused,
    TrustedProxies,
    body_length,
    build_environ,
    discard_body,
)
from authzconsole.server.responses import FileBody, Response, ResponseStream, ThreadPool, run_application
from authzconsole.server.waiting import (
    CAN_WAIT,
    JournalWatch,
    account_of_environ,
    read_revision,
    take_wait,
)

logger = logging.getLogger(__name__)
Result = TypeVar("Result")
# these endpoints authenticate before they read the body, and explain a missing or invalid token
API_PATHS = ("/access/", "/api/", "/scim/", "/v3/security/authorization/")
# the only path of an API that accepts more than MAX_BODY_BYTES
IMPORT_PATH = "/api/v1/plans/import"
# monitoring systems ask for it; it needs no thread, so it answers while all threads are busy
HEALTH_PATH = "/healthz"


def max_body_bytes(path: str) -> int:
    """Return the longest body that a path accepts; for pages, what Django accepts."""
    if path == IMPORT_PATH:
        return MAX_IMPORT_BYTES
    return MAX_BODY_BYTES if path.startswith(API_PATHS) else settings.DATA_UPLOAD_MAX_MEMORY_SIZE


class UnreadBody(BytesIO):
    """The body of a request that was refused before it was read."""

    def __init__(self, refusal: LongBodyRefused):
        super().__init__()
        self._refusal = refusal

    def read(self, *args) -> bytes:
        raise Problem(self._refusal.status, self._refusal.message)


class ConsoleServer:
    """An ASGI application in front of a WSGI application."""

    def __init__(self, application: Callable, *, limits: BodyLimits, proxies: TrustedProxies, folder: Path):
        self._application, self._proxies, self._folder = application, proxies, folder
        self._bodies, self._pool = BodyReceiver(limits, folder), ThreadPool(THREADS, MAX_STREAMS)
        self._journal = JournalWatch(self._current_revision)

    async def __call__(
        self, scope: dict, receive: Callable[[], Awaitable[dict]], send: Callable[[dict], Awaitable]
    ) -> None:
        if scope["type"] != "http":
            return
        environ = build_environ(scope, self._proxies)
        environ["wsgi.file_wrapper"] = FileBody
        if environ["PATH_INFO"] == HEALTH_PATH and environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return await _send_response(_healthy_response(environ["REQUEST_METHOD"]), receive, send)
        is_read = True
        if length := body_length(scope, environ):
            try:
                await self._receive_body(environ, receive, length)
            except ClientDisconnected:
                # without a response, granian would send 500 for a malformed body
                headers = [("Content-Type", "text/plain"), ("Connection", "close")]
                return await _send_response(
                    Response(400, headers, b"the request body is malformed or incomplete\n"), receive, send
                )
            except LongBodyRefused as refusal:
                is_read = False
                if not environ["PATH_INFO"].startswith(API_PATHS):
                    return await _refuse(refusal, scope, receive, send)
                environ["wsgi.input"] = UnreadBody(refusal)
            except BodyRefused as refusal:
                return await _refuse(refusal, scope, receive, send)
        response = await self._final_response(environ)
        if not is_read:
            response.headers.append(("Connection", "close"))
        await _send_response(response, receive, send)
        if not is_read:
            await _discard_body(scope, receive)

    async def _receive_body(self, environ: dict, receive, length: int) -> None:
        address = environ["REMOTE_ADDR"]
        body = await self._bodies.receive_body(
            receive,
            length,
            address="" if self._proxies.contains(address) else address,
            max_bytes=max_body_bytes(environ["PATH_INFO"]),
            find_account=partial(self._run_in_thread, partial(account_of_environ, environ)),
        )
        environ["CONTENT_LENGTH"] = str(body.seek(0, os.SEEK_END))
        body.seek(0)
        environ["wsgi.input"] = body

    async def _run_in_thread(self, function: Callable[[], Result]) -> Result:
        loop = asyncio.get_running_loop()
        result = loop.create_future()

        def run() -> None:
            value: Result | bool
            try:
                value = function()
            except Exception:
                logger.exception("the database could not be read before or while a request waited")
                value = False
            loop.call_soon_threadsafe(_set_result, result, value)

        self._pool.submit(run)
        return await result

    async def _final_response(self, environ: dict) -> Response:
        """Return the response.

        If the application wants to wait for a journal line, run the request again when there is one.
        """
        loop, deadline = asyncio.get_running_loop(), None
        while True:
            response = await self._response(environ | {CAN_WAIT: True, "wsgi.input": environ["wsgi.input"]})
            wait = take_wait(response)
            if wait is None:
                return response
            revision, seconds = wait
            deadline = deadline or loop.time() + seconds
            if not await self._journal.wait(revision, max(0, deadline - loop.time())):
                return response
            # the application has closed the body, which is empty
            environ["wsgi.input"] = BytesIO()

    async def _current_revision(self) -> int:
        return await self._run_in_thread(read_revision)

    async def _response(self, environ: dict) -> Response:
        """Run the WSGI application and return its response.

        A long response is returned before its content is complete.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Response] = loop.create_future()

        def deliver(response: Response) -> None:
            loop.call_soon_threadsafe(_set_result, result, response)

        def run() -> None:
            try:
                run_application(
                    self._application,
                    environ,
                    pool=self._pool,
                    deliver=deliver,
                    new_stream=lambda file: ResponseStream(loop, self._folder, MAX_BACKLOG_BYTES, file),
                )
            except Exception:
                logger.exception("%s failed in the server", environ["PATH_INFO"])
                # ignored if the response has started
                deliver(Response(500, [("Content-Type", "text/plain")], b"internal error\n"))

        self._pool.submit(run)
        return await result


def _healthy_response(method: str) -> Response:
    headers = [
        ("Content-Type", "text/plain"),
        ("Content-Length", "2"),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
    ]
    return Response(200, headers, b"" if method == "HEAD" else b"ok")


def _set_result(future: asyncio.Future, value: object) -> None:
    if not future.done():
        future.set_result(value)


async def _refuse(refusal: BodyRefused, scope: dict, receive, send) -> None:
    """Answer without reading the body, and close the connection when the client has read the answer."""
    headers = [("Content-Type", "text/plain"), ("Connection", "close"), *refusal.headers.items()]
    await _send_response(Response(refusal.status, headers, f"{refusal.message}\n".encode()), receive, send)
    await _discard_body(scope, receive)


async def _discard_body(scope: dict, receive) -> None:
    # a client that expects `100 Continue` does not send the body of a refused request
    if not any(name == b"expect" for name, _ in scope["headers"]):
        await discard_body(receive)


async def _send_response(response: Response, receive, send) -> None:
    headers = [
        (name.encode("latin-1"), str(value).encode("latin-1"))
        for name, value in response.headers
        # Django sets it to 0, but it would have to be that of the omitted content (RFC 9110, section 8.6)
        if response.status != 304 or name != "Content-Length"
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if response.stream:
        await response.stream.send(receive, send)
    else:
        await send({"type": "http.response.body", "body": response.body})
