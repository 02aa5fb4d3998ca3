"""Security events, metrics and webhooks."""

import re

from django.core.exceptions import ImproperlyConfigured

from .environment import env
from .servers import CELERY_BEAT_SCHEDULE

# security events: see docs/observability.md
SECURITY_EVENTS_KEPT_DAYS = env.int("SECURITY_EVENTS_KEPT_DAYS", default=365)
SECURITY_EVENTS_SYSLOG = env.str("SECURITY_EVENTS_SYSLOG", default="")
SECURITY_EVENTS_FILE = env.str("SECURITY_EVENTS_FILE", default="")
SECURITY_EVENTS_FORMAT = env.str("SECURITY_EVENTS_FORMAT", default="text")
if SECURITY_EVENTS_SYSLOG and not re.fullmatch(r"(udp|tcp):.+:\d{1,5}|unix:/.+", SECURITY_EVENTS_SYSLOG):
    raise ImproperlyConfigured("SECURITY_EVENTS_SYSLOG must be written udp:HOST:PORT, tcp:HOST:PORT or unix:/PATH")
if SECURITY_EVENTS_FORMAT not in ("text", "ocsf"):
    raise ImproperlyConfigured(f"SECURITY_EVENTS_FORMAT is {SECURITY_EVENTS_FORMAT!r}; it must be one of: text, ocsf")

CELERY_BEAT_SCHEDULE["security_events_clean"] = {
    "task": "authzconsole.security_events_clean", "schedule": 3_600.0, "options": {"expire_seconds": 3_600}}
if SECURITY_EVENTS_SYSLOG or SECURITY_EVENTS_FILE:
    CELERY_BEAT_SCHEDULE["security_events_ship"] = {
        "task": "authzconsole.security_events_ship", "schedule": 5.0, "options": {"expire_seconds": 5}}
