"""The periodic work on campaigns: replace reviewers who left, mark items that no longer exist, escalate
before the deadline, and finish at the deadline.

A review also finishes when the only shares that are not signed off are those of reviewers who left with an
answer to every item.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from entities.vocabulary import quantity
from grants.jobs import repeat_job
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import JobState, User
from grants.models.reviews import Campaign, CampaignState, ReviewItem, ReviewShare
from grants.reviews.answers import escalation_reviewers, move_items
from grants.reviews.campaigns import create_next_campaign
from grants.reviews.finishing import FINISHING_JOB, request_finish
from grants.reviews.preparation import fail_preparation
from grants.reviews.removals import mark_removed_items
from grants.reviews.reviewers import reviewer_condition
from grants.reviews.selection import OPEN_ITEMS
from grants.reviews.shares import is_signed_off, store_shares

# a step of a sweep moves at most this many items, so that other changes do not wait
MAX_MOVED = 20_000
FINISH_AGAIN_AFTER = timedelta(hours=1)
_AUTHOR = Author("review")


@dataclass(slots=True)
class SweepOutcome:
    """What a sweep did. reminders: for each campaign, the users to remind, with the numbers of their open
    items.
    """

    reminders: list[tuple[Campaign, dict[int, int]]] = field(default_factory=list)
    finished: list[Campaign] = field(default_factory=list)
    created: list[Campaign] = field(default_factory=list)


def sweep_campaigns() -> SweepOutcome:
    """Do the periodic work that is due. Safe to repeat at any time. The caller sends the reminders."""
    outcome = SweepOutcome()
    _follow_failed_jobs()
    for campaign in Campaign.objects.filter(state=CampaignState.OPEN).order_by("pk"):
        _replace_leavers(campaign)
        mark_removed_items(campaign)
        if campaign.is_overdue or is_signed_off(campaign):
            outcome.finished.append(request_finish(author=_AUTHOR, number=campaign.pk))
            continue
        _escalate_if_due(campaign)
        if users := _reminders_if_due(campaign):
            outcome.reminders.append((campaign, users))
    for campaign in Campaign.objects.filter(next_created=False).exclude(recurrence="").order_by("pk"):
        if following := create_next_campaign(campaign):
            outcome.created.append(following)
    return outcome


def _follow_failed_jobs() -> None:
    """Let the preparations fail whose job failed, and start the jobs of failed results again, after
    FINISH_AGAIN_AFTER.
    """
    is_over = Q(job__state__in=(JobState.FAILED, JobState.CANCELLED))
    for campaign in Campaign.objects.filter(is_over, state=CampaignState.PREPARING).select_related("job"):
        fail_preparation(campaign, campaign.job.error)
    before = timezone.now() - FINISH_AGAIN_AFTER
    for campaign in Campaign.objects.filter(
        is_over, state=CampaignState.FINISHING, job__finished_at__lt=before
    ):
        repeat_job(campaign, FINISHING_JOB)


def _replace_leavers(campaign: Campaign) -> None:
    """Move the open items of reviewers who cannot review any more to the escalation."""
    able = User.objects.filter(reviewer_condition())
    shares = (
        ReviewShare.objects.filter(campaign=campaign, item_count__gt=0)
        .exclude(reviewer=None)
        .exclude(reviewer__in=able)
        .select_related("reviewer")
    )
    for share in shares:
        _escalate(campaign, share.reviewer_id, f"{share.reviewer} left")
    # the shares of removed accounts no longer exist, so their items are found only here
    known = ReviewShare.objects.filter(campaign=campaign).exclude(reviewer=None).order_by().values("reviewer")
    if (
        campaign.shares.exists()
        and sum(share.item_count for share in campaign.shares.all()) < campaign.item_count
    ):
        orphans = ReviewItem.objects.filter(campaign=campaign).exclude(reviewer=None)
        orphans.exclude(reviewer__in=known).update(reviewer=None, escalated=True)
        with transaction.atomic():
            store_shares(campaign)


def _escalate_if_due(campaign: Campaign) -> None:
    """Escalate open items before the deadline, once."""
    if not campaign.escalation_days or campaign.escalated_at:
        return
    if timezone.now() < campaign.deadline - timedelta(days=campaign.escalation_days):
        return
    escalation = escalation_reviewers(campaign)
    for share in (
        ReviewShare.objects.filter(campaign=campaign).exclude(reviewer=None).exclude(reviewer__in=escalation)
    ):
        if share.open_count:
            _escalate(campaign, share.reviewer_id, f"{campaign.escalation_days} days before the deadline")
    Campaign.objects.filter(pk=campaign.pk).update(escalated_at=timezone.now())


def _escalate(campaign: Campaign, reviewer: int, reason: str) -> None:
    """Move the open items of a reviewer to the other reviewers of the escalation, MAX_MOVED in each
    transaction.
    """
    targets = [user for user in escalation_reviewers(campaign) if user != reviewer]
    while True:
        with transaction.atomic():
            head = lock_journal()
            rows = (
                ReviewItem.objects.filter(campaign=campaign, reviewer_id=reviewer)
                .filter(OPEN_ITEMS)
                .order_by("pk")
            )
            numbers = list(rows.values_list("pk", flat=True)[:MAX_MOVED])
            if not numbers:
                return
            moved = move_items(
                campaign, ReviewItem.objects.filter(pk__among=numbers), targets, escalated=True
            )
            detail = f"{campaign}: {quantity(moved, 'item', 'items')} to the escalation"
            append_to_journal(
                head, [JournalEntry("review-assign", detail=detail, reason=reason)], author=_AUTHOR
            )


def _reminders_if_due(campaign: Campaign) -> dict[int, int]:
    """Return the users to remind, with the numbers of their open items, and store that they were reminded
    now.
    """
    if not campaign.reminder_days:
        return {}
    last = campaign.reminded_at or campaign.opened_at or campaign.created_at
    if timezone.now() < last + timedelta(days=campaign.reminder_days):
        return {}
    if not Campaign.objects.filter(pk=campaign.pk, reminded_at=campaign.reminded_at).update(
        reminded_at=timezone.now()
    ):
        return {}
    return open_counts(campaign)


def open_counts(campaign: Campaign) -> dict[int, int]:
    """Return the number of open items of each reviewer who has any."""
    shares = ReviewShare.objects.filter(campaign=campaign, reviewer__is_active=True)
    return {share.reviewer_id: share.open_count for share in shares if share.open_count}
