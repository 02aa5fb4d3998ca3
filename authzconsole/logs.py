"""The logging configuration: structlog formats every line and adds the id of the request, or of the task and the run."""

import re

import structlog
from django.core.exceptions import ImproperlyConfigured
from structlog.typing import EventDict, Processor

FORMATS = ("text", "json")

# also applied to log lines of Django, Celery and other packages, which use the standard library
_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def escape_control_characters(logger: object, method: str, entry: EventDict) -> EventDict:
    """Keep an entry on one line. The renderer escapes all values but the message, which can contain the path of a request."""
    entry["event"] = _CONTROL_CHARACTERS.sub(lambda match: ascii(match[0])[1:-1], str(entry.get("event", "")))
    return entry


def _renderers(log_format: str) -> list[Processor]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [escape_control_characters,
            structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0, pad_level=False,
                                          exception_formatter=structlog.dev.plain_traceback)]


def logging_configuration(level: str, log_format: str) -> dict:
    """Configure structlog and return the LOGGING setting. An entry is a line of text or a JSON object, as `log_format` says."""
    if log_format not in FORMATS:
        raise ImproperlyConfigured(f"LOG_FORMAT is {log_format!r}; it must be one of: {', '.join(FORMATS)}")
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(), wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True)
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"structlog": {
            "()": "structlog.stdlib.ProcessorFormatter",
            "foreign_pre_chain": [*_SHARED, structlog.stdlib.ExtraAdder()],
            "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(log_format)],
        }},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "structlog"}},
        "root": {"handlers": ["console"], "level": level},
        # py4j logs every connection to Java that it opens and closes
        "loggers": {"py4j": {"level": "WARNING"}},
    }
