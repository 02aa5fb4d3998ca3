"""The serializers and examples of reviews."""

from rest_framework import serializers

from authzconsole.common.fields import (
    Boolean,
    Choice,
    Integer,
    KindText,
    List,
    NameText,
    QueryBoolean,
    StrictSerializer,
    Text,
    Time,
    privilege_list,
    reason_field,
)
from authzconsole.rest.framework.cursors import PageQuery
from entities.vocabulary import KINDS, Privilege
from grants.models.reviews import (
    Answer,
    CampaignState,
    ItemSource,
    Recurrence,
    Removal,
    ReviewerRule,
    UnansweredRule,
)
from grants.principal_names import MAX_REASON_CHARACTERS
from grants.reviews.answers import MAX_BULK_ITEMS, MAX_SELECTED, UNDO
from grants.reviews.campaigns import MAX_DAYS, MAX_TITLE_CHARACTERS
from grants.reviews.scope import MAX_UNUSED_DAYS
from grants.reviews.selection import ANSWER_FILTERS

ANSWERS = (*filter(None, Answer.values), UNDO)
RECURRENCES = {
    "never": Recurrence.NEVER,
    "monthly": Recurrence.MONTHLY,
    "quarterly": Recurrence.QUARTERLY,
    "half-yearly": Recurrence.HALF_YEARLY,
    "yearly": Recurrence.YEARLY,
}


class ScopeSerializer(StrictSerializer):
    """What is reviewed. All conditions must be met. Without conditions, everything is reviewed."""

    sources = List(
        child=Choice(choices=ItemSource.values),
        required=False,
        max_length=len(ItemSource.values),
        help_text="Grants to users, grants to groups, memberships; by default all.",
    )
    namespace = NameText(required=False, help_text="The name of a namespace. It excludes memberships.")
    kinds = List(child=KindText(max_length=63), required=False, max_length=100)
    user = NameText(required=False, help_text="Only grants and memberships of this user.")
    group = NameText(required=False, help_text="Only grants and members of this group.")
    privileges = privilege_list(required=False)
    unused_days = Integer(
        required=False,
        min_value=1,
        max_value=MAX_UNUSED_DAYS,
        help_text="Only what has not been used in this number of days.",
    )


class ReviewCreationSerializer(StrictSerializer):
    """A new review."""

    title = Text(max_length=MAX_TITLE_CHARACTERS, help_text="The title, shown to reviewers.")
    description = Text(
        required=False,
        allow_blank=True,
        default="",
        max_length=MAX_REASON_CHARACTERS,
        help_text="Instructions for reviewers.",
    )
    scope = ScopeSerializer(required=False)
    reviewer_rule = Choice(
        choices=ReviewerRule.values, required=False, default=ReviewerRule.ADMINISTRATORS.value
    )
    reviewer_group = NameText(required=False, help_text="Only with the rule `group`.")
    escalation_group = NameText(
        required=False, help_text="Receives items without a reviewer; by default administrators."
    )
    deadline = Time(help_text="A time with a time zone.")
    unanswered = Choice(
        choices=UnansweredRule.values,
        required=False,
        default=UnansweredRule.LIST.value,
        help_text="What finishing does with items without an answer.",
    )
    recurrence = Choice(choices=list(RECURRENCES), required=False, default="never")
    reminder_days = Integer(
        required=False, default=7, max_value=MAX_DAYS, help_text="Days between reminders; 0 for none."
    )
    escalation_days = Integer(
        required=False,
        default=0,
        max_value=MAX_DAYS,
        help_text="Days before the deadline at which open items are escalated; 0 for never.",
    )
    reason = reason_field()


class ReviewSerializer(serializers.Serializer):
    number = serializers.IntegerField()
    title = serializers.CharField()
    description = serializers.CharField()
    scope = serializers.DictField()
    state = serializers.ChoiceField(CampaignState.values)
    reviewer_rule = serializers.ChoiceField(ReviewerRule.values)
    reviewer_group = serializers.CharField(allow_null=True)
    escalation_group = serializers.CharField(allow_null=True)
    deadline = serializers.DateTimeField()
    unanswered = serializers.ChoiceField(UnansweredRule.values)
    recurrence = serializers.ChoiceField(list(RECURRENCES))
    reminder_days = serializers.IntegerField()
    escalation_days = serializers.IntegerField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    opened_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    previous = serializers.IntegerField(
        allow_null=True, help_text="The review before this one in a recurrence."
    )
    items = serializers.IntegerField(help_text="The number of items that the caller sees.")
    answered = serializers.IntegerField()
    removed = serializers.IntegerField(
        help_text="The items without an answer that need none, because the access no longer exists."
    )
    figures = serializers.DictField(
        help_text="Of a finished review: the numbers of items by answer, `removed`, `left_out` (to "
        "revoke or shorten, but the access no longer exists), and since the previous one "
        "`new`, `gone` and `changed`. `revoke` and `shorten` are done when the plans are "
        "applied. Empty for reviewers."
    )
    plans = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="The plans with the result. Access changes when they are applied.",
    )
    error = serializers.CharField()
    has_bundle = serializers.BooleanField()


class ReviewsQuery(PageQuery):
    state = Choice(choices=CampaignState.values, required=False)


class ItemFilterSerializer(StrictSerializer):
    """A filter of items. All conditions must be met."""

    answer = Choice(
        choices=ANSWER_FILTERS,
        required=False,
        help_text="`open`: needs an answer; `removed`: no longer exists.",
    )
    source = Choice(choices=ItemSource.values, required=False)
    kind = Choice(choices=list(KINDS), required=False)
    namespace = NameText(required=False, help_text="Only items in this namespace.")
    privilege = Choice(choices=list(map(str, Privilege)), required=False)
    principal = NameText(
        required=False, help_text="The name of a user or group, or `user:NAME` or `group:NAME`."
    )
    group = NameText(required=False, help_text="The name of the group of a membership.")
    reviewer = NameText(required=False, help_text="The name of the reviewer, or `administrators`.")
    unused = Boolean(required=False, help_text="No use is known.")
    redundant = Boolean(required=False, help_text="A group gives the user the same privilege.")
    strands = Boolean(
        required=False, help_text="Revoking would leave an entity with fewer than two administrators."
    )
    ended = Boolean(required=False, help_text="The period is over.")
    new = Boolean(required=False, help_text="Not in the previous review.")
    changed = Boolean(required=False, help_text="Answered differently from the previous review.")
    escalated = Boolean(
        required=False, help_text="Only items that are escalated, or only those that are not."
    )


class ItemsFileQuery(ItemFilterSerializer):
    """The filters of items as query parameters."""

    unused = QueryBoolean(required=False, help_text="No use is known.")
    redundant = QueryBoolean(required=False, help_text="A group gives the user the same privilege.")
    strands = QueryBoolean(
        required=False, help_text="Revoking would leave an entity with fewer than two administrators."
    )
    ended = QueryBoolean(required=False, help_text="The period is over.")
    new = QueryBoolean(required=False, help_text="Not in the previous review.")
    changed = QueryBoolean(required=False, help_text="Answered differently from the previous review.")
    escalated = QueryBoolean(required=False)


class ReviewItemsQuery(PageQuery, ItemsFileQuery):
    """The filters of items as query parameters, and the page."""


class ReviewItemSerializer(serializers.Serializer):
    item = serializers.IntegerField(help_text="The number of the item.")
    source = serializers.ChoiceField(ItemSource.values)
    principal = serializers.CharField()
    entity = serializers.CharField(allow_null=True)
    privilege = serializers.CharField(allow_null=True)
    group = serializers.CharField(allow_null=True)
    state = serializers.CharField(allow_null=True, help_text="The state of the address.")
    since = serializers.DateTimeField(allow_null=True)
    granted_by = serializers.CharField()
    reason = serializers.CharField()
    valid_until = serializers.DateTimeField(allow_null=True)
    ended = serializers.BooleanField(
        help_text="Whether the period was over when the items were prepared. Revoking such an item "
        "only removes the entry."
    )
    redundant_through = serializers.CharField(
        allow_null=True, help_text="A group that gives the user the same."
    )
    admins_left = serializers.IntegerField(
        allow_null=True, help_text="The administrators that revoking would leave, if fewer than two."
    )
    peers = serializers.IntegerField(help_text="The other members of `peer_group`.")
    peer_holders = serializers.IntegerField(help_text="Those of them who hold the same directly.")
    peer_group = serializers.CharField(allow_null=True)
    reach = serializers.IntegerField(
        help_text="The active members of a group, or the grants of the group of a membership."
    )
    last_used_on = serializers.DateField(allow_null=True)
    last_reviewed_at = serializers.DateTimeField(allow_null=True)
    previous_answer = serializers.CharField(allow_null=True)
    new = serializers.BooleanField()
    reviewer = serializers.CharField(allow_null=True, help_text="Null for administrators.")
    escalated = serializers.BooleanField()
    answer = serializers.CharField(allow_null=True)
    new_until = serializers.DateTimeField(allow_null=True)
    comment = serializers.CharField()
    answered_by = serializers.CharField(allow_null=True)
    answered_at = serializers.DateTimeField(allow_null=True)
    removed = serializers.ChoiceField(
        [value for value in Removal.values if value],
        allow_null=True,
        help_text=(
            "What happened since the review began: the grant or membership was revoked, or the entity deleted. The item needs no "
            "answer."
        ),
    )


class SelectionSerializer(StrictSerializer):
    """Items by number, or all that meet a filter."""

    items = List(child=Integer(min_value=1), required=False, min_length=1, max_length=MAX_SELECTED)
    filter = ItemFilterSerializer(required=False, help_text=f"Selects at most {MAX_BULK_ITEMS:,} items.")
    comment = Text(
        required=False,
        allow_blank=True,
        default="",
        max_length=MAX_REASON_CHARACTERS,
        help_text="It is part of the evidence.",
    )

    def validate(self, data):
        if ("items" in data) == ("filter" in data):
            raise serializers.ValidationError("send either `items` or `filter`")
        return data


class ReviewAnswerSerializer(SelectionSerializer):
    """One answer for all selected items."""

    answer = Choice(choices=ANSWERS)
    until = Time(required=False, help_text="The new end, of the answer `shorten` only.")
    dry_run = Boolean(required=False, default=False, help_text="Return the counts, and change nothing.")


class AssignmentSerializer(SelectionSerializer):
    """A new reviewer of the selected items."""

    reviewer = NameText(
        required=False, help_text="The name of a user; by default the escalation. For administrators only."
    )


class AnswerOutcomeSerializer(serializers.Serializer):
    count = serializers.IntegerField(help_text="The items that get the answer.")
    own = serializers.IntegerField(
        help_text="Items that are skipped because they are about the caller's own access."
    )
    answered = serializers.IntegerField(
        required=False, help_text="Of a dry run: items that already have an answer."
    )
    strands = serializers.IntegerField(
        required=False,
        help_text="Of a dry run: items that leave an entity with fewer than "
        "two administrators if they are revoked.",
    )
    sentence = serializers.CharField(required=False)


class SignOffSerializer(serializers.Serializer):
    finished = serializers.BooleanField(
        help_text="Whether all reviewers have signed off, so that the review is finished now."
    )


REVIEW_EXAMPLE = {
    "number": 3,
    "title": "Quarterly review of sales",
    "description": "",
    "scope": {"namespace": "sales"},
    "state": "open",
    "reviewer_rule": "admin-holders",
    "reviewer_group": None,
    "escalation_group": None,
    "deadline": "2026-12-31T17:00:00Z",
    "unanswered": "list",
    "recurrence": "quarterly",
    "reminder_days": 7,
    "escalation_days": 3,
    "created_by": "admin",
    "created_at": "2026-12-01T08:00:00Z",
    "opened_at": "2026-12-01T08:00:10Z",
    "finished_at": None,
    "previous": None,
    "items": 120,
    "answered": 14,
    "removed": 2,
    "figures": {},
    "plans": [],
    "error": "",
    "has_bundle": False,
}
ITEM_EXAMPLE = {
    "item": 812,
    "source": "user",
    "principal": "user:alice",
    "entity": "dataset:sales.orders",
    "privilege": "READ",
    "group": None,
    "state": "live",
    "since": "2026-03-01T08:00:00Z",
    "granted_by": "admin",
    "reason": "quarterly close",
    "valid_until": None,
    "ended": False,
    "redundant_through": "group:analysts",
    "admins_left": None,
    "peers": 12,
    "peer_holders": 1,
    "peer_group": "group:analysts",
    "reach": 0,
    "last_used_on": "2026-11-02",
    "last_reviewed_at": None,
    "previous_answer": None,
    "new": False,
    "reviewer": "carol",
    "escalated": False,
    "answer": None,
    "new_until": None,
    "comment": "",
    "answered_by": None,
    "answered_at": None,
    "removed": None,
}
