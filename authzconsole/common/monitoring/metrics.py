"""The counters and histograms of this process. `views` adds the metrics from the database and Redis.

The worker processes of the web server write their values into files in a common folder, so that any of them
can answer for all. `authzconsole.server_worker` chooses this folder before this module is imported. Other processes keep
the values in memory.
"""

import os
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.multiprocess import MultiProcessCollector

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
ENDPOINT_CLASSES = (("/access/", "authzen"), ("/api/", "rest"), ("/static/", "static"), ("/scim/", "scim"))
REGISTRY = CollectorRegistry()

DECISIONS = Counter(
    "authzconsole_decisions", "Decisions over AuthZEN and REST.", ["generation", "result"], registry=REGISTRY
)
REQUEST_SECONDS = Histogram(
    "authzconsole_request_seconds",
    "The time from a complete request to its response.",
    ["endpoint"],
    buckets=BUCKETS,
    registry=REGISTRY,
)
ERROR_RESPONSES = Counter(
    "authzconsole_error_responses",
    "Responses with a status of 400 or more.",
    ["endpoint", "status"],
    registry=REGISTRY,
)
SECURITY_EVENTS = Counter(
    "authzconsole_security_events",
    "Security events; `sign-in-failure` and `token-rejected` are rejected credentials.",
    ["kind"],
    registry=REGISTRY,
)
DATABASE_BUSY = Counter(
    "authzconsole_database_busy", "Requests that failed because SQLite was locked.", registry=REGISTRY
)

# looking up a metric by its labels takes longer than incrementing it
decisions_of = cache(DECISIONS.labels)
_security_events_of = cache(SECURITY_EVENTS.labels)
_seconds_of = cache(REQUEST_SECONDS.labels)


def count_decision(generation: str, is_permitted: bool) -> None:
    decisions_of(generation, "permit" if is_permitted else "deny").inc()


def count_security_event(kind: str) -> None:
    _security_events_of(kind).inc()


def observe_response(path: str, status: int, seconds: float) -> None:
    """Record the response to a request."""
    endpoint = next((name for prefix, name in ENDPOINT_CLASSES if path.startswith(prefix)), "page")
    _seconds_of(endpoint).observe(seconds)
    if status >= 400:
        ERROR_RESPONSES.labels(endpoint, status).inc()


def process_registry() -> CollectorRegistry:
    """Return a registry with the values of all worker processes of the web server, or of this process
    elsewhere.
    """
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return registry
