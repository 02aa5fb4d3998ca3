"""Let requests wait for new journal lines without occupying a thread (long polling).

The application answers at once. If its answer has the header WAIT_HEADER, the server keeps the answer, waits
in the event loop and runs the request again when there is a newer line. One query per POLL_SECONDS serves all
waiting requests of this process.
"""

import asyncio
from collections.abc import Awaitable, Callable

from authzconsole.server.responses import Response

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
