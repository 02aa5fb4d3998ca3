"""The Django app of the console: its pages, APIs and commands."""

import logging
from importlib.util import find_spec

from django.apps import AppConfig
from django.conf import settings

logger = logging.getLogger(__name__)


class ConsoleConfig(AppConfig):
    name = "authzconsole"
    verbose_name = "Authorization console"

    def ready(self):
        from django.contrib.auth.signals import user_logged_in

        from authzconsole.common import recent_authentication
        from authzconsole.common.security_events.sources import connect_sources
        from authzconsole.sessions import services, store
        from grants.principals.access_ending import register_access_ender

        user_logged_in.connect(recent_authentication.record_sign_in)
        user_logged_in.connect(store.record_sign_in)
        register_access_ender(services.end_access)
        connect_sources()
        log_missing_packages()


def log_missing_packages() -> None:
    """Log an error if a feature is on whose packages are not installed. The feature is then off, and the console starts."""
    if settings.SCIM_ENABLED and find_spec("scim2_models") is None:
        logger.error("SCIM_ENABLED is set, but the packages for SCIM are not installed, so /scim/v2 answers 404: install the "
                     "extra `scim` (requirements/extra-scim.txt)")
