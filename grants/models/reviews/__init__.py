"""Models of access reviews: campaigns, their items, managers of users, and the use of entities.

`grants.reviews` and `grants.usage` are the only writers of these tables.
"""

from grants.models.reviews.campaigns import (
    Campaign,
    CampaignState,
    Recurrence,
    ReviewerRule,
    ReviewPlan,
    ReviewShare,
    UnansweredRule,
)
from grants.models.reviews.items import Answer, ItemSource, Removal, ReviewItem
from grants.models.reviews.people import UserManagerLink
from grants.models.reviews.usage import UsageDay

__all__ = [
    "Answer",
    "Campaign",
    "CampaignState",
    "ItemSource",
    "Recurrence",
    "Removal",
    "ReviewItem",
    "ReviewPlan",
    "ReviewShare",
    "ReviewerRule",
    "UnansweredRule",
    "UsageDay",
    "UserManagerLink",
]
