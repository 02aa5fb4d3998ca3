"""The serializers and examples of reviews."""

from rest_framework import serializers

from authzconsole.common import output
from authzconsole.common.fields import (
    Boolean,
    Choice,
    Integer,
    KindText,
    List,
    NameText,
    StrictSerializer,
    Text,
    Time,
    privilege_list,
    reason_field,
)
from authzconsole.lists.reviews import RECURRENCES, ItemFilterSerializer
from grants.models.reviews import (
    Answer,
    ItemSource,
    ReviewerRule,
    UnansweredRule,
)
from grants.principal_names import MAX_REASON_CHARACTERS
from grants.reviews.answers import MAX_BULK_ITEMS, MAX_SELECTED, UNDO
from grants.reviews.campaigns import MAX_DAYS, MAX_TITLE_CHARACTERS
from grants.reviews.scope import MAX_UNUSED_DAYS

ANSWERS = (*filter(None, Answer.values), UNDO)


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


class AnswerOutcomeSerializer(output.Output):
    count = output.Integer(help_text="The items that get the answer.")
    own = output.Integer(help_text="Items that are skipped because they are about the caller's own access.")
    answered = output.Integer(required=False, help_text="Of a dry run: items that already have an answer.")
    strands = output.Integer(
        required=False,
        help_text="Of a dry run: items that leave an entity with fewer than "
        "two administrators if they are revoked.",
    )
    sentence = output.Text(required=False)


class SignOffSerializer(output.Output):
    finished = output.Boolean(
        help_text="Whether all reviewers have signed off, so that the review is finished now."
    )
