"""Start, prepare, repeat and finish reviews: send them to the worker, and execute them there."""

import logging
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from analytics.analyses import REVIEW_ITEMS
from analytics.models import AnalysisRun
from analytics.review_items.stored import computed_items, items_run
from analytics.runs.services import request_review_items
from analytics.storage import StorageError
from authzconsole.reviews.bundle import write_review_bundle
from authzconsole.reviews.reminders import remind_reviewers
from grants.errors import GrantError
from grants.jobs import cancel_job, retry_database, run_job
from grants.jobs.queue import send_task
from grants.journal import Author
from grants.models import JobState
from grants.models.reviews import Campaign, CampaignState
from grants.reviews.answers import sign_off
from grants.reviews.campaigns import CampaignOptions, create_campaign, retry_campaign
from grants.reviews.finishing import claim_finish, close_campaign, create_result_plans, request_finish
from grants.reviews.preparation import claim_preparation, fail_preparation, has_more_items, prepare_campaign
from grants.reviews.sweep import sweep_campaigns
from grants.usage.storage import delete_old_usage

logger = logging.getLogger(__name__)
PREPARE_TASK, FINISH_TASK = "authzconsole.review_prepare", "authzconsole.review_finish"
# a message that Redis lost is sent again after this time
RESEND_AFTER = timedelta(seconds=30)
REVIEW_AUTHOR = Author("review", reason="all reviewers have signed off")
_TASKS = {CampaignState.PREPARING: PREPARE_TASK, CampaignState.FINISHING: FINISH_TASK}


def start_review(*, author: Author, options: CampaignOptions) -> Campaign:
    """Create a review and send it to the worker when the transaction commits."""
    campaign = create_campaign(author=author, options=options)
    transaction.on_commit(lambda: send_review(campaign))
    return campaign


def retry_review(*, author: Author, number: int) -> Campaign:
    """Prepare a review again after a failure, with another run if a run computed its items."""
    with transaction.atomic():
        campaign = retry_campaign(author=author, number=number)
        if items_run(campaign) is not None:
            request_review_items(campaign, is_retry=True)
        transaction.on_commit(lambda: send_review(campaign))
    return campaign


def finish_review(*, author: Author, number: int) -> Campaign:
    """End the answers of a review and send it to the worker, which writes its plans and its evidence."""
    campaign = request_finish(author=author, number=number)
    transaction.on_commit(lambda: send_review(campaign))
    return campaign


def sign_off_share(*, author: Author, campaign: Campaign) -> bool:
    """Sign off the author's share.

    Finish the review if all shares are signed off then, and return whether it is finished.
    """
    with transaction.atomic():
        if not sign_off(author=author, campaign=campaign):
            return False
        finish_review(author=REVIEW_AUTHOR, number=campaign.pk)
    return True


def send_review(campaign: Campaign) -> bool:
    """Send a review to the worker.

    Return whether Redis accepted it; otherwise `sweep_reviews` sends it later.
    """
    task = _TASKS[CampaignState(campaign.state)]
    if not send_task(task, campaign.pk, label=str(campaign), queue=settings.RUN_QUEUE):
        return False
    Campaign.objects.filter(pk=campaign.pk).update(sent_at=timezone.now())
    return True


def execute_preparation(*, number: int) -> None:
    """Prepare a review and notify its reviewers. Do nothing unless it waits for preparation, so a repeated
    message does no harm.

    The items of a large review are computed by a run. If its worker dies, the run is repeated, and a later
    message continues.
    """
    waiting = Campaign.objects.filter(pk=number, state=CampaignState.PREPARING, heartbeat_at=None).first()
    run = retry_database(lambda: _run_of(waiting)) if waiting else None
    if run is not None and not run.is_finished:
        run_job(run.pk)
        run.refresh_from_db()
        if not run.is_finished:
            return
    campaign = retry_database(lambda: claim_preparation(number))
    if campaign is None:
        return
    if run is not None and run.state != JobState.DONE:
        fail_preparation(campaign, run.error or "The run that computes the items was cancelled.")
        return
    try:
        campaign = prepare_campaign(campaign, supply=computed_items(campaign, run) if run else None)
    except (StorageError, OSError) as error:
        fail_preparation(campaign, str(error))
    if campaign.is_open:
        remind_reviewers(campaign, is_first=True)


def _run_of(campaign: Campaign) -> AnalysisRun | None:
    """Return the run that computes the items of a large review; None for a small one."""
    run = items_run(campaign)
    if run is None:
        try:
            if has_more_items(campaign, settings.REVIEW_RUN_ITEMS):
                run = request_review_items(campaign)
        except GrantError:
            # the preparation fails with this message
            return None
    return run


def execute_finish(*, number: int) -> None:
    """Create the plans and the bundle of a review. An error is stored, and `sweep_reviews` tries again."""
    campaign = retry_database(lambda: claim_finish(number))
    if campaign is None:
        return
    try:
        create_result_plans(campaign)
        path, sha256 = write_review_bundle(campaign)
    except (GrantError, StorageError, OSError) as error:
        logger.error("%s could not be finished: %s", campaign, error)
        Campaign.objects.filter(pk=campaign.pk).update(error=str(error))
        return
    retry_database(lambda: close_campaign(campaign, path=path, sha256=sha256))


def sweep_reviews() -> None:
    """Do the periodic work on reviews, send reminders, and send waiting reviews to the worker again."""
    outcome = sweep_campaigns()
    _release_runs()
    delete_old_usage()
    for campaign, counts in outcome.reminders:
        remind_reviewers(campaign, counts=counts)
    now = timezone.now()
    # a time in the future: the clock was set back after it
    not_sent = Q(sent_at=None) | Q(sent_at__lt=now - RESEND_AFTER) | Q(sent_at__gt=now + RESEND_AFTER)
    for campaign in Campaign.objects.filter(not_sent, state__in=list(_TASKS), heartbeat_at=None).order_by(
        "pk"
    ):
        run = items_run(campaign) if campaign.state == CampaignState.PREPARING else None
        if (run is None or run.is_finished) and not send_review(campaign):
            return


def _release_runs() -> None:
    """Cancel the runs of reviews that are not being prepared any more, and mark their reports as removed."""
    runs = AnalysisRun.objects.filter(type=REVIEW_ITEMS, result_removed_at=None).exclude(
        state__in=(JobState.FAILED, JobState.CANCELLED)
    )
    for run in runs:
        if Campaign.objects.filter(pk=run.options["review"], state=CampaignState.PREPARING).exists():
            continue
        if run.is_finished:
            AnalysisRun.objects.filter(pk=run.pk).update(result_removed_at=timezone.now())
        else:
            cancel_job(run)
