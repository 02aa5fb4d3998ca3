"""Create campaigns for tests."""

from collections.abc import Iterable
from datetime import timedelta

from django.utils import timezone

from grants.models import Plan, privilege_of
from grants.models.reviews import Campaign, CampaignState, ReviewItem
from grants.reviews.answers import AnswerOutcome, ItemSelection, answer_items
from grants.reviews.campaigns import CampaignOptions, create_campaign
from grants.reviews.finishing import close_campaign, create_result_plans, request_finish
from grants.reviews.preparation import prepare_campaign
from grants.reviews.shares import counts_by_reviewer
from tests.support.authors import COMMAND, author_named


def open_campaign(*, author=COMMAND, rows_per_batch: int = 1_000, **options) -> Campaign:
    """Return a prepared campaign. options: fields of CampaignOptions."""
    return prepare(new_campaign(author=author, **options), rows_per_batch=rows_per_batch)


def new_campaign(*, author=COMMAND, **options) -> Campaign:
    values = {"title": "Quarterly review", "deadline": timezone.now() + timedelta(days=14)} | options
    return create_campaign(author=author, options=CampaignOptions(**values))


def prepare(campaign: Campaign, **options) -> Campaign:
    assert campaign.state == CampaignState.PREPARING
    return prepare_campaign(campaign, **options)


def item_of(campaign: Campaign, principal: str, target: str, privilege: str = "") -> ReviewItem:
    """Return the item of a grant or membership. target: an address, or `group:NAME`."""
    items = [
        item
        for item in campaign.items.order_by("pk")
        if item.principal == principal and item.target == target
    ]
    return next(item for item in items if not privilege or privilege_name(item) == privilege)


def privilege_name(item: ReviewItem) -> str:
    return privilege_of(item.permission_id).value if item.permission_id else ""


def answer(
    campaign: Campaign, items: Iterable[ReviewItem] | ItemSelection, value: str, *, by: str = "ada", **options
) -> AnswerOutcome:
    selection = items if isinstance(items, ItemSelection) else ItemSelection([item.pk for item in items])
    return answer_items(
        author=author_named(by), campaign=campaign, selection=selection, answer=value, **options
    )


def finish(campaign: Campaign, *, author=COMMAND) -> list[Plan]:
    """Return the plans of a campaign after it is finished."""
    request_finish(author=author, number=campaign.pk)
    claimed = Campaign.objects.get(pk=campaign.pk)
    plans = create_result_plans(claimed)
    close_campaign(claimed)
    campaign.refresh_from_db()
    return plans


def check_shares(campaign: Campaign) -> None:
    """Assert that the stored counts equal those of the items."""
    shares = {
        share.reviewer_id: (share.item_count, share.answered_count, share.removed_count)
        for share in campaign.shares.all()
        if share.item_count
    }
    assert shares == {
        reviewer: (row["items"], row["answered"], row["removed"])
        for reviewer, row in counts_by_reviewer(ReviewItem.objects.filter(campaign=campaign)).items()
    }
