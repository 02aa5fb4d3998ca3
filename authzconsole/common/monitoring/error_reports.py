"""Report unexpected errors to Sentry, if SENTRY_DSN is set.

INVARIANT: reports contain no personal data. An allowlist selects what is sent: the types of the exceptions,
their stacks without variables, the view and the id of the request.
"""

from typing import Any

import structlog
from django.conf import settings

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
