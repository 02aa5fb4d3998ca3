"""Whether Redis answers and a worker is running, as the pages need to know it: within a third of a second."""

import redis
from celery.signals import heartbeat_sent, worker_shutdown
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

ANSWER_SECONDS = 0.3
# a worker says every two seconds that it is there
PRESENT_SECONDS = 10
KEY = "authzconsole:worker"


def redis_client(timeout_seconds: float = ANSWER_SECONDS) -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=timeout_seconds, socket_timeout=timeout_seconds,
                                retry=Retry(NoBackoff(), 0))


def redis_problem() -> str:
    """Why no run can be handed to a worker; empty when Redis answers."""
    try:
        with redis_client() as client:
            client.ping()
    except (redis.RedisError, OSError) as error:
        return f"Redis does not answer at {redis_address()} ({error or type(error).__name__})"
    return ""


def redis_address() -> str:
    """REDIS_URL without its password."""
    before, at, after = settings.REDIS_URL.rpartition("@")
    return f"{before.partition('://')[0]}://{after}" if at else after


def worker_is_present() -> bool:
    """Raises redis.RedisError."""
    with redis_client() as client:
        return bool(client.exists(KEY))


@heartbeat_sent.connect(dispatch_uid="analytics.presence")
def _announce(**_):
    with redis_client(2) as client:
        client.set(KEY, "1", ex=PRESENT_SECONDS)


@worker_shutdown.connect(dispatch_uid="analytics.presence")
def _leave(**_):
    with redis_client(2) as client:
        client.delete(KEY)
