"""The REST resources of access reviews: campaigns with their evidence, items and answers, the managers of users,
and records of the use of entities.
"""

from collections.abc import Mapping

from django.db import transaction
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from analytics.storage import StorageError
from authzconsole.common import output
from authzconsole.common.api_caller import author_of
from authzconsole.common.fields import (
    Boolean,
    Choice,
    Integer,
    KindText,
    List,
    NameText,
    Record,
    StrictSerializer,
    Text,
    Time,
    optional_text,
    privilege_list,
    reason_field,
)
from authzconsole.common.zip_files import zip_response
from authzconsole.evidence.bundles import bundle_chunks
from authzconsole.lists.reviews import (
    RECURRENCES,
    GoneItems,
    ItemFilterSerializer,
    Managers,
    ReviewItems,
    Reviews,
    ReviewSerializer,
)
from authzconsole.rest.framework.callers import any_account, check_administrator, check_can_see_all
from authzconsole.rest.framework.endpoint import Endpoint, Resource
from authzconsole.rest.framework.lists import ListEndpoint, ZipRenderer
from authzconsole.rest.framework.operations import FILE, LOCATION, operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.reviews.item_rows import items_response, stream_items
from grants.journal import lock_journal
from grants.models.reviews import (
    Answer,
    Campaign,
    CampaignState,
    ItemSource,
    ReviewerRule,
    UnansweredRule,
)
from grants.principal_names import MAX_NAME_CHARACTERS
from grants.reviews.answers import (
    MAX_BULK_ITEMS,
    MAX_SELECTED,
    UNDO,
    ItemSelection,
    answer_items,
    assign_items,
    preview_answer,
)
from grants.reviews.campaigns import (
    MAX_DAYS,
    MAX_TITLE_CHARACTERS,
    CampaignOptions,
    cancel_campaign,
    create_campaign,
    retry_campaign,
)
from grants.reviews.finishing import request_finish, sign_off_share
from grants.reviews.preparation import MAX_PREVIEWED_ITEMS, preview_review
from grants.reviews.removals import with_current_removal
from grants.reviews.reviewers import set_manager
from grants.reviews.scope import MAX_UNUSED_DAYS
from grants.reviews.selection import parse_filter, visible_campaigns
from grants.usage import BadUsage, import_records

ANSWERS = (*filter(None, Answer.values), UNDO)


class ScopeSerializer(StrictSerializer):
    """What is reviewed. All conditions must be met. Without conditions, everything is reviewed."""

    sources = List(
        child=Choice(choices=ItemSource.values),
        required=False,
        max_length=len(ItemSource.values),
        help_text="Grants to users, grants to groups, memberships of users, memberships of groups in roles; by default all.",
    )
    namespace = NameText(required=False, help_text="The name of a namespace. It excludes memberships.")
    kinds = List(child=KindText(max_length=63), required=False, max_length=100)
    user = NameText(required=False, help_text="Only grants and memberships of this user.")
    group = NameText(required=False, help_text="Only grants, members and memberships of this group or role.")
    privileges = privilege_list(required=False)
    unused_days = Integer(
        required=False,
        min_value=1,
        max_value=MAX_UNUSED_DAYS,
        help_text="Only what has not been used in this number of days.",
    )


class ReviewPreviewRequestSerializer(StrictSerializer):
    """The scope and the reviewers of a review."""

    scope = ScopeSerializer(required=False)
    reviewer_rule = Choice(choices=ReviewerRule.values, default=ReviewerRule.ADMINISTRATORS.value)
    reviewer_group = NameText(required=False, help_text="Only with the rule `group`.")
    escalation_group = NameText(
        required=False, help_text="Receives items without a reviewer; by default administrators."
    )


class ReviewCreationSerializer(ReviewPreviewRequestSerializer):
    """A new review."""

    title = Text(max_length=MAX_TITLE_CHARACTERS, help_text="The title, shown to reviewers.")
    description = optional_text("Instructions for reviewers.")
    deadline = Time(help_text="A time with a time zone.")
    unanswered = Choice(
        choices=UnansweredRule.values,
        default=UnansweredRule.LIST.value,
        help_text="What finishing does with items without an answer.",
    )
    recurrence = Choice(choices=list(RECURRENCES), default="never")
    reminder_days = Integer(default=7, max_value=MAX_DAYS, help_text="Days between reminders; 0 for none.")
    escalation_days = Integer(
        default=0,
        max_value=MAX_DAYS,
        help_text="Days before the deadline at which open items are escalated; 0 for never.",
    )
    reason = reason_field()


class ReviewerShareSerializer(output.Output):
    """A reviewer, and the number of items."""

    reviewer = output.Text(
        allow_null=True, example="ned", get=lambda share: share[0], help_text="Null for administrators."
    )
    items = output.Integer(example=12, get=lambda share: share[1])


class ReviewPreviewSerializer(output.Output):
    """What a review would contain if it started now."""

    items = output.Integer(
        example=12, help_text=f"{MAX_PREVIEWED_ITEMS + 1:,} means that there are at least this many."
    )
    reviewers = ReviewerShareSerializer(
        many=True,
        allow_null=True,
        example=[ReviewerShareSerializer.example_of()],
        help_text=f"Who gets how many, most first. Null for more than {MAX_PREVIEWED_ITEMS:,} items.",
    )


class SelectionSerializer(StrictSerializer):
    """Items by number, or all that meet a filter."""

    items = List(child=Integer(min_value=1), required=False, min_length=1, max_length=MAX_SELECTED)
    filter = ItemFilterSerializer(required=False, help_text=f"Selects at most {MAX_BULK_ITEMS:,} items.")
    comment = optional_text("It is part of the evidence.")

    def validate(self, data):
        if ("items" in data) == ("filter" in data):
            raise serializers.ValidationError("send either `items` or `filter`")
        return data


class ReviewAnswerSerializer(SelectionSerializer):
    """One answer for all selected items."""

    answer = Choice(choices=ANSWERS)
    until = Time(required=False, help_text="The new end, of the answer `shorten` only.")
    dry_run = Boolean(default=False, help_text="Return the counts, and change nothing.")


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
        "two ADMIN holders if they are revoked.",
    )
    sentence = output.Text(required=False)


class SignOffSerializer(output.Output):
    finished = output.Boolean(
        help_text="Whether all reviewers have signed off, so that the review is finished now."
    )


class ReviewReasonSerializer(StrictSerializer):
    """Why the review is prepared again, finished or cancelled."""

    reason = reason_field()


REVIEW = Resource.numbered("The number of the review.", lambda request: visible_campaigns(request.user))


class ReviewList(ListEndpoint):
    """List reviews.

    Sorted by number, newest first. Other accounts than administrators, approvers and auditors see only
    the reviews in which they have items.
    """

    route = "reviews"
    operation_id = "reviews_list"
    rows = Reviews

    @operation(
        "reviews_create",
        check_administrator,
        {202: ReviewSerializer},
        body=ReviewCreationSerializer,
        parameters=[LOCATION],
    )
    def post(self) -> Response:
        """Start a review.

        The worker prepares the items with their evidence, and then opens the review. Location is the URL
        of the review.
        """
        data = dict(self.data)
        author = author_of(self.request, data.pop("reason"))
        data["recurrence"] = RECURRENCES[data["recurrence"]].value
        campaign = create_campaign(author=author, options=CampaignOptions(**data))
        return self.creation_response(_shown(self.request, campaign), "reviews")


class ReviewPreviewEndpoint(Endpoint):
    route = "reviews/preview"

    @operation(
        "reviews_preview",
        check_administrator,
        ReviewPreviewSerializer,
        body=ReviewPreviewRequestSerializer,
    )
    def post(self) -> object:
        """Preview a review.

        Returns how many items the review would have if it started now, and who would review how many.
        Changes nothing.
        """
        return preview_review(CampaignOptions(title="", deadline=timezone.now(), **self.data))


class ReviewDetail(Endpoint):
    route = "reviews/<int:number>"
    resource = REVIEW

    @operation(
        "reviews_retrieve",
        any_account,
        ReviewSerializer,
    )
    def get(self) -> object:
        """Read a review.

        The counts are those of the items that the caller sees.
        """
        return _shown(self.request, self.object)


class ReviewRetry(Endpoint):
    route = "reviews/<int:number>/retry"
    resource = REVIEW

    @operation(
        "reviews_retry",
        check_administrator,
        {202: ReviewSerializer},
        body=ReviewReasonSerializer,
    )
    def post(self) -> object:
        """Prepare a failed review again.

        The worker prepares the items from the beginning, and then opens the review. Returns 409 unless
        the state is `failed`, and after the deadline.
        """
        return _shown(self.request, retry_campaign(author=self.author, number=self.object.pk))


class ReviewCancellation(Endpoint):
    route = "reviews/<int:number>/cancel"
    resource = REVIEW

    @operation(
        "reviews_cancel",
        check_administrator,
        ReviewSerializer,
        body=ReviewReasonSerializer,
    )
    def post(self) -> object:
        """Cancel a review.

        Its answers have no effect, and it does not recur.
        """
        return _shown(self.request, cancel_campaign(author=self.author, number=self.object.pk))


class ReviewFinish(Endpoint):
    route = "reviews/<int:number>/finish"
    resource = REVIEW

    @operation(
        "reviews_finish",
        check_administrator,
        {202: ReviewSerializer},
        body=ReviewReasonSerializer,
    )
    def post(self) -> object:
        """Finish a review.

        Ends the answers. The worker then creates the plans with the result, and writes the evidence.
        Nothing changes until the plans are applied.
        """
        return _shown(self.request, request_finish(author=self.author, number=self.object.pk))


class ReviewBundle(Endpoint):
    route = "reviews/<int:number>/bundle"
    resource = REVIEW
    renderer_classes = [ZipRenderer]

    @operation(
        "reviews_bundle",
        check_can_see_all,
        {(200, "application/zip"): FILE},
        errors=[409, 410],
    )
    def get(self) -> StreamingHttpResponse:
        """Download the evidence of a review.

        A signed ZIP file with all items, answers, reviewers and plans. `manage.py verify_evidence`
        verifies it without a database. Returns 409 until the review is finished.
        """
        return bundle_response(self.object)


def bundle_response(campaign: Campaign) -> StreamingHttpResponse:
    """Return the bundle of a review as a download. Raise Problem if there is none."""
    if campaign.state != CampaignState.FINISHED:
        raise Problem(409, f"{campaign} is {campaign.state}, so it has no evidence yet")
    try:
        chunks = bundle_chunks(campaign.path)
    except (StorageError, OSError):
        raise Problem(
            410, f"the evidence of {campaign} cannot be read: the file was removed from the storage"
        ) from None
    return zip_response(chunks, f"review-{campaign.pk}")


def _shown(request: Request, campaign: Campaign) -> Campaign:
    """Return the review with what the caller sees of it."""
    return Reviews(request.user).shown([campaign])[0]


class ReviewItemList(ListEndpoint):
    """List items.

    Sorted by number. Reviewers see their own items; administrators, approvers and auditors see all.
    """

    route = "reviews/<int:number>/items"
    operation_id = "reviews_items"
    rows = ReviewItems
    resource = REVIEW
    files = {"csv": "", "jsonl": ""}

    def file(self, extension: str) -> HttpResponseBase:
        rows = with_current_removal(self.read_list().select(), self.object)
        return items_response(stream_items(rows), self.object, extension)


class GoneItemList(ListEndpoint):
    """List items that are gone.

    The items of the previous review that this one no longer contains. For administrators, approvers and
    auditors.
    """

    route = "reviews/<int:number>/gone"
    operation_id = "reviews_gone"
    rows = GoneItems
    resource = REVIEW


class Answers(Endpoint):
    route = "reviews/<int:number>/answers"
    resource = REVIEW

    @operation(
        "reviews_answer",
        any_account,
        AnswerOutcomeSerializer,
        body=ReviewAnswerSerializer,
    )
    def post(self) -> object:
        """Answer items.

        Gives the same answer to the selected items; `undo` removes their answers. With `dry_run`, returns
        the counts and changes nothing. Items that the caller may not answer are left out.
        """
        campaign, data = self.object, self.data
        selection = _selection(data)
        if data["dry_run"]:
            return preview_answer(account=self.request.user, campaign=campaign, selection=selection)
        return answer_items(
            author=self.author,
            campaign=campaign,
            selection=selection,
            new_until=data.get("until"),
            answer="" if data["answer"] == UNDO else data["answer"],
            comment=data["comment"],
        )


class Assignments(Endpoint):
    route = "reviews/<int:number>/assignments"
    resource = REVIEW

    @operation(
        "reviews_assign",
        any_account,
        AnswerOutcomeSerializer,
        body=AssignmentSerializer,
    )
    def post(self) -> object:
        """Move items to another reviewer.

        Reviewers return items to the escalation; administrators and approvers can also name a reviewer.
        Answers of the items are removed.
        """
        data = self.data
        return assign_items(
            author=self.author,
            campaign=self.object,
            selection=_selection(data),
            reviewer=data.get("reviewer", ""),
            comment=data["comment"],
        )


class SignOff(Endpoint):
    route = "reviews/<int:number>/sign-off"
    resource = REVIEW

    @operation(
        "reviews_sign_off",
        any_account,
        SignOffSerializer,
    )
    def post(self) -> object:
        """Sign off.

        Signs off the caller's items, which must all have an answer. When all reviewers have signed off,
        the review is finished.
        """
        self.check_empty_body()
        return {"finished": sign_off_share(author=self.author, campaign=self.object)}


def _selection(data: Mapping) -> ItemSelection:
    if "items" in data:
        return ItemSelection(numbers=data["items"])
    return ItemSelection(filter=parse_filter(data["filter"]))


MAX_MANAGERS = 1_000


class ManagerChangeSerializer(StrictSerializer):
    """The manager of a user."""

    user = NameText(help_text="The name of a user.")
    manager = Text(
        allow_blank=True,
        max_length=MAX_NAME_CHARACTERS,
        help_text="The name of a user; empty removes the manager.",
    )


class ManagersSerializer(StrictSerializer):
    """The managers of users."""

    managers = List(child=ManagerChangeSerializer(), min_length=1, max_length=MAX_MANAGERS)
    reason = reason_field()


class ManagersOutcomeSerializer(output.Output):
    changed = output.Integer(example=1, help_text="The number of users with another manager than before.")


class ManagerList(ListEndpoint):
    """List managers.

    Sorted by the key of the user. For administrators, approvers and auditors.
    """

    route = "managers"
    operation_id = "managers_list"
    rows = Managers

    @operation(
        "managers_set",
        check_administrator,
        ManagersOutcomeSerializer,
        body=ManagersSerializer,
    )
    def put(self) -> object:
        """Set managers.

        Sets the managers of up to {MAX_MANAGERS:,} users, all or none. Other users keep their manager.
        Managers review the access of these users in reviews with that rule. Being a manager gives no
        access.
        """
        with transaction.atomic():
            lock_journal()
            outcomes = [
                set_manager(author=self.author, name=row["user"], manager=row["manager"])
                for row in self.data["managers"]
            ]
        return {"changed": sum(outcome.has_changed for outcome in outcomes)}


MAX_RECORDS = 5_000


class UsageSerializer(StrictSerializer):
    """Records of use."""

    records = List(
        child=Record(help_text="`user`, `entity`, `day` or `at`, and `count` (by default 1)."),
        min_length=1,
        max_length=MAX_RECORDS,
    )


class UsageOutcomeSerializer(output.Output):
    stored = output.Integer(example=1, help_text="The number of stored days of use.")


class Usage(Endpoint):
    route = "usage"

    @operation(
        "usage_import",
        check_administrator,
        UsageOutcomeSerializer,
        body=UsageSerializer,
    )
    def post(self) -> object:
        """Import records of use.

        Stores up to {MAX_RECORDS:,} records, all or none, with a journal line. The larger count of a day
        is kept, so records can be sent again. Reviews show the last use. For administrators.
        """
        try:
            return {"stored": import_records(enumerate(self.data["records"], 1), author=self.author)}
        except BadUsage as error:
            raise Problem(
                400,
                str(error),
                errors=[
                    {"list": "records", "index": number - 1, "field": field, "message": reason}
                    for number, field, reason in error.faults
                ],
            ) from None
