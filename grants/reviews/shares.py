"""Keep the share of each reviewer: the counts of its items and answers.

The counts are stored because counting the items of a large campaign takes longer than a page may take.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from django.db.models import Count, F, Q, QuerySet, Sum

from grants.models import User
from grants.models.reviews import Answer, Campaign, CampaignState, ReviewItem, ReviewShare
from grants.reviews.reviewers import reviewer_condition
from grants.roles.capabilities import Capability


def store_shares(campaign: Campaign) -> int:
    """Count the items of each reviewer and store the shares. Return the number of items. Keep who has signed off."""
    old = ReviewShare.objects.filter(campaign=campaign)
    ended = dict(old.exclude(signed_off_at=None).values_list("reviewer_id", "signed_off_at"))
    old.delete()
    rows = ReviewItem.objects.filter(campaign=campaign).order_by().values("reviewer_id").annotate(
        total=Count("id"), answered=Count("id", filter=~Q(answer=Answer.OPEN)))
    shares = ReviewShare.objects.bulk_create(
        ReviewShare(campaign=campaign, reviewer_id=row["reviewer_id"], item_count=row["total"], answered_count=row["answered"],
                    signed_off_at=ended.get(row["reviewer_id"]) if row["total"] == row["answered"] else None)
        for row in rows)
    return sum(share.item_count for share in shares)


def counts_by_reviewer(items: QuerySet[ReviewItem]) -> dict[int | None, Counter]:
    """Return for each reviewer of these items the counts `items` and `answered`. Runs one query."""
    rows = items.order_by().values_list("reviewer_id").annotate(
        items=Count("id"), answered=Count("id", filter=~Q(answer=Answer.OPEN))).values_list("reviewer_id", "items", "answered")
    return {reviewer: Counter(items=total, answered=answered) for reviewer, total, answered in rows}


def change_shares(campaign: Campaign, changes: Mapping[int | None, Mapping[str, int]]) -> None:
    """Add these numbers to the counts of the reviewers. A share that has open items again is no longer signed off."""
    for reviewer, change in changes.items():
        share, _ = ReviewShare.objects.get_or_create(campaign=campaign, reviewer_id=reviewer)
        ReviewShare.objects.filter(pk=share.pk).update(
            item_count=F("item_count") + change.get("items", 0), answered_count=F("answered_count") + change.get("answered", 0))
    ReviewShare.objects.filter(campaign=campaign, answered_count__lt=F("item_count")).exclude(signed_off_at=None).update(
        signed_off_at=None)


def largest_open_shares(campaign: Campaign) -> QuerySet[ReviewShare]:
    """Return the shares with their reviewers, those with the most open items first."""
    return campaign.shares.filter(item_count__gt=0).select_related("reviewer").order_by(
        F("answered_count") - F("item_count"), "reviewer__username")


def is_signed_off(campaign: Campaign) -> bool:
    """Return whether all shares are signed off and no account of a share was removed. Runs two queries.

    A share of a reviewer who left with an answer to every item counts as signed off, because no other account can sign it off.
    """
    has_left = Q(answered_count=F("item_count")) & ~Q(reviewer=None) & ~reviewer_condition("reviewer__")
    return (not campaign.shares.filter(item_count__gt=0, signed_off_at=None).exclude(has_left).exists()
            and totals(campaign)[0] >= campaign.item_count)


def share_to_sign_off(account: User, shares: Iterable[ReviewShare]) -> ReviewShare | None:
    """Return the share that the account signs off next: its own, then that of administrators if it approves.

    If all of them are signed off, return one of them; None if the account has no share.
    """
    own = [share for share in shares if share.item_count and (
        share.reviewer_id == account.pk or (share.reviewer_id is None and account.can(Capability.APPROVE)))]
    return min(own, key=lambda share: (share.signed_off_at is not None, share.reviewer_id is None), default=None)


def waiting_items(account: User) -> int:
    """Return how many items of open reviews wait for the account: its own, and those of administrators if it approves."""
    is_own = Q(reviewer=account) | Q(reviewer=None) if account.can(Capability.APPROVE) else Q(reviewer=account)
    shares = ReviewShare.objects.filter(is_own, campaign__state=CampaignState.OPEN)
    return shares.aggregate(total=Sum(F("item_count") - F("answered_count"), default=0))["total"]


def totals(campaign: Campaign) -> tuple[int, int]:
    """Return the number of items and the number of answered items. Runs one query."""
    sums = campaign.shares.aggregate(items=Sum("item_count", default=0), answered=Sum("answered_count", default=0))
    return sums["items"], sums["answered"]


def visible_totals(account: User, campaigns: Iterable[Campaign]) -> dict[int, tuple[int, int]]:
    """Return the numbers of items and answers that the account sees, by campaign. Runs one query."""
    campaigns = list(campaigns)
    shares = ReviewShare.objects.filter(campaign__in=campaigns)
    if not account.can_see_all:
        shares = shares.filter(reviewer=account)
    rows = shares.order_by().values("campaign_id").annotate(items=Sum("item_count"), answered=Sum("answered_count"))
    totals_by_campaign = {row["campaign_id"]: (row["items"], row["answered"]) for row in rows}
    return {campaign.pk: totals_by_campaign.get(campaign.pk, (0, 0)) for campaign in campaigns}
