"""Send a trace of each request and task to an OpenTelemetry collector, if OTEL_EXPORTER_OTLP_ENDPOINT is set.

INVARIANT: spans contain no personal data. They have the pattern of a path instead of the path, and no
headers, query, body or error message.
"""

from collections.abc import Callable
from typing import Any

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
