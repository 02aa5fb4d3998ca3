"""Redis, the caches and Celery."""

from urllib.parse import quote, urlsplit

from django.core.exceptions import ImproperlyConfigured
from redis.backoff import NoBackoff
from redis.retry import Retry

from .authorization import JOURNAL_ANCHOR
from .environment import env


def with_password(url: str, password: str) -> str:
    """Return the URL with this password instead of the one that it contains."""
    parts = urlsplit(url)
    user = (parts.netloc.rpartition("@")[0]).partition(":")[0]
    return parts._replace(
        netloc=f"{user}:{quote(password, safe='')}@{parts.netloc.rpartition('@')[2]}"
    ).geturl()


REDIS_URL = env.str("REDIS_URL", default="redis://127.0.0.1:6379/0")
if urlsplit(REDIS_URL).scheme not in ("redis", "rediss"):
    raise ImproperlyConfigured("REDIS_URL must be written redis://HOST:PORT/NUMBER (rediss:// for TLS)")
if password := env.str("REDIS_PASSWORD", default=""):
    REDIS_URL = with_password(REDIS_URL, password)
CACHES = {
    # per process
    "default": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "OPTIONS": {"MAX_ENTRIES": 10_000},
    },
    # per process; see grants/evaluation/count_cache.py
    "counts": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "LOCATION": "counts",
        "TIMEOUT": 3_600,
        "OPTIONS": {"MAX_ENTRIES": 1_000},
    },
    # shared by all processes; a list, because in a string a `,` in the password would separate two URLs
    "shared": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": [REDIS_URL],
        "KEY_PREFIX": "authzconsole",
        "OPTIONS": {
            "socket_timeout": 0.5,
            "socket_connect_timeout": 0.5,
            "retry": Retry(NoBackoff(), 0),
            "serializer": "authzconsole.common.login_throttle.IntegerSerializer",
        },
    },
}
CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
# Runs take minutes or hours, so they have a queue and a worker for themselves. Every other task uses the
# default queue and must be short. A worker without `--queues` executes the tasks of both.
RUN_QUEUE, LIGHT_QUEUE = "runs", "light"
CELERY_TASK_QUEUES = {name: {"exchange": name, "routing_key": name} for name in (RUN_QUEUE, LIGHT_QUEUE)}
CELERY_TASK_DEFAULT_QUEUE = LIGHT_QUEUE
CELERY_TASK_ROUTES = {
    name: {"queue": RUN_QUEUE} for name in ("authzconsole.journal_verify", "analytics.warm_up_spark")
}
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CONCURRENCY = 1
# otherwise anyone who can write to Redis could shut down the worker or change its limits
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
    "visibility_timeout": 43_200,
}


def every(seconds: int, task: str) -> dict:
    """Return an entry of the schedule. A delayed message can expire, because the next one does the same
    work.
    """
    return {"task": task, "schedule": float(seconds), "options": {"expires": seconds}}


CELERY_BEAT_SCHEDULER = "analytics.runs.beat:Scheduler"
CELERY_BEAT_SCHEDULE = {
    "jobs_sweep": every(5, "grants.sweep_jobs"),
    "results_clean": every(3_600, "analytics.results_clean"),
    # requests the nightly runs that are due, and the first run of each analysis
    "scheduled_runs": every(30, "analytics.scheduled_runs"),
    # verifies the journal once a day; at other times it does nothing
    "journal_verify": every(600, "authzconsole.journal_verify"),
    "evidence_sweep": every(3_600, "authzconsole.evidence_sweep"),
    "reviews_sweep": every(30, "authzconsole.reviews_sweep"),
    # expires access requests, reminds approvers, and sends e-mail
    "access_requests_sweep": every(30, "authzconsole.access_requests_sweep"),
    "sessions_clean": every(3_600, "authzconsole.sessions_clean"),
    # a journal line for each grant and membership that began or ended; a later task does the work of one that
    # expired
    "period_lines": every(30, "authzconsole.period_lines"),
    # what needs attention; pages refresh it too
    "findings_sweep": every(60, "authzconsole.findings_sweep"),
    # requests the syncs of connections that are due
    "connections_sync": every(60, "authzconsole.connections_sync"),
    "history_catch_up": every(60, "authzconsole.history_catch_up"),
}

if JOURNAL_ANCHOR:
    CELERY_BEAT_SCHEDULE["journal_anchor"] = every(60, "authzconsole.journal_anchor")
