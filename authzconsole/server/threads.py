"""The threads that run the WSGI application."""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from django.db import connections

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
