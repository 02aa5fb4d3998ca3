"""Tell reviewers by e-mail about their items, through the mail server of EMAIL_HOST.

Without one, nothing is sent.
"""

import logging
from collections.abc import Mapping

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.template.loader import render_to_string
from django.urls import reverse

from authzconsole.common.mail import send_message
from entities.vocabulary import quantity
from grants.models import User
from grants.models.reviews import Campaign
from grants.reviews.sweep import open_counts

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
