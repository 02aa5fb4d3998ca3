"""Read the options of a campaign for the statements that prepare it, and name the tables that these read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import Group

from entities.address import instance_address
from entities.models import Entity
from entities.selectors import entity_at
from entities.vocabulary import Privilege
from grants.bulk_rows import database_time
from grants.models import GroupGrant, JournalLine, Membership, User, UserGrant, permission_ids
from grants.models.history import HistoryPrincipal, MembershipPeriod
from grants.models.reviews import (
    Campaign,
    ReviewerRule,
    ReviewItem,
    UsageDay,
    UserManagerLink,
)
from grants.reviews.reviewers import reviewers_of_group

ITEM_TABLE, CAMPAIGN_TABLE = ReviewItem._meta.db_table, Campaign._meta.db_table
ENTITY_TABLE, USER_TABLE, MEMBER_TABLE = Entity._meta.db_table, User._meta.db_table, Membership._meta.db_table
GROUP_TABLE, LINK_TABLE, USAGE_TABLE = (
    Group._meta.db_table,
    UserManagerLink._meta.db_table,
    UsageDay._meta.db_table,
)
USER_GRANT_TABLE, GROUP_GRANT_TABLE = UserGrant._meta.db_table, GroupGrant._meta.db_table
PERIOD_TABLE, KNOWN_TABLE, LINE_TABLE = (
    model._meta.db_table for model in (MembershipPeriod, HistoryPrincipal, JournalLine)
)


@dataclass(frozen=True, slots=True)
class PreparationRules:
    """The options of a campaign with primary keys instead of names. The values are written into the SQL.

    reviewers, escalation: primary keys of users; empty means administrators.
    at: the time of the review, as an SQL literal. Evidence consists of the grants and memberships in force at
    this time.
    delegation: whether holders of ADMIN on containers review what is inside. instance: the primary key of its
    row, or 0.
    """

    campaign: int
    previous: int | None
    admin: int
    rule: ReviewerRule
    at: str
    reviewers: Sequence[int] = ()
    escalation: Sequence[int] = ()
    delegation: bool = False
    instance: int = 0


def preparation_rules(campaign: Campaign, at: datetime) -> PreparationRules:
    """Return the rules of a campaign, with the primary keys of the names in it. at: the time of the review.

    Raise ReviewError if a name does not exist.
    """
    instance = entity_at(instance_address())
    return PreparationRules(
        campaign=campaign.pk,
        previous=campaign.previous_id,
        admin=permission_ids()[Privilege.ADMIN],
        rule=ReviewerRule(campaign.reviewer_rule),
        at=f"'{database_time(at)}'",
        reviewers=reviewers_of_group(campaign.reviewer_group, field="reviewer_group")
        if campaign.reviewer_group
        else (),
        escalation=reviewers_of_group(campaign.escalation_group, field="escalation_group")
        if campaign.escalation_group
        else (),
        delegation=settings.DELEGATION,
        instance=instance.pk if instance else 0,
    )
