"""Record the newest result of each maintenance task, and verify the journal every day.

A maintenance task leaves no other trace in the database: the page Status shows its record.
"""

import logging
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain

from django.db import DatabaseError
from django.utils import timezone

from authzconsole.common.event_seals import facts_of_security_events
from authzconsole.common.sign_in_methods import facts_of_sign_in
from authzconsole.common.webhooks.services import facts_of_webhooks
from authzconsole.models import MaintenanceRecord, MaintenanceTask
from grants.journal import ChainBreak, current_revision
from grants.verification import AnchorError, Fact, first_fault

logger = logging.getLogger(__name__)
VERIFY_EVERY = timedelta(hours=23)


def record_maintenance(task: MaintenanceTask, *, revision: int, fault: str = "", details: str = "") -> None:
    """Store the result of a task with one statement.

    A task does not fail because its result cannot be stored.
    """
    record = MaintenanceRecord(
        task=task, at=timezone.now(), is_ok=not fault, revision=revision, text=fault or details
    )
    try:
        MaintenanceRecord.objects.bulk_create(
            [record],
            update_conflicts=True,
            unique_fields=["task"],
            update_fields=["at", "is_ok", "revision", "text"],
        )
    except DatabaseError as error:
        logger.warning("the result of %s could not be stored: %s", task.label, error)


def maintenance_records() -> dict[str, MaintenanceRecord]:
    """Return the records by task. Runs one query."""
    return {record.task: record for record in MaintenanceRecord.objects.all()}


def facts_of_console() -> Iterator[Fact]:
    """Yield the facts of the tables of this package, for `first_fault`."""
    return chain(facts_of_sign_in(), facts_of_webhooks(), facts_of_security_events())


def verify_and_record() -> ChainBreak | str | None:
    """Verify the journal completely and record the result.

    Return the first fault, or None. Raise AnchorError.
    """
    task, revision = MaintenanceTask.JOURNAL_VERIFICATION, current_revision()
    try:
        fault = first_fault(facts_of_console)
    except AnchorError as error:
        record_maintenance(task, revision=revision, fault=f"the anchors cannot be read: {error}")
        raise
    record_maintenance(
        task, revision=revision, fault=fault.sentence if isinstance(fault, ChainBreak) else fault or ""
    )
    return fault


def verify_journal_if_due() -> bool:
    """Verify the journal unless this was done within VERIFY_EVERY. Return whether it was verified."""
    due_before = timezone.now() - VERIFY_EVERY
    if MaintenanceRecord.objects.filter(
        task=MaintenanceTask.JOURNAL_VERIFICATION, at__gt=due_before
    ).exists():
        return False
    try:
        fault = verify_and_record()
    except AnchorError as error:
        logger.error("the journal could not be verified: the anchors cannot be read: %s", error)
    else:
        if fault:
            logger.error("the verification of the journal failed: %s", fault)
    return True
