"""Send tasks to the workers, and check within a third of a second whether Redis answers and a worker is
running.

With each heartbeat, a worker sets a key in Redis for each queue from which it takes tasks. The key expires
after PRESENT_SECONDS.
"""

import logging
from contextlib import suppress
from urllib.parse import urlsplit

import kombu.exceptions
import redis
from celery import current_app
from celery.signals import heartbeat_sent, worker_shutdown
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 0.3
# a worker sends a heartbeat every two seconds
PRESENT_SECONDS = 10
# the scheduler wakes up every five seconds, but a change of its table can take longer
SCHEDULER_PRESENT_SECONDS = 30
SCHEDULER_KEY = "authzconsole:scheduler"
UNREADABLE_ADDRESS = "the address in REDIS_URL"


def redis_client(timeout_seconds: float = ANSWER_SECONDS) -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=timeout_seconds,
        socket_timeout=timeout_seconds,
        retry=Retry(NoBackoff(), 0),
    )


def redis_problem() -> str:
    """Return why no run can be sent to a worker; empty if Redis answers."""
    try:
        with redis_client() as client:
            client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        return f"Redis does not answer at {redis_address()} ({_cause(error)})"
    return ""


def _cause(error: Exception) -> str:
    """Return the message of an error, or only its type where the message may contain a password."""
    may_contain_password = (
        isinstance(error, redis.AuthenticationError | ValueError) or redis_address() == UNREADABLE_ADDRESS
    )
    return type(error).__name__ if may_contain_password else str(error) or type(error).__name__


def redis_address() -> str:
    """Return REDIS_URL without any part that may be a password."""
    try:
        parts = urlsplit(settings.REDIS_URL)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    # the second half of a password with an unencoded `#`, `?` or `/` is parsed as one of these parts
    if not host or "@" in parts.path + parts.query + parts.fragment:
        return UNREADABLE_ADDRESS
    shown_host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown_host}{f':{port}' if port else ''}{parts.path}"


def presence_key(queue: str) -> str:
    """Return the key under which a worker of this queue announces itself."""
    return f"authzconsole:worker:{queue}"


def is_worker_present(queue: str = settings.RUN_QUEUE) -> bool:
    """Return whether a worker of this queue announced itself in the last PRESENT_SECONDS.

    Raise redis.RedisError.
    """
    with redis_client() as client:
        return bool(client.exists(presence_key(queue)))


def is_scheduler_present() -> bool:
    """Return whether the scheduler announced itself in the last SCHEDULER_PRESENT_SECONDS.

    Raise redis.RedisError.
    """
    with redis_client() as client:
        return bool(client.exists(SCHEDULER_KEY))


def announce_scheduler() -> None:
    """Announce the scheduler for SCHEDULER_PRESENT_SECONDS; do nothing if Redis does not answer."""
    with suppress(redis.RedisError, OSError), redis_client() as client:
        client.set(SCHEDULER_KEY, "1", ex=SCHEDULER_PRESENT_SECONDS)


def queue_lengths() -> dict[str, int]:
    """Return the number of messages that wait in each queue. Raise redis.RedisError."""
    with redis_client() as client, client.pipeline(transaction=False) as pipeline:
        for queue in settings.CELERY_TASK_QUEUES:
            pipeline.llen(queue)
        return dict(zip(settings.CELERY_TASK_QUEUES, pipeline.execute(), strict=True))


def send_task(task: str, number: int, *, label: str, queue: str, time_limit: float | None = None) -> bool:
    """Send a task with this number to a queue. Return False if Redis does not answer, which is logged.

    label: what the task is about, for the log. time_limit: in seconds, after which Celery kills the process.
    """
    # checked first, because Celery itself takes seconds to detect that Redis does not answer
    if problem := redis_problem():
        logger.warning("%s waits: %s", label, problem)
        return False
    try:
        # a new connection, because a pooled connection may belong to a Redis that has been replaced
        with current_app.connection_for_write() as connection:
            current_app.send_task(
                task, args=[number], queue=queue, time_limit=time_limit, connection=connection
            )
    except (kombu.exceptions.OperationalError, redis.RedisError, OSError) as error:
        logger.warning("%s waits: Redis does not answer (%s)", label, error)
        return False
    return True


@heartbeat_sent.connect(dispatch_uid="grants.jobs.queue")
def _announce_worker(**_):
    with redis_client(2) as client, client.pipeline(transaction=False) as pipeline:
        for key in _keys_of_this_worker():
            pipeline.set(key, "1", ex=PRESENT_SECONDS)
        pipeline.execute()


@worker_shutdown.connect(dispatch_uid="grants.jobs.queue")
def _withdraw_worker(**_):
    with redis_client(2) as client:
        client.delete(*_keys_of_this_worker())


def _keys_of_this_worker() -> list[str]:
    return [presence_key(queue) for queue in current_app.amqp.queues.consume_from]
