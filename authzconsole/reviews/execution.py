"""Prepare and finish reviews in the worker, and do the periodic work on them, such as e-mail to
reviewers through EMAIL_HOST.
"""

import logging
from collections.abc import Mapping

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.template.loader import render_to_string
from django.urls import reverse

from analytics.storage import StorageError
from authzconsole.common.mail import send_message
from authzconsole.reviews.bundle import write_review_bundle
from entities.vocabulary import quantity
from grants.errors import GrantError
from grants.jobs import JobContext, JobFailed, retry_database
from grants.models import User
from grants.models.reviews import Campaign, CampaignState
from grants.reviews.finishing import close_campaign, create_result_plans
from grants.reviews.preparation import prepare_campaign
from grants.reviews.sweep import open_counts, sweep_campaigns
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


logger = logging.getLogger(__name__)


def remind_reviewers(
    campaign: Campaign, *, counts: Mapping[int, int] | None = None, is_first: bool = False
) -> int:
    """Send an e-mail to each reviewer with open items and an address. Return how many were sent.

    counts: the numbers of open items by user; read by default. is_first: the review has just begun.
    The next reminder is sent in any case, so an e-mail that the mail server does not take is not sent again.
    """
    if not settings.EMAIL_HOST:
        return 0
    counts = open_counts(campaign) if counts is None else counts
    reviewers = User.objects.filter(pk__in=list(counts), is_active=True).exclude(email="").order_by("pk")
    sent = 0
    try:
        with get_connection() as connection:
            for reviewer in reviewers:
                message = _message(campaign, reviewer, counts[reviewer.pk], is_first)
                sent += send_message(message, connection)
    except OSError as error:
        logger.error(
            "reminders of %s were not sent, because the mail server failed (%s)",
            campaign,
            type(error).__name__,
        )
    return sent


def _message(campaign: Campaign, reviewer: User, count: int, is_first: bool) -> EmailMessage:
    text = render_to_string(
        "reviews/mail/reminder.txt",
        {
            "review": campaign,
            "count": quantity(count, "item", "items"),
            "is_first": is_first,
            "url": f"{settings.PUBLIC_URL}{reverse('review', args=[campaign.pk])}",
        },
    )
    return EmailMessage(
        f"Access review {campaign.pk}: {quantity(count, 'item', 'items')} to answer",
        text,
        to=[reviewer.email],
    )
