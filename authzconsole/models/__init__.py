"""The models of the console: tokens, provisioning, security events, sessions, webhooks, maintenance and evidence."""

from authzconsole.models.evidence import Evidence
from authzconsole.models.maintenance import MaintenanceRecord, MaintenanceTask
from authzconsole.models.provisioning import ProvisionedGroup, ProvisionedUser
from authzconsole.models.security_events import AppendOnlyQuerySet, SecurityEvent, SecurityEventTarget
from authzconsole.models.sessions import AccountSession
from authzconsole.models.tokens import ApiToken, ApiTokenQuerySet, TokenScope, max_token_lifetime
from authzconsole.models.webhooks import DeadLetter, Webhook

__all__ = [
    "AccountSession",
    "ApiToken",
    "ApiTokenQuerySet",
    "AppendOnlyQuerySet",
    "DeadLetter",
    "Evidence",
    "MaintenanceRecord",
    "MaintenanceTask",
    "ProvisionedGroup",
    "ProvisionedUser",
    "SecurityEvent",
    "SecurityEventTarget",
    "TokenScope",
    "Webhook",
    "max_token_lifetime",
]
