"""Security events, metrics and webhooks."""

import ipaddress
import re

from django.core.exceptions import ImproperlyConfigured

from authzconsole.logs import logging_configuration

from .environment import env
from .servers import CELERY_BEAT_SCHEDULE, every

LOGGING = logging_configuration(
    level=env.str("LOG_LEVEL", default="INFO"), log_format=env.str("LOG_FORMAT", default="text")
)


# security events: see docs/guides/observability.md
SECURITY_EVENTS_KEPT_DAYS = env.int("SECURITY_EVENTS_KEPT_DAYS", default=365)
SECURITY_EVENTS_SYSLOG = env.str("SECURITY_EVENTS_SYSLOG", default="")
SECURITY_EVENTS_FILE = env.str("SECURITY_EVENTS_FILE", default="")
SECURITY_EVENTS_FORMAT = env.str("SECURITY_EVENTS_FORMAT", default="text")
if SECURITY_EVENTS_SYSLOG and not re.fullmatch(r"(udp|tcp):.+:\d{1,5}|unix:/.+", SECURITY_EVENTS_SYSLOG):
    raise ImproperlyConfigured(
        "SECURITY_EVENTS_SYSLOG must be written udp:HOST:PORT, tcp:HOST:PORT or unix:/PATH"
    )
if SECURITY_EVENTS_FORMAT not in ("text", "ocsf"):
    raise ImproperlyConfigured(
        f"SECURITY_EVENTS_FORMAT is {SECURITY_EVENTS_FORMAT!r}; it must be one of: text, ocsf"
    )

# who may read /metrics and the details of /readyz: callers with the token, and direct callers from these
# networks
METRICS_TOKEN = env.str("METRICS_TOKEN", default="")
METRICS_NETWORKS = env.list("METRICS_NETWORKS", default=["127.0.0.0/8", "::1/128"])
if METRICS_TOKEN and len(METRICS_TOKEN) < 20:
    raise ImproperlyConfigured("METRICS_TOKEN must have at least 20 characters")
# optional extras; their other settings are the environment variables of OpenTelemetry and Sentry
OTEL_EXPORTER_OTLP_ENDPOINT = env.str("OTEL_EXPORTER_OTLP_ENDPOINT", default="")
SENTRY_DSN = env.str("SENTRY_DSN", default="")
# webhooks; private networks are only for endpoints of your own organization
WEBHOOK_ALLOW_HTTP = env.bool("WEBHOOK_ALLOW_HTTP", default=False)
WEBHOOK_ALLOWED_NETWORKS = env.list("WEBHOOK_ALLOWED_NETWORKS", default=[])
WEBHOOK_TIMEOUT_SECONDS = env.float("WEBHOOK_TIMEOUT_SECONDS", default=5)
for name, networks in (
    ("METRICS_NETWORKS", METRICS_NETWORKS),
    ("WEBHOOK_ALLOWED_NETWORKS", WEBHOOK_ALLOWED_NETWORKS),
):
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise ImproperlyConfigured(f"{name}: {error}") from None
# the console is not ready while less is free in STATE_DIR
DISK_FREE_MIN_MB = env.int("DISK_FREE_MIN_MB", default=500)

CELERY_BEAT_SCHEDULE["webhooks_dispatch"] = every(5, "authzconsole.webhooks_dispatch")
CELERY_BEAT_SCHEDULE["security_events_clean"] = every(3_600, "authzconsole.security_events_clean")
CELERY_BEAT_SCHEDULE["security_events_seal"] = every(3_600, "authzconsole.security_events_seal")
if SECURITY_EVENTS_SYSLOG or SECURITY_EVENTS_FILE:
    CELERY_BEAT_SCHEDULE["security_events_ship"] = every(5, "authzconsole.security_events_ship")
