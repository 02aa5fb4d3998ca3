"""Check whether the console can work: database, migrations, Redis, workers, scheduler and disk space.

The checks run in threads and are bounded by TIMEOUT_SECONDS, even if the database hangs. The result is kept
for a second, so requests cannot cause load.
"""

import shutil
import threading
import time
from collections.abc import Callable

import redis
from django.conf import settings
from django.db import DatabaseError, connection, connections
from django.db.migrations.executor import MigrationExecutor

from entities.frozen import frozen
from grants.jobs import is_scheduler_present, is_worker_present, redis_problem

TIMEOUT_SECONDS = 2.0
KEPT_SECONDS = 1.0
MIGRATIONS_KEPT_SECONDS = 60.0
MEGABYTE = 1_000_000


@frozen
class CheckResult:
    """The result of one check, with a short text."""

    name: str
    is_ok: bool
    text: str


class _Check:
    """One check in a thread. While the thread of an earlier call hangs, no other thread is started."""

    def __init__(self, names: tuple[str, ...], function: Callable[[], list[CheckResult]]):
        self._names, self._function = names, function
        self._thread: threading.Thread | None = None
        self._results: list[CheckResult] = []

    def start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._results = []
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._results = self._function()
        except Exception as error:
            self._results = [CheckResult(name, False, type(error).__name__) for name in self._names]
        finally:
            connections.close_all()

    def results(self, deadline: float) -> list[CheckResult]:
        self._thread.join(max(0, deadline - time.monotonic()))
        return self._results or [
            CheckResult(name, False, f"no answer within {TIMEOUT_SECONDS:g} s") for name in self._names
        ]


class _Migrations:
    checked_at = -MIGRATIONS_KEPT_SECONDS


def _check_database() -> list[CheckResult]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return [CheckResult("database", True, connection.vendor), _check_migrations()]
    except DatabaseError as error:
        # without the message, which can contain the address of the database
        return [
            CheckResult("database", False, type(error).__name__),
            CheckResult("migrations", False, "unknown"),
        ]


def _check_migrations() -> CheckResult:
    if time.monotonic() - _Migrations.checked_at > MIGRATIONS_KEPT_SECONDS:
        executor = MigrationExecutor(connection)
        if missing := executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return CheckResult("migrations", False, f"{len(missing)} missing: run `manage.py migrate`")
        _Migrations.checked_at = time.monotonic()
    return CheckResult("migrations", True, "complete")


def _check_redis() -> list[CheckResult]:
    if redis_problem():
        return [
            CheckResult("redis", False, "no answer"),
            CheckResult("worker", False, "unknown"),
            CheckResult("scheduler", False, "unknown"),
        ]
    try:
        missing = [queue for queue in settings.CELERY_TASK_QUEUES if not is_worker_present(queue)]
        has_scheduler = is_scheduler_present()
    except redis.RedisError:
        return [CheckResult(name, False, "unknown") for name in ("redis", "worker", "scheduler")]
    return [
        CheckResult("redis", True, "answers"),
        CheckResult(
            "worker", not missing, f"no worker for the queue {' or '.join(missing)}" if missing else "running"
        ),
        CheckResult("scheduler", has_scheduler, "running" if has_scheduler else "not running"),
    ]


def _check_disk() -> list[CheckResult]:
    free = shutil.disk_usage(settings.STATE_DIR).free // MEGABYTE
    return [CheckResult("disk", free >= settings.DISK_FREE_MIN_MB, f"{free:,} MB free")]


_CHECKS = (
    _Check(("database", "migrations"), _check_database),
    _Check(("redis", "worker", "scheduler"), _check_redis),
    _Check(("disk",), _check_disk),
)
_lock = threading.Lock()
_last: tuple[float, list[CheckResult]] = (-KEPT_SECONDS, [])


def readiness() -> list[CheckResult]:
    """Return the result of each check, at most KEPT_SECONDS old. Takes at most TIMEOUT_SECONDS."""
    global _last
    with _lock:
        checked_at, results = _last
        if time.monotonic() - checked_at >= KEPT_SECONDS:
            deadline = time.monotonic() + TIMEOUT_SECONDS
            for check in _CHECKS:
                check.start()
            results = [result for check in _CHECKS for result in check.results(deadline)]
            _last = (time.monotonic(), results)
    return results
