"""Repeat database work of a job after a lost connection, and while SQLite is locked.

A job computes for minutes or hours without the database, so it does not fail when the database restarts or is
locked.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

import psycopg
from django.db import InterfaceError, OperationalError, connection

logger = logging.getLogger(__name__)

# a restart of the database, or a long import on SQLite
PATIENCE_SECONDS = 600
PAUSE_SECONDS = 0.5
# Django converts the errors of statements, but not those of COPY
DATABASE_ERRORS = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
# SQLite raises an OperationalError for wrong statements too
SQLITE_MESSAGES = ("locked", "busy", "full", "disk I/O error", "unable to open")

Result = TypeVar("Result")


def retry_database(work: Callable[[], Result], *, check: Callable[[], None] = lambda: None) -> Result:
    """Return the result of `work`, and repeat it after errors that can pass, for up to PATIENCE_SECONDS.

    work: must be repeatable, because a lost connection can hide that a statement was committed. It must open
    transactions itself.
    check: called before each repetition; its exceptions end the repetitions.
    """
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return work()
        except DATABASE_ERRORS as error:
            if connection.in_atomic_block or not _can_pass(error) or time.monotonic() > give_up_at:
                raise
            logger.warning("The database does not answer, it is tried again: %s", error)
            connection.close()
        check()
        time.sleep(PAUSE_SECONDS)


def _can_pass(error: Exception) -> bool:
    return connection.vendor != "sqlite" or any(message in str(error) for message in SQLITE_MESSAGES)
