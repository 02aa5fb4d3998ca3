"""Logging."""

from authzconsole.logs import logging_configuration

from .environment import env

LOGGING = logging_configuration(
    level=env.str("LOG_LEVEL", default="INFO"), log_format=env.str("LOG_FORMAT", default="text")
)
