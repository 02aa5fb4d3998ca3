"""Send a trace of each request and task to an OpenTelemetry collector, if OTEL_EXPORTER_OTLP_ENDPOINT is set,
and unexpected errors to Sentry, if SENTRY_DSN is set.

INVARIANT: neither contains personal data. Spans have the pattern of a path instead of the path, and no headers,
query, body or error message. An allowlist selects what a report of an error contains: the types of the
exceptions, their stacks without variables, the view and the id of the request.
"""

from collections.abc import Callable
from typing import Any

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse

# the tracer and its provider, while tracing is on; Any, because the packages are optional
_tracer: Any = None
provider: Any = None


def start_tracing() -> None:
    """Start tracing in this process. Raise ImportError if the packages are missing."""
    global _tracer, provider
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "authzconsole"}))
    endpoint = f"{settings.OTEL_EXPORTER_OTLP_ENDPOINT.rstrip('/')}/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    _tracer = provider.get_tracer("authzconsole")


def traced_response(
    request: HttpRequest, get_response: Callable[[HttpRequest], HttpResponse]
) -> HttpResponse:
    """Return the response, and record a span if tracing is on.

    A `traceparent` header continues the trace of the caller.
    """
    if _tracer is None:
        return get_response(request)
    from opentelemetry.trace import SpanKind, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract({"traceparent": request.headers.get("traceparent", "")})
    with _tracer.start_as_current_span(
        request.method,
        context=context,
        kind=SpanKind.SERVER,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        response = get_response(request)
        match = getattr(request, "resolver_match", None)
        # the fast path has no match, and its paths contain no names
        route = (
            f"/{match.route}"
            if match
            else request.path
            if request.path.startswith("/access/v1/")
            else "unknown"
        )
        span.update_name(f"{request.method} {route}")
        span.set_attributes(
            {
                "http.request.method": request.method,
                "http.route": route,
                "http.response.status_code": response.status_code,
                "authzconsole.request_id": request.id,
            }
        )
        if response.status_code >= 500:
            span.set_status(StatusCode.ERROR)
    return response


def start_task_span(name: str) -> Any:
    """Start the span of a Celery task; None if tracing is off. The caller ends it."""
    return _tracer.start_span(f"task {name}") if _tracer is not None else None


_MEMBERS = (
    "event_id",
    "timestamp",
    "platform",
    "level",
    "release",
    "environment",
    "sdk",
    "transaction",
    "exception",
    "contexts",
)
_CONTEXTS = ("runtime", "trace")
_TAGS = ("request_id", "task", "task_id", "run_id")
_FRAME_MEMBERS = ("filename", "abs_path", "function", "module", "lineno", "in_app")


def start_error_reports() -> None:
    """Start reporting in this process. Raise ImportError if the package is missing."""
    import sentry_sdk
    from sentry_sdk.integrations.celery import CeleryIntegration
    from sentry_sdk.integrations.django import DjangoIntegration
    from sentry_sdk.integrations.logging import LoggingIntegration

    sentry_sdk.init(
        dsn=settings.SENTRY_DSN,
        send_default_pii=False,
        include_local_variables=False,
        max_request_body_size="never",
        max_breadcrumbs=0,
        auto_enabling_integrations=False,
        before_send=reduced_event,
        auto_session_tracking=False,
        integrations=[
            DjangoIntegration(middleware_spans=False, signals_spans=False),
            CeleryIntegration(),
            LoggingIntegration(level=None, event_level=None),
        ],
    )


def reduced_event(event: dict[str, Any], hint: object) -> dict[str, Any]:
    """Return the event with the allowed members only."""
    reduced = {name: event[name] for name in _MEMBERS if name in event}
    reduced["contexts"] = {
        name: value for name, value in event.get("contexts", {}).items() if name in _CONTEXTS
    }
    values = event.get("exception", {}).get("values", [])
    reduced["exception"] = {"values": [_reduced_exception(value) for value in values]}
    context = structlog.contextvars.get_contextvars()
    reduced["tags"] = {name: str(context[name]) for name in _TAGS if name in context}
    return reduced


def _reduced_exception(value: dict[str, Any]) -> dict[str, Any]:
    """Return the exception without its message, which can contain names."""
    frames = (value.get("stacktrace") or {}).get("frames", [])
    return {
        "type": value.get("type"),
        "module": value.get("module"),
        "stacktrace": {
            "frames": [{name: frame[name] for name in _FRAME_MEMBERS if name in frame} for frame in frames]
        },
    }
