"""Let requests wait for new journal lines without occupying a thread (long polling).

The application answers at once. If its answer has the header WAIT_HEADER, the server keeps the answer, waits
in the event loop and runs the request again when there is a newer line. One query per POLL_SECONDS serves all
waiting requests of this process.
"""

import asyncio
from collections.abc import Awaitable, Callable

from django.contrib.auth import get_user
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.handlers.wsgi import WSGIRequest
from django.db import DatabaseError, close_old_connections
from django.http import HttpResponse

from authzconsole.common.tokens import TokenRefused, verify_token
from authzconsole.server.responses import Response
from grants.journal import current_revision

# the environ has CAN_WAIT if the server can wait; the value of the header is REVISION;SECONDS
CAN_WAIT, WAIT_HEADER = "authzconsole.can_wait", "X-Console-Wait"
POLL_SECONDS = 0.5
MAX_WAITING = 100


class JournalWatch:
    """The requests that wait for a newer revision than the one that they know."""

    def __init__(self, read_revision: Callable[[], Awaitable[int]]):
        self._read_revision = read_revision
        self._waiting: dict[asyncio.Future[None], int] = {}
        self._poller: asyncio.Task | None = None

    async def wait(self, revision: int, seconds: float) -> bool:
        """Wait for a newer revision.

        Return False after this time, or at once if MAX_WAITING requests wait already.
        """
        if len(self._waiting) >= MAX_WAITING:
            return False
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = revision
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            return False
        finally:
            del self._waiting[future]
        return True

    async def _poll(self) -> None:
        while self._waiting:
            await asyncio.sleep(POLL_SECONDS)
            newest = await self._read_revision()
            for future, revision in self._waiting.items():
                if newest > revision and not future.done():
                    future.set_result(None)


def take_wait(response: Response) -> tuple[int, float] | None:
    """Remove WAIT_HEADER from a response.

    Return the known revision and the seconds to wait; None without the header.
    """
    value = next((value for name, value in response.headers if name == WAIT_HEADER), None)
    if value is None:
        return None
    response.headers[:] = [(name, value) for name, value in response.headers if name != WAIT_HEADER]
    revision, _, seconds = value.partition(";")
    return int(revision), float(seconds)


def account_of_environ(environ: dict) -> int:
    """Return the number of the account of a valid token or session; 0 without one.

    The application checks again what the caller may do.
    """
    close_old_connections()
    try:
        if authorization := environ.get("HTTP_AUTHORIZATION", ""):
            return _owner_of_token(authorization)
        request = WSGIRequest(environ)
        SessionMiddleware(lambda request: HttpResponse()).process_request(request)
        return get_user(request).pk or 0
    finally:
        close_old_connections()


def read_revision() -> int:
    """Return the newest revision of the journal; 0 if the database does not answer."""
    close_old_connections()
    try:
        return current_revision()
    except DatabaseError:
        return 0
    finally:
        close_old_connections()


def _owner_of_token(authorization: str) -> int:
    scheme, _, secret = authorization.partition(" ")
    try:
        return verify_token(secret.strip()).owner_id if scheme.lower() == "bearer" else 0
    except TokenRefused:
        return 0
