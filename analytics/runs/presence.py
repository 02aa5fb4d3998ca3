"""Whether Redis answers and a worker is running, as the pages need to know it: within a third of a second."""

from urllib.parse import urlsplit

import redis
from celery.signals import heartbeat_sent, worker_shutdown
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

ANSWER_SECONDS = 0.3
# a worker says every two seconds that it is there
PRESENT_SECONDS = 10
KEY = "authzconsole:worker"
UNREADABLE_ADDRESS = "the address in REDIS_URL"


def redis_client(timeout_seconds: float = ANSWER_SECONDS) -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=timeout_seconds, socket_timeout=timeout_seconds,
                                retry=Retry(NoBackoff(), 0))


def redis_problem() -> str:
    """Why no run can be handed to a worker; empty when Redis answers."""
    try:
        with redis_client() as client:
            client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        return f"Redis does not answer at {redis_address()} ({_cause(error)})"
    return ""


def _cause(error: Exception) -> str:
    """What is said of a password, or of an address that may hold one, is not repeated."""
    is_telling = isinstance(error, redis.AuthenticationError | ValueError) or redis_address() == UNREADABLE_ADDRESS
    return type(error).__name__ if is_telling else str(error) or type(error).__name__


def redis_address() -> str:
    """REDIS_URL without anything that may be a password."""
    try:
        parts = urlsplit(settings.REDIS_URL)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    # a password with a `#`, `?` or `/` that is not encoded puts its second half there
    if not host or "@" in parts.path + parts.query + parts.fragment:
        return UNREADABLE_ADDRESS
    place = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{place}{f':{port}' if port else ''}{parts.path}"


def is_worker_present() -> bool:
    """Raises redis.RedisError."""
    with redis_client() as client:
        return bool(client.exists(KEY))


@heartbeat_sent.connect(dispatch_uid="analytics.runs.presence")
def _announce(**_):
    with redis_client(2) as client:
        client.set(KEY, "1", ex=PRESENT_SECONDS)


@worker_shutdown.connect(dispatch_uid="analytics.runs.presence")
def _leave(**_):
    with redis_client(2) as client:
        client.delete(KEY)
