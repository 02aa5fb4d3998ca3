"""The views `/readyz` and `/metrics`.

Their middleware answers them without a session, a host check or a database connection.
"""

from collections.abc import Callable

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from authzconsole.common.monitoring.access import is_monitor
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
