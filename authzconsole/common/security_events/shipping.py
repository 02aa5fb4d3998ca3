"""Ship security events to syslog and to a file, in order and at least once.

The cursor of each target is a row, so a target that is down or a restart loses no event. Batches are small:
after a failure, the events of one batch can arrive twice.
"""

import json
import logging
import os
from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings
from django.db.models import F, Q
from django.utils import timezone

from authzconsole.common.security_events.ocsf import event_sentence, ocsf_event
from authzconsole.common.security_events.output import SecurityEventSerializer
from authzconsole.common.security_events.syslog import send_to_syslog, syslog_message
from authzconsole.models import SecurityEvent, SecurityEventTarget

logger = logging.getLogger(__name__)

EVENTS_PER_BATCH = 200
MAX_SECONDS = 20
CLAIM_SECONDS = 60
# numbers are assigned before the transaction commits, so a row with a higher number can become visible first
SETTLE_SECONDS = 2


def ship_security_events() -> int:
    """Ship new events to all targets and return their number. A failure is logged and counted, not raised."""
    names = [f"syslog {settings.SECURITY_EVENTS_SYSLOG}"] if settings.SECURITY_EVENTS_SYSLOG else []
    names += [f"file {settings.SECURITY_EVENTS_FILE}"] if settings.SECURITY_EVENTS_FILE else []
    return sum(_ship_to(name) for name in names)


def _ship_to(name: str) -> int:
    target, _ = SecurityEventTarget.objects.get_or_create(name=name)
    if not _claim(target):
        return 0
    try:
        return _ship_batches(target)
    finally:
        SecurityEventTarget.objects.filter(pk=target.pk).update(claimed_until=None)


def _claim(target: SecurityEventTarget) -> bool:
    """Claim the target, so that two tasks do not ship the same events."""
    now = timezone.now()
    free = SecurityEventTarget.objects.filter(Q(claimed_until=None) | Q(claimed_until__lt=now), pk=target.pk)
    if not free.update(claimed_until=now + timedelta(seconds=CLAIM_SECONDS)):
        return False
    target.refresh_from_db()
    return True


def _ship_batches(target: SecurityEventTarget) -> int:
    shipped, deadline = 0, timezone.now() + timedelta(seconds=MAX_SECONDS)
    while timezone.now() < deadline:
        settled = timezone.now() - timedelta(seconds=SETTLE_SECONDS)
        rows = SecurityEvent.objects.filter(pk__gt=target.shipped_to).order_by("pk")
        events = []
        for event in rows[:EVENTS_PER_BATCH]:
            if event.at > settled:
                break
            events.append(event)
        if not events:
            break
        try:
            _send(target.name, events)
        except OSError as error:
            logger.error(
                "security events could not be shipped to %s (%s); the next attempt follows",
                target.name,
                error,
            )
            SecurityEventTarget.objects.filter(pk=target.pk).update(
                failures=F("failures") + 1, error=str(error)[:300]
            )
            break
        target.shipped_to = events[-1].pk
        SecurityEventTarget.objects.filter(pk=target.pk).update(
            shipped_to=target.shipped_to, failures=0, error=""
        )
        shipped += len(events)
    return shipped


def _send(name: str, events: Sequence[SecurityEvent]) -> None:
    type_, _, address = name.partition(" ")
    is_ocsf = settings.SECURITY_EVENTS_FORMAT == "ocsf"
    if type_ == "syslog":
        send_to_syslog(
            address,
            [
                syslog_message(event, json.dumps(ocsf_event(event)) if is_ocsf else event_sentence(event))
                for event in events
            ],
        )
        return
    lines = "".join(
        f"{json.dumps(ocsf_event(event) if is_ocsf else SecurityEventSerializer.data_of(event))}\n"
        for event in events
    )
    with open(os.open(address, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "w") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
