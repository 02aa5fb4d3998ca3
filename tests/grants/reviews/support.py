"""Create campaigns for tests."""

from datetime import timedelta

from django.utils import timezone

from grants.models import User, privilege_of
from grants.models.reviews import Campaign, CampaignState, ReviewItem
from grants.reviews.campaigns import CampaignOptions, create_campaign
from grants.reviews.preparation import prepare_campaign
from tests.support.authors import COMMAND


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


def user(name: str) -> User:
    return User.objects.get(username=name)
