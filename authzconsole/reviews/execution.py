"""Prepare and finish reviews in the worker, and do the periodic work on them."""

from django.db import transaction

from analytics.storage import StorageError
from authzconsole.reviews.bundle import write_review_bundle
from authzconsole.reviews.reminders import remind_reviewers
from grants.errors import GrantError
from grants.jobs import JobContext, JobFailed, retry_database
from grants.models.reviews import Campaign, CampaignState
from grants.reviews.finishing import close_campaign, create_result_plans
from grants.reviews.preparation import prepare_campaign
from grants.reviews.sweep import sweep_campaigns
from grants.usage import delete_old_usage


def prepare_review(context: JobContext) -> None:
    """Prepare a review and notify its reviewers. Do nothing if it is not being prepared any more."""
    campaign = Campaign.objects.filter(job=context.job, state=CampaignState.PREPARING).first()
    if campaign is None:
        return
    campaign = prepare_campaign(
        campaign, progress=lambda count: context.check(), confirm=context.confirm_claim
    )
    if campaign.state == CampaignState.FAILED:
        raise JobFailed(campaign.error)
    if campaign.is_open:
        remind_reviewers(campaign, is_first=True)


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
    delete_old_usage()
    for campaign, counts in outcome.reminders:
        remind_reviewers(campaign, counts=counts)
