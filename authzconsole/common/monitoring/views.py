"""The views `/readyz` and `/metrics`, and the metrics from the database and Redis, which are read when
Prometheus requests them, so that every process reports the same values.

Their middleware answers them without a session, a host check or a database connection.
"""

import ipaddress
import time
from collections.abc import Callable, Iterator
from hmac import compare_digest

import redis
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import DisallowedHost
from django.db import DatabaseError
from django.db.models import Count, Max
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import split_domain_port
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from analytics.models import AnalysisRun
from authzconsole.common.monitoring.metrics import process_registry
from authzconsole.common.monitoring.readiness import readiness
from authzconsole.models import SecurityEvent, SecurityEventTarget, Webhook
from grants.jobs import queue_lengths
from grants.journal import current_head
from grants.verification import anchored_revision


class MonitoringMiddleware:
    """Answer `/readyz` and `/metrics` before other middleware, which would need the database."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]):
        self.get_response = get_response
        self._views = {"/readyz": readyz, "/metrics": metrics}

    def __call__(self, request: HttpRequest) -> HttpResponse:
        view = self._views.get(request.path)
        if view is None:
            return self.get_response(request)
        response = view(request)
        response["Cache-Control"] = "no-store"
        return response


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Return 200 if all checks pass, otherwise 503. Monitoring systems get the result of each check."""
    results = readiness()
    is_ready = all(result.is_ok for result in results)
    status = 200 if is_ready else 503
    if not is_monitor(request):
        return HttpResponse(
            "ready\n" if is_ready else "not ready\n", content_type="text/plain", status=status
        )
    checks = {
        result.name: {"status": "ok" if result.is_ok else "failed", "text": result.text} for result in results
    }
    return JsonResponse({"status": "ready" if is_ready else "not ready", "checks": checks}, status=status)


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return all metrics in the text format of Prometheus.

    Callers that are not monitoring systems get 403.
    """
    if not is_monitor(request):
        return HttpResponse(
            "send METRICS_TOKEN as `Authorization: Bearer TOKEN`\n", content_type="text/plain", status=403
        )
    state = CollectorRegistry()
    state.register(StateCollector())
    return HttpResponse(
        generate_latest(process_registry()) + generate_latest(state), content_type=CONTENT_TYPE_LATEST
    )


# a proxy adds one of these; the server drops those of unknown proxies and sets the last one instead
_PROXY_HEADERS = (
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_FORWARDED",
    "HTTP_X_REAL_IP",
    "HTTP_VIA",
    "authzconsole.is_forwarded",
)


def is_monitor(request: HttpRequest) -> bool:
    """Return whether the caller has METRICS_TOKEN, or sent the request directly from METRICS_NETWORKS to a
    known host.

    A web page that lets its own name resolve to this machine (DNS rebinding) sends requests with this name as
    host.
    """
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if settings.METRICS_TOKEN and scheme.lower() == "bearer":
        return compare_digest(token.strip().encode(), settings.METRICS_TOKEN.encode())
    if any(header in request.META for header in _PROXY_HEADERS):
        return False
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return any(
        address in ipaddress.ip_network(network) for network in settings.METRICS_NETWORKS
    ) and _is_known_host(request)


def _is_known_host(request: HttpRequest) -> bool:
    """Return whether the Host header is in ALLOWED_HOSTS, an IP address or `localhost`, which no web page can
    rebind.
    """
    try:
        request.get_host()
        return True
    except DisallowedHost:
        host = split_domain_port(request.META.get("HTTP_HOST", ""))[0]
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host == "localhost"
    return True


class StateCollector:
    """Collect the state of the console: readiness, runs, queues, the journal and the shipping of security
    events.
    """

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield _family(
            "ready",
            "Whether a part of the console works.",
            ["check"],
            [((result.name,), result.is_ok) for result in readiness()],
        )
        try:
            yield from _database_metrics()
        except DatabaseError:
            # the check `database` is 0
            pass
        try:
            yield _family(
                "queue_messages",
                "Messages that wait for a worker.",
                ["queue"],
                [((queue,), length) for queue, length in queue_lengths().items()],
            )
        except (redis.RedisError, OSError):
            # the check `redis` is 0
            pass


def _database_metrics() -> Iterator[GaugeMetricFamily]:
    counts = AnalysisRun.objects.order_by().values_list("type", "state").annotate(Count("pk"))
    yield _family(
        "runs",
        "Runs by state.",
        ["analysis", "state"],
        [((analysis, state), count) for analysis, state, count in counts],
    )
    head = current_head()
    yield _family("journal_revision", "The number of the newest journal line.", [], [((), head.revision)])
    if head.at:
        yield _family(
            "journal_last_line_age_seconds",
            "The age of the newest journal line.",
            [],
            [((), max(0.0, time.time() - head.at.timestamp()))],
        )
    yield _family(
        "journal_unanchored_lines",
        "Journal lines that the anchor file does not have yet.",
        ["anchor"],
        [
            ((place,), head.revision - anchored_revision(place))
            for place in settings.JOURNAL_ANCHOR
            if place.startswith("file:")
        ],
    )
    newest_event = SecurityEvent.objects.aggregate(newest=Max("pk"))["newest"] or 0
    targets = list(SecurityEventTarget.objects.values_list("name", "shipped_to", "failures"))
    yield _family(
        "security_events_unshipped",
        "At most this many security events have not reached a target.",
        ["target"],
        [((name,), max(0, newest_event - shipped_to)) for name, shipped_to, _ in targets],
    )
    yield from _webhook_metrics(head.revision)
    yield _family(
        "security_event_shipping_failures",
        "Failed attempts since the last success.",
        ["target"],
        [((name,), failures) for name, _, failures in targets],
    )


def _webhook_metrics(revision: int) -> Iterator[GaugeMetricFamily]:
    webhooks = list(Webhook.objects.annotate(dead=Count("dead_letters")).order_by("pk"))
    for name, description, value in (
        ("webhook_deliveries", "Journal lines that a webhook accepted.", lambda webhook: webhook.delivered),
        (
            "webhook_dead_letters",
            "Journal lines that a webhook did not accept.",
            lambda webhook: webhook.dead,
        ),
        (
            "webhook_waiting_lines",
            "Journal lines after the position of a webhook.",
            lambda webhook: max(0, revision - webhook.position),
        ),
    ):
        yield _family(
            name, description, ["webhook"], [((str(webhook.pk),), value(webhook)) for webhook in webhooks]
        )


def _family(
    name: str, description: str, labels: list[str], values: list[tuple[tuple, float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"authzconsole_{name}", description, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, float(value))
    return family
