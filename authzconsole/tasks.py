"""The Celery tasks of the console outside the analyses. The task names are stored in the schedule, so they must not change."""

import logging

from celery import shared_task

from grants.verification.anchor import AnchorError, anchor_journal

logger = logging.getLogger(__name__)


@shared_task(name="authzconsole.journal_anchor", ignore_result=True)
def anchor_journal_head():
    try:
        anchor_journal()
    except AnchorError as error:
        logger.error("the journal could not be anchored: %s", error)
