"""The logging configuration: structlog formats every line and adds the id of the request, or of the task and
the run.
"""

import logging
from collections.abc import Mapping
from io import StringIO
from typing import TextIO

import structlog
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from structlog.typing import EventDict, ExcInfo, Processor

FORMATS = ("text", "json")

# also applied to log lines of Django, Celery and other packages, which use the standard library
_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


class QuotedText:
    """A text that the renderer writes as a Python literal, in which every unprintable character is escaped."""

    def __init__(self, text: str):
        self._text = text

    def __repr__(self) -> str:
        return repr(self._text)


def _escape(text: str, keep: str = "") -> str:
    return "".join(char if char.isprintable() or char in keep else ascii(char)[1:-1] for char in text)


def escape_unprintable_characters(logger: object, method: str, entry: EventDict) -> EventDict:
    """Escape control, line separator, bidirectional and other format characters, because values contain data
    of requests.

    The renderer escapes only texts with white space, `=` or quotes. `isprintable` takes less than 0.1
    microseconds.
    """
    for key, value in entry.items():
        if isinstance(value, str) and not value.isprintable():
            entry[key] = _escape(value) if key == "event" else QuotedText(value)
    return entry


class RoutineTaskFilter(logging.Filter):
    """Drop the lines about the start and the success of tasks that the scheduler sends every few seconds or
    minutes.

    Failures, the lines that a task logs itself, and lines about other tasks remain. LOG_LEVEL=DEBUG keeps
    everything.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.INFO or logging.getLogger().isEnabledFor(logging.DEBUG):
            return True
        # the scheduler logs the name of its entry and of the task, a worker logs a mapping
        args = record.args
        name = args.get("name") if isinstance(args, Mapping) else args[-1] if args else ""
        return not isinstance(name, str) or name not in {
            entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()
        }


def _write_traceback(stream: TextIO, exception: ExcInfo) -> None:
    text = StringIO()
    structlog.dev.plain_traceback(text, exception)
    stream.write(_escape(text.getvalue(), keep="\n\t"))


def _renderers(log_format: str) -> list[Processor]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [
        escape_unprintable_characters,
        structlog.dev.ConsoleRenderer(
            colors=False, pad_event_to=0, pad_level=False, exception_formatter=_write_traceback
        ),
    ]


def logging_configuration(level: str, log_format: str) -> dict:
    """Configure structlog and return the LOGGING setting.

    An entry is a line of text or a JSON object, as `log_format` says.
    """
    if log_format not in FORMATS:
        raise ImproperlyConfigured(f"LOG_FORMAT is {log_format!r}; it must be one of: {', '.join(FORMATS)}")
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structlog": {
                "()": "structlog.stdlib.ProcessorFormatter",
                "foreign_pre_chain": [*_SHARED, structlog.stdlib.ExtraAdder()],
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    *_renderers(log_format),
                ],
            }
        },
        "filters": {"routine": {"()": RoutineTaskFilter}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "structlog"}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            # py4j logs every connection to Java that it opens and closes
            "py4j": {"level": "WARNING"},
            **{
                name: {"filters": ["routine"]}
                for name in ("celery.beat", "celery.worker.strategy", "celery.app.trace")
            },
        },
    }
