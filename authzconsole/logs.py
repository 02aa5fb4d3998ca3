"""The logging configuration: structlog formats every line and adds the id of the request, or of the task and the run."""

import structlog
from django.core.exceptions import ImproperlyConfigured
from structlog.typing import Processor

FORMATS = ("text", "json")

# also applied to log lines of Django, Celery and other packages, which use the standard library
_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def _renderers(log_format: str) -> list[Processor]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0, pad_level=False,
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
