"""Prepare and finish reviews in the worker, and do the periodic work on them."""

import time
from functools import partial

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from analytics.analyses import REVIEW_ITEMS
from analytics.models import AnalysisRun
from analytics.review_items.stored import computed_items, items_run
from analytics.runs.services import request_review_items
from analytics.storage import StorageError
from authzconsole.reviews.bundle import write_review_bundle
from authzconsole.reviews.reminders import remind_reviewers
from grants.errors import GrantError
from grants.jobs import JobContext, JobFailed, cancel_job, retry_database, run_job
from grants.journal import Author
from grants.models import JobState
from grants.models.reviews import Campaign, CampaignState
from grants.reviews.answers import sign_off
from grants.reviews.campaigns import retry_campaign
from grants.reviews.finishing import close_campaign, create_result_plans, request_finish
from grants.reviews.preparation import fail_preparation, has_more_items, prepare_campaign
from grants.reviews.sweep import sweep_campaigns
from grants.usage.storage import delete_old_usage

REVIEW_AUTHOR = Author("review", reason="all reviewers have signed off")
RUN_POLL_SECONDS = 1.0


def retry_review(*, author: Author, number: int) -> Campaign:
    """Prepare a review again after a failure, with another run if a run computed its items."""
    with transaction.atomic():
        campaign = retry_campaign(author=author, number=number)
        if items_run(campaign) is not None:
            request_review_items(campaign, is_retry=True)
    return campaign


def sign_off_share(*, author: Author, campaign: Campaign) -> bool:
    """Sign off the author's share.

    Finish the review if all shares are signed off then, and return whether it is finished.
    """
    with transaction.atomic():
        if not sign_off(author=author, campaign=campaign):
            return False
        request_finish(author=REVIEW_AUTHOR, number=campaign.pk)
    return True


def prepare_review(context: JobContext) -> None:
    """Prepare a review and notify its reviewers. Do nothing if it is not being prepared any more.

    The items of a large review are computed by a run, which this process executes if no other one does.
    """
    campaign = Campaign.objects.filter(job=context.job, state=CampaignState.PREPARING).first()
    if campaign is None:
        return
    run = retry_database(partial(_run_of, campaign))
    if run is not None and not _is_run_done(run, context):
        fail_preparation(campaign, run.error or "The run that computes the items was cancelled.")
        raise JobFailed(campaign.error)
    try:
        campaign = prepare_campaign(
            campaign,
            supply=computed_items(campaign, run) if run else None,
            progress=lambda count: context.check(),
            confirm=context.confirm_claim,
        )
    except (StorageError, OSError) as error:
        fail_preparation(campaign, str(error))
    if campaign.state == CampaignState.FAILED:
        raise JobFailed(campaign.error)
    if campaign.is_open:
        remind_reviewers(campaign, is_first=True)


def _is_run_done(run: AnalysisRun, context: JobContext) -> bool:
    """Wait for a run until it is finished, and return whether it has a report."""
    while True:
        run_job(run.pk)
        run.refresh_from_db()
        if run.is_finished:
            return run.state == JobState.DONE
        context.check()
        time.sleep(RUN_POLL_SECONDS)


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


def finish_review(context: JobContext) -> None:
    """Create the plans and the bundle of a review. Do nothing if it is finished.

    An error is stored, and `sweep_campaigns` starts the job again later.
    """
    campaign = Campaign.objects.filter(job=context.job, state=CampaignState.FINISHING).first()
    if campaign is None:
        return
    try:
        create_result_plans(campaign, confirm=context.confirm_claim)
        path, sha256 = write_review_bundle(campaign, attempt=context.job.attempt)
    except (GrantError, StorageError, OSError) as error:
        Campaign.objects.filter(pk=campaign.pk).update(error=str(error))
        raise JobFailed(str(error)) from error

    def close() -> None:
        with transaction.atomic():
            context.confirm_claim()
            close_campaign(campaign, path=path, sha256=sha256)

    retry_database(close)


def sweep_reviews() -> None:
    """Do the periodic work on reviews, and send reminders."""
    outcome = sweep_campaigns()
    _release_runs()
    delete_old_usage()
    for campaign, counts in outcome.reminders:
        remind_reviewers(campaign, counts=counts)


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
