"""The lists about access reviews: the reviews, their items, and the managers of users."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from authzconsole.common import output
from authzconsole.common.fields import Boolean, Choice, NameText, QueryBoolean, QuerySerializer
from authzconsole.lists.base import List
from authzconsole.reviews.item_rows import ReviewItemSerializer
from entities.vocabulary import KINDS, Privilege
from grants.models import Plan
from grants.models.reviews import (
    Campaign,
    CampaignState,
    ItemSource,
    Recurrence,
    ReviewerRule,
    ReviewItem,
    UnansweredRule,
    UserManagerLink,
)
from grants.reviews.finishing import gone_items
from grants.reviews.removals import load_current_removal
from grants.reviews.selection import (
    ANSWER_FILTERS,
    matching_items,
    parse_filter,
    visible_campaigns,
    visible_items,
    with_principals,
)
from grants.reviews.shares import visible_totals
from grants.roles.capabilities import Capability

RECURRENCES = {
    "never": Recurrence.NEVER,
    "monthly": Recurrence.MONTHLY,
    "quarterly": Recurrence.QUARTERLY,
    "half-yearly": Recurrence.HALF_YEARLY,
    "yearly": Recurrence.YEARLY,
}
_RECURRENCE_NAMES = {str(value.value): name for name, value in RECURRENCES.items()}


def _secret(column: str, otherwise: object = None) -> Callable[[Any], object]:
    """Return a function that reads a column only for accounts that see everything."""
    return lambda row: getattr(row, column) if row.sees_all else otherwise


class ReviewSerializer(output.Output):
    number = output.Integer(source="pk", example=3)
    title = output.Text(example="Quarterly review of sales")
    description = output.Text()
    scope = output.Record(get=_secret("scope", {}), example={"namespace": "sales"})
    state = output.Choice(example="open", choices=CampaignState.values)
    reviewer_rule = output.Choice(example="admin-holders", choices=ReviewerRule.values)
    reviewer_group = output.Text(get=_secret("reviewer_group"), allow_null=True)
    escalation_group = output.Text(get=_secret("escalation_group"), allow_null=True)
    deadline = output.Time(example="2026-12-31T17:00:00Z")
    unanswered = output.Choice(example="list", choices=UnansweredRule.values)
    recurrence = output.Choice(
        get=lambda row: _RECURRENCE_NAMES[row.recurrence],
        example="quarterly",
        choices=list(RECURRENCES),
    )
    reminder_days = output.Integer(example=7)
    escalation_days = output.Integer(example=3)
    created_by = output.Text()
    created_at = output.Time(example="2026-12-01T08:00:00Z")
    opened_at = output.Time(example="2026-12-01T08:00:10Z", allow_null=True)
    finished_at = output.Time(allow_null=True)
    previous = output.Integer(
        get=_secret("previous_id"), allow_null=True, help_text="The review before this one in a recurrence."
    )
    items = output.Integer(
        source="totals.items", example=120, help_text="The number of items that the caller sees."
    )
    answered = output.Integer(source="totals.answered", example=14)
    removed = output.Integer(
        source="totals.removed",
        example=2,
        help_text="The items without an answer that need none, because the access no longer exists.",
    )
    figures = output.Record(
        get=_secret("figures", {}),
        help_text="Of a finished review: the numbers of items by answer, `removed`, `left_out` (to "
        "revoke or shorten, but the access no longer exists), and since the previous one "
        "`new`, `gone` and `changed`. `revoke` and `shorten` are done when the plans are "
        "applied. Empty for reviewers.",
    )
    plans = output.Numbers(
        source="plan_numbers",
        help_text="The plans with the result. Access changes when they are applied.",
    )
    error = output.Text(get=_secret("error", ""))
    has_bundle = output.Boolean(get=_secret("path", ""))


class ReviewFilters(QuerySerializer):
    state = Choice(
        choices=CampaignState.values,
    )


class Reviews(List):
    """The reviews that the account sees, newest first."""

    name = "reviews"
    output = ReviewSerializer
    filter_fields = ReviewFilters
    order = ("-pk",)

    def select(self) -> QuerySet[Campaign]:
        return visible_campaigns(self.account).filter(**self.equal(state="state"))

    def members(self, rows: Iterable[Campaign]) -> list[dict]:
        return super().members(self.shown(list(rows)))

    def shown(self, campaigns: Sequence[Campaign]) -> Sequence[Campaign]:
        """Return the reviews with what the account sees of them. Runs at most two queries.

        totals: of the items that it sees. plan_numbers: of the plans with the result.
        """
        sees_all = self.account.can_see_all
        totals = visible_totals(self.account, campaigns)
        plans: dict[int, list[int]] = {}
        if sees_all:
            found = Plan.objects.filter(review_link__campaign__in=campaigns).order_by("pk")
            for plan, number in found.values_list("pk", "review_link__campaign"):
                plans.setdefault(number, []).append(plan)
        for row in campaigns:
            row.totals, row.plan_numbers, row.sees_all = totals[row.pk], plans.get(row.pk, []), sees_all  # type: ignore[attr-defined]
        return campaigns


class ItemFilterSerializer(QuerySerializer):
    """A filter of items. All conditions must be met."""

    answer = Choice(
        choices=ANSWER_FILTERS,
        help_text="`open`: needs an answer; `removed`: no longer exists.",
    )
    source = Choice(
        choices=ItemSource.values,
    )  # type: ignore[assignment]
    kind = Choice(
        choices=list(KINDS),
    )
    namespace = NameText(help_text="Only items in this namespace.")
    privilege = Choice(
        choices=list(map(str, Privilege)),
    )
    principal = NameText(help_text="The name of a user or group, or `user:NAME` or `group:NAME`.")
    group = NameText(help_text="The name of the group or role of a membership.")
    reviewer = NameText(help_text="The name of the reviewer, or `administrators`.")
    unused = Boolean(help_text="No use is recorded.")
    redundant = Boolean(help_text="A group gives the user the same privilege.")
    strands = Boolean(help_text="Revoking would leave an entity with fewer than two ADMIN holders.")
    ended = Boolean(help_text="The period is over.")
    new = Boolean(help_text="Not in the previous review.")
    changed = Boolean(help_text="Answered differently from the previous review.")
    escalated = Boolean(help_text="Only items that are escalated, or only those that are not.")


class ItemFilters(ItemFilterSerializer):
    """The filters of items as query parameters."""

    def get_fields(self) -> dict[str, serializers.Field]:
        return {
            name: QueryBoolean(required=False, help_text=field.help_text)
            if isinstance(field, serializers.BooleanField)
            else field
            for name, field in super().get_fields().items()
        }


class ReviewItems(List):
    """The items of a review, the subject, that the account sees and that meet the filters, by number."""

    name = "review-items"
    output = ReviewItemSerializer
    filter_fields = ItemFilters
    order = ("place",)

    def identity(self) -> list:
        return [self.name, self.subject.pk]

    def select(self) -> QuerySet[ReviewItem]:
        names = set(ItemFilters().fields)
        filter_ = parse_filter({name: value for name, value in self.filters.items() if name in names})
        return with_principals(matching_items(visible_items(self.account, self.subject), filter_))

    def members(self, rows: Iterable[ReviewItem]) -> list[dict]:
        items = list(rows)
        load_current_removal(items, self.subject)
        return super().members(items)


class GoneItems(List):
    """The items of the previous review that a review, the subject, no longer contains."""

    name = "review-gone"
    output = ReviewItemSerializer
    readers = (Capability.READ_ALL,)
    identity = ReviewItems.identity

    def select(self) -> QuerySet[ReviewItem]:
        return with_principals(gone_items(self.subject))


class ManagerSerializer(output.Output):
    user = output.Text(source="user.username")
    manager = output.Text(source="manager.username", example="diego.morales")


class Managers(List):
    """The managers of users."""

    name = "managers"
    output = ManagerSerializer
    readers = (Capability.READ_ALL,)

    def select(self) -> QuerySet[UserManagerLink]:
        return UserManagerLink.objects.select_related("user", "manager")
