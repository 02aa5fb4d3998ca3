"""Keep the share of each reviewer: the counts of its items, of its answers, and of its items that need no
answer any more.

The counts are stored because counting the items of a large campaign takes longer than a page may take.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from django.db.models import Count, F, Q, QuerySet, Sum

from grants.models import User
from grants.models.reviews import Answer, Campaign, CampaignState, ReviewItem, ReviewShare
from grants.reviews.reviewers import reviewer_condition
from grants.roles.capabilities import Capability

OPEN_COUNT = F("item_count") - F("answered_count") - F("removed_count")
_ITEM_COUNTS = {
    "items": Count("id"),
    "answered": Count("id", filter=~Q(answer=Answer.OPEN)),
    "removed": Count("id", filter=Q(answer=Answer.OPEN) & ~Q(removed="")),
}
_SUMS = {
    name: Sum(column, default=0)
    for name, column in (
        ("items", "item_count"),
        ("answered", "answered_count"),
        ("removed", "removed_count"),
    )
}


class Totals(NamedTuple):
    """Numbers of items: all, those with an answer, and those without an answer that need none any more."""

    items: int = 0
    answered: int = 0
    removed: int = 0

    @property
    def open(self) -> int:
        return self.items - self.done

    @property
    def done(self) -> int:
        return self.answered + self.removed


def store_shares(campaign: Campaign) -> int:
    """Count the items of each reviewer and store the shares.

    Return the number of items. Keep who has signed off.
    """
    old = ReviewShare.objects.filter(campaign=campaign)
    ended = dict(old.exclude(signed_off_at=None).values_list("reviewer_id", "signed_off_at"))
    old.delete()
    counts = counts_by_reviewer(ReviewItem.objects.filter(campaign=campaign))
    shares = ReviewShare.objects.bulk_create(
        ReviewShare(
            campaign=campaign,
            reviewer_id=reviewer,
            item_count=row["items"],
            answered_count=row["answered"],
            removed_count=row["removed"],
            signed_off_at=ended.get(reviewer) if row["items"] == row["answered"] + row["removed"] else None,
        )
        for reviewer, row in counts.items()
    )
    return sum(share.item_count for share in shares)


def counts_by_reviewer(items: QuerySet[ReviewItem]) -> dict[int | None, Counter]:
    """Return for each reviewer of these items the counts `items`, `answered` and `removed`.

    Runs one query.
    """
    rows = (
        items.order_by()
        .values_list("reviewer_id")
        .annotate(**_ITEM_COUNTS)
        .values_list("reviewer_id", *_ITEM_COUNTS)
    )
    return {reviewer: Counter(dict(zip(_ITEM_COUNTS, counts, strict=True))) for reviewer, *counts in rows}


def count_changes(
    before: Mapping[int | None, Counter], after: Mapping[int | None, Counter]
) -> dict[int | None, Counter]:
    """Return the differences between two results of `counts_by_reviewer`, for `change_shares`."""
    changes = {reviewer: Counter(counts) for reviewer, counts in after.items()}
    for reviewer, counts in before.items():
        changes.setdefault(reviewer, Counter()).subtract(counts)
    return changes


def change_shares(campaign: Campaign, changes: Mapping[int | None, Mapping[str, int]]) -> None:
    """Add these numbers to the counts of the reviewers.

    A share that has open items again is no longer signed off.
    """
    for reviewer, change in changes.items():
        share, _ = ReviewShare.objects.get_or_create(campaign=campaign, reviewer_id=reviewer)
        ReviewShare.objects.filter(pk=share.pk).update(
            item_count=F("item_count") + change.get("items", 0),
            answered_count=F("answered_count") + change.get("answered", 0),
            removed_count=F("removed_count") + change.get("removed", 0),
        )
    _with_open_count(ReviewShare.objects.filter(campaign=campaign)).filter(open__gt=0).exclude(
        signed_off_at=None
    ).update(signed_off_at=None)


def largest_open_shares(campaign: Campaign) -> QuerySet[ReviewShare]:
    """Return the shares with their reviewers, those with the most open items first."""
    return (
        campaign.shares.filter(item_count__gt=0)
        .select_related("reviewer")
        .order_by(OPEN_COUNT.desc(), "reviewer__username")
    )


def is_signed_off(campaign: Campaign) -> bool:
    """Return whether all shares are signed off and no account of a share was removed. Runs two queries.

    A share of a reviewer who left with no open item counts as signed off, because no other account can sign
    it off; so does one in which every item was removed, because there is nothing to answer.
    """
    has_left = Q(open=0) & ~Q(reviewer=None) & ~reviewer_condition("reviewer__")
    shares = _with_open_count(campaign.shares.filter(item_count__gt=0, signed_off_at=None))
    return (
        not shares.exclude(has_left | Q(removed_count=F("item_count"))).exists()
        and totals(campaign).items >= campaign.item_count
    )


def share_to_sign_off(account: User, shares: Iterable[ReviewShare]) -> ReviewShare | None:
    """Return the share that the account signs off next: its own, then that of administrators if it approves.

    If all of them are signed off, return one of them; None if the account has no share.
    """
    own = [
        share
        for share in shares
        if share.item_count
        and (
            share.reviewer_id == account.pk or (share.reviewer_id is None and account.can(Capability.APPROVE))
        )
    ]
    return min(
        own, key=lambda share: (share.signed_off_at is not None, share.reviewer_id is None), default=None
    )


def waiting_items(account: User) -> int:
    """Return how many items of open reviews wait for the account: its own, and those of administrators if it is one.

    Approvers may answer the latter, but are not expected to.
    """
    is_own = Q(reviewer=account) | Q(reviewer=None) if account.can_administer else Q(reviewer=account)
    shares = ReviewShare.objects.filter(is_own, campaign__state=CampaignState.OPEN)
    return shares.aggregate(total=Sum(OPEN_COUNT, default=0))["total"]


def totals(campaign: Campaign) -> Totals:
    """Return the numbers of items of a campaign. Runs one query."""
    return Totals(**campaign.shares.aggregate(**_SUMS))


def item_total(campaign: Campaign, reviewer: str | None) -> int:
    """Return the number of items of the reviewer with this name, or of administrators. Runs one query."""
    shares = campaign.shares.filter(**({"reviewer__username": reviewer} if reviewer else {"reviewer": None}))
    return shares.aggregate(total=Sum("item_count", default=0))["total"]


def visible_totals(account: User, campaigns: Iterable[Campaign]) -> dict[int, Totals]:
    """Return the numbers of items that the account sees, by campaign. Runs one query."""
    campaigns = list(campaigns)
    shares = ReviewShare.objects.filter(campaign__in=campaigns)
    if not account.can_see_all:
        shares = shares.filter(reviewer=account)
    rows = shares.order_by().values_list("campaign_id").annotate(**_SUMS).values_list("campaign_id", *_SUMS)
    totals_by_campaign = {pk: Totals(*sums) for pk, *sums in rows}
    return {campaign.pk: totals_by_campaign.get(campaign.pk, Totals()) for campaign in campaigns}


def _with_open_count(shares: QuerySet[ReviewShare]) -> QuerySet[ReviewShare]:
    return shares.annotate(open=OPEN_COUNT)
