"""Which items an account sees and may answer, and filters of items."""

from collections.abc import Mapping
from dataclasses import asdict

from django.db.models import BooleanField, Case, DateTimeField, F, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Abs

from entities.frozen import frozen
from entities.vocabulary import KINDS, Privilege
from grants.models import User, permission_ids
from grants.models.reviews import (
    SOURCES_OF_GROUPS,
    Answer,
    Campaign,
    CampaignState,
    ItemSource,
    ReviewItem,
    ReviewShare,
)
from grants.policies.principals import type_and_name
from grants.principal_names import PRINCIPAL_TYPES
from grants.reviews.errors import ReviewError
from grants.roles.capabilities import Capability

# a cancelled or failed campaign has no items that a reviewer could answer
STATES_FOR_REVIEWERS = (CampaignState.OPEN, CampaignState.FINISHING, CampaignState.FINISHED)
OPEN, REMOVED = "open", "removed"
OPEN_ITEMS, REMOVED_ITEMS = Q(answer=Answer.OPEN, removed=""), ~Q(removed="")
ANSWER_FILTERS = (OPEN, *filter(None, Answer.values), REMOVED)
CHANGED_ANSWER = ~Q(previous_answer="") & ~Q(answer="") & ~Q(answer=F("previous_answer"))
FLAG_CONDITIONS = {
    "unused": Q(last_used_on=None),
    "redundant": ~Q(redundant_through=""),
    "strands": Q(admins_left__isnull=False),
    "ended": Q(is_ended=True),
    "new": Q(is_new=True),
    "changed": CHANGED_ANSWER,
    "escalated": Q(escalated=True),
}
ADMINISTRATORS = "administrators"


@frozen
class ItemFilter:
    """Conditions on items; an empty one is always met.

    answer: `open` for items that need an answer, `removed` for those that no longer exist, or a value of
    Answer.
    principal: the name of a user or group, or `user:NAME` or `group:NAME`. group: of memberships.
    reviewer: the name of a reviewer, or `administrators`. unused: no recorded use. ended: its period is over.
    changed: the answer is not the previous one.
    """

    answer: str = ""
    source: str = ""
    kind: str = ""
    namespace: str = ""
    privilege: str = ""
    principal: str = ""
    group: str = ""
    reviewer: str = ""
    unused: bool = False
    redundant: bool = False
    strands: bool = False
    ended: bool = False
    new: bool = False
    changed: bool = False
    escalated: bool = False

    def as_mapping(self) -> dict:
        """Return the conditions that are set."""
        return {name: value for name, value in asdict(self).items() if value}


def parse_filter(data: Mapping) -> ItemFilter:
    """Return the filter of these texts and booleans. Raise ReviewError if one is invalid."""
    if unknown := sorted(set(data) - set(ItemFilter.__dataclass_fields__)):
        raise ReviewError(f"`{unknown[0]}` is not a filter of items", field="filter")
    for name, allowed in (
        ("answer", ANSWER_FILTERS),
        ("source", ItemSource.values),
        ("kind", list(KINDS)),
        ("privilege", list(Privilege)),
    ):
        if (value := data.get(name)) and value not in allowed:
            raise ReviewError(f"`{value}` is not one of {', '.join(allowed)}", field=name)
    return ItemFilter(**data)


def visible_campaigns(account: User) -> QuerySet[Campaign]:
    """Return all campaigns for administrators and auditors, otherwise those in which the account reviews
    items.
    """
    if account.can_see_all:
        return Campaign.objects.all()
    shares = ReviewShare.objects.filter(reviewer=account, item_count__gt=0).order_by()
    return Campaign.objects.filter(pk__in=shares.values("campaign"), state__in=STATES_FOR_REVIEWERS)


def visible_items(account: User, campaign: Campaign) -> QuerySet[ReviewItem]:
    """Return all items for administrators and auditors, otherwise the items that the account reviews."""
    items = ReviewItem.objects.filter(campaign=campaign)
    if account.can_see_all:
        return items
    return items.filter(reviewer=account) if campaign.state in STATES_FOR_REVIEWERS else items.none()


def with_principals(items: QuerySet[ReviewItem]) -> QuerySet[ReviewItem]:
    """Load the reviewer of each item, whether its user is active, and when its user last signed in."""
    users, is_user = User.objects.filter(pk=OuterRef("principal_id")), ~Q(source__in=SOURCES_OF_GROUPS)
    return items.select_related("reviewer").annotate(
        principal_active=Case(
            When(is_user, then=Subquery(users.values("is_active"))), output_field=BooleanField(null=True)
        ),
        principal_signed_in_at=Case(
            When(is_user, then=Subquery(users.values("last_login"))), output_field=DateTimeField(null=True)
        ),
    )


def answerable_items(account: User, campaign: Campaign) -> QuerySet[ReviewItem]:
    """Return all items that still exist for accounts that approve, otherwise those of them that the account
    reviews.

    Items about the account itself are among them; `grants.reviews.answers` skips them.
    """
    items = ReviewItem.objects.filter(campaign=campaign, removed="")
    return items if account.can(Capability.APPROVE) else items.filter(reviewer=account)


def matching_items(items: QuerySet[ReviewItem], filter_: ItemFilter) -> QuerySet[ReviewItem]:
    """Return the items that meet a filter.

    The annotation `place` is the sort key for pages. It equals the number of the item. If the source is the
    only filter, it is written as an expression that makes PostgreSQL use the index of the source (see
    `ReviewItem`).
    """
    has_only_source = filter_.source and not set(filter_.as_mapping()) - {"source", "answer"}
    items = items.annotate(place=Abs("pk") if has_only_source else F("pk"))
    equal = {
        "source": filter_.source,
        "kind": filter_.kind,
        "namespace": filter_.namespace,
        "group_name": filter_.group,
    }
    items = items.filter(**{name: value for name, value in equal.items() if value})
    if filter_.principal:
        items = items.filter(_principal_condition(filter_.principal))
    if filter_.answer:
        items = items.filter(
            {OPEN: OPEN_ITEMS, REMOVED: REMOVED_ITEMS}.get(filter_.answer) or Q(answer=filter_.answer)
        )
    if filter_.privilege:
        items = items.filter(permission_id=permission_ids()[Privilege(filter_.privilege)])
    if filter_.reviewer:
        reviewer = User.objects.filter(username=filter_.reviewer).values_list("pk", flat=True).first()
        items = (
            items.filter(reviewer=None)
            if filter_.reviewer == ADMINISTRATORS
            else items.filter(reviewer=reviewer or 0)
        )
    for name, condition in FLAG_CONDITIONS.items():
        if getattr(filter_, name):
            items = items.filter(condition)
    return items


def _principal_condition(text: str) -> Q:
    """Return the condition that an item is about the principal in this text.

    The name itself may look like `user:NAME`.
    """
    type_, name = type_and_name(text)
    if type_ not in PRINCIPAL_TYPES:
        return Q(principal_name=text)
    is_of_group = Q(source__in=SOURCES_OF_GROUPS)
    is_of_type = is_of_group if type_ == "group" else ~is_of_group
    return Q(principal_name__in=(text, name)) & (Q(principal_name=text) | is_of_type)
