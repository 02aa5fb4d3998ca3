"""The views `/readyz` and `/metrics`.

Their middleware answers them without a session, a host check or a database connection.
"""

import ipaddress
from collections.abc import Callable
from hmac import compare_digest

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import split_domain_port
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from authzconsole.common.monitoring.collector import StateCollector
from authzconsole.common.monitoring.metrics import process_registry
from authzconsole.common.monitoring.readiness import readiness


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
