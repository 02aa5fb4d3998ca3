"""The Django app of the console: its pages, APIs and commands."""

import logging
from importlib.util import find_spec

from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

logger = logging.getLogger(__name__)


class ConsoleConfig(AppConfig):
    name = "authzconsole"
    verbose_name = "Authorization console"

    def ready(self):
        from django.contrib.auth.signals import user_logged_in

        from authzconsole import sessions
        from authzconsole.common import recent_authentication, sign_in_methods
        from authzconsole.common.security_events.record import connect_sources
        from authzconsole.common.tokens import service_accounts_of, token_creators
        from grants.authority.persons import register_token_lookups
        from grants.principals.hooks import (
            register_access_ender,
            register_account_cleaner,
            register_name_guard,
        )

        user_logged_in.connect(recent_authentication.record_sign_in)
        user_logged_in.connect(sessions.record_sign_in)
        register_access_ender(sessions.end_access, sessions.count_access)
        register_token_lookups(token_creators, service_accounts_of)
        register_account_cleaner(sign_in_methods.remove_account_data)
        register_name_guard(sign_in_methods.name_guard)
        connect_sources()
        start_extras()
        log_missing_packages()


def start_extras() -> None:
    """Start tracing and error reports if their settings are set.

    Raise ImproperlyConfigured if their packages are missing.
    """
    from authzconsole.common.monitoring.reports import start_error_reports, start_tracing

    for setting, extra, start in (
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "opentelemetry", start_tracing),
        ("SENTRY_DSN", "sentry", start_error_reports),
    ):
        if getattr(settings, setting):
            try:
                start()
            except ImportError as error:
                raise ImproperlyConfigured(
                    f"{setting} is set, but the package {error.name} is not installed: install the extra "
                    f"`{extra}` (requirements/extra-{extra}.txt)"
                ) from None


def log_missing_packages() -> None:
    """Log an error for each enabled feature with missing packages. The console starts without the feature."""
    if settings.SCIM_ENABLED and find_spec("scim2_models") is None:
        logger.error(
            "SCIM_ENABLED is set, but the packages for SCIM are not installed, so /scim/v2 answers 404: install the "
            "extra `scim` (requirements/extra-scim.txt)"
        )
