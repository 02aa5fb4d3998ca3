"""The Celery tasks of the console outside the analyses.

The task names are stored in the schedule, so they must not change.
"""

import logging

from celery import shared_task

from authzconsole.common.event_seals import MAX_EVENTS_PER_SEAL, seal_security_events
from authzconsole.common.monitoring.maintenance import record_maintenance, verify_journal_if_due
from authzconsole.common.security_events.record import clean_security_events
from authzconsole.common.security_events.shipping import start_shipping
from authzconsole.common.webhooks.delivery import dispatch_webhooks
from authzconsole.connections.jobs import request_due_syncs
from authzconsole.evidence.services import delete_old_evidence
from authzconsole.findings.refresh import sweep_findings
from authzconsole.mail import (
    send_alert_mail,
    send_break_glass_mail,
    send_expiry_mail,
    send_finding_mail,
    sweep_requests,
)
from authzconsole.models import MaintenanceTask
from authzconsole.reviews.execution import sweep_reviews
from authzconsole.sessions import delete_expired_sessions
from grants.changes import write_period_lines
from grants.errors import JournalReadOnly
from grants.history import catch_up
from grants.journal import current_revision
from grants.verification import AnchorError, anchor_journal

logger = logging.getLogger(__name__)
EXPIRED_SESSIONS_AT_ONCE = 5_000


@shared_task(name="authzconsole.journal_anchor", ignore_result=True)
def anchor_journal_head():
    try:
        record_maintenance(MaintenanceTask.JOURNAL_ANCHOR, revision=anchor_journal())
    except AnchorError as error:
        logger.error("the journal could not be anchored: %s", error)
        record_maintenance(MaintenanceTask.JOURNAL_ANCHOR, revision=current_revision(), fault=str(error))


@shared_task(name="authzconsole.access_requests_sweep", ignore_result=True)
def sweep_access_requests():
    send_alert_mail()
    send_break_glass_mail()
    sweep_requests()


@shared_task(name="authzconsole.sessions_clean", ignore_result=True)
def clean_sessions():
    """Delete all expired sessions, also those of visitors who never signed in."""
    while delete_expired_sessions(EXPIRED_SESSIONS_AT_ONCE) == EXPIRED_SESSIONS_AT_ONCE:
        pass


@shared_task(name="authzconsole.period_lines", ignore_result=True)
def write_lines_of_periods():
    """Write the journal lines about periods that began or ended, and notify users.

    Periods take effect without this.
    """
    try:
        write_period_lines()
    except JournalReadOnly as error:
        logger.warning("the journal lines about periods wait: %s", error)
    send_expiry_mail()


@shared_task(name="authzconsole.security_events_seal", ignore_result=True)
def seal_events():
    try:
        while seal_security_events() == MAX_EVENTS_PER_SEAL:
            pass
    except JournalReadOnly as error:
        logger.warning("the seal of the security events waits: %s", error)


@shared_task(name="authzconsole.findings_sweep", ignore_result=True)
def sweep_stored_findings():
    try:
        sweep_findings()
    except JournalReadOnly as error:
        logger.warning("the journal lines about findings wait: %s", error)
    send_finding_mail()


# tasks that only call a service
for name, service in {
    "connections_sync": request_due_syncs,
    "history_catch_up": catch_up,
    "journal_verify": verify_journal_if_due,
    "evidence_sweep": delete_old_evidence,
    "reviews_sweep": sweep_reviews,
    "security_events_clean": clean_security_events,
    "security_events_ship": start_shipping,
    "webhooks_dispatch": dispatch_webhooks,
}.items():
    shared_task(name=f"authzconsole.{name}", ignore_result=True)(service)
