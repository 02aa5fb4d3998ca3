"""The REST resource `reviews`: create, read, prepare again, cancel and finish reviews, and download their
evidence.
"""

from django.http import Http404, StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from analytics.storage import StorageError
from authzconsole.common.downloads.zip_files import zip_response
from authzconsole.common.fields import MAX_INTEGER, StrictSerializer, reason_field
from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.callers import any_account, author_of, check_administrator, check_can_see_all
from authzconsole.rest.framework.cursors import ListPart, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint, created_response
from authzconsole.rest.framework.locations import ROOT
from authzconsole.rest.framework.operations import FILE, LOCATION, api_operation, path_parameter
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.framework.renderers import ZipRenderer
from authzconsole.rest.reviews.serializers import (
    RECURRENCES,
    REVIEW_EXAMPLE,
    ReviewCreationSerializer,
    ReviewSerializer,
    ReviewsQuery,
)
from authzconsole.reviews.bundle import bundle_chunks
from authzconsole.reviews.execution import finish_review, retry_review, start_review
from grants.models import Plan
from grants.models.reviews import Campaign, CampaignState
from grants.reviews.campaigns import CampaignOptions, cancel_campaign
from grants.reviews.selection import visible_campaigns
from grants.reviews.shares import visible_totals

TAG = "Reviews"
REVIEW_PATH = path_parameter("number", "The number of the review.", int)
_PREPARING_EXAMPLE = REVIEW_EXAMPLE | {"state": "preparing", "items": 0, "answered": 0, "removed": 0}
_RECURRENCE_NAMES = {str(value.value): name for name, value in RECURRENCES.items()}


class ReviewReasonSerializer(StrictSerializer):
    """Why the review is prepared again, finished or cancelled."""

    reason = reason_field()


class Reviews(Endpoint):
    rules = {"GET": any_account, "POST": check_administrator}
    queries = {"GET": ReviewsQuery}

    @api_operation(
        "reviews_list",
        TAG,
        "List reviews",
        "Sorted by number, newest first. Other accounts than administrators, approvers and auditors see only the reviews in "
        "which they have items.",
        query=ReviewsQuery,
        responses={200: page_serializer(ReviewSerializer)},
        response_example={"items": [REVIEW_EXAMPLE], "next": None},
    )
    def get(self, request: Request) -> Response:
        rows = visible_campaigns(request.user).filter(
            **({"state": self.query["state"]} if "state" in self.query else {})
        )
        page = page_of(
            [ListPart(rows, ("-pk",))],
            lambda row: row,
            query=self.query,
            identity=list_identity("reviews", self.query),
        )
        return Response(page | {"items": reviews_as_json(request, page["items"])})

    @api_operation(
        "reviews_create",
        TAG,
        "Start a review",
        "The worker prepares the items with their evidence, and then opens the review. Location is the URL of the review.",
        request=ReviewCreationSerializer,
        request_example={
            "title": "Quarterly review of sales",
            "scope": {"namespace": "sales"},
            "reviewer_rule": "admin-holders",
            "deadline": "2026-12-31T17:00:00+01:00",
            "recurrence": "quarterly",
        },
        responses={202: ReviewSerializer},
        response_example=_PREPARING_EXAMPLE,
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        data = dict(self.body(ReviewCreationSerializer))
        author = author_of(request, data.pop("reason"))
        data["recurrence"] = RECURRENCES[data["recurrence"]].value
        campaign = start_review(author=author, options=CampaignOptions(**data))
        response = created_response(reviews_as_json(request, [campaign])[0], f"{ROOT}/reviews/{campaign.pk}")
        response.status_code = 202
        return response


class ReviewDetail(Endpoint):
    rules = {"GET": any_account}

    @api_operation(
        "reviews_retrieve",
        TAG,
        "Read a review",
        "The counts are those of the items that the caller sees.",
        responses={200: ReviewSerializer},
        response_example=REVIEW_EXAMPLE,
        errors=[404],
        parameters=[REVIEW_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(reviews_as_json(request, [review_or_404(request, number)])[0])


class ReviewRetry(Endpoint):
    rules = {"POST": check_administrator}

    @api_operation(
        "reviews_retry",
        TAG,
        "Prepare a failed review again",
        "The worker prepares the items from the beginning, and then opens the review. Returns 409 unless the state is `failed`, "
        "and after the deadline.",
        request=ReviewReasonSerializer,
        request_example={"reason": "the storage has space again"},
        responses={202: ReviewSerializer},
        response_example=_PREPARING_EXAMPLE,
        errors=[404, 409],
        parameters=[REVIEW_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        review_or_404(request, number)
        author = author_of(request, self.body(ReviewReasonSerializer)["reason"])
        campaign = retry_review(author=author, number=number)
        return Response(reviews_as_json(request, [campaign])[0], status=202)


class ReviewCancellation(Endpoint):
    rules = {"POST": check_administrator}

    @api_operation(
        "reviews_cancel",
        TAG,
        "Cancel a review",
        "Its answers have no effect, and it does not recur.",
        request=ReviewReasonSerializer,
        request_example={"reason": "the scope was wrong"},
        responses={200: ReviewSerializer},
        response_example=REVIEW_EXAMPLE | {"state": "cancelled"},
        errors=[404, 409],
        parameters=[REVIEW_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        review_or_404(request, number)
        author = author_of(request, self.body(ReviewReasonSerializer)["reason"])
        return Response(reviews_as_json(request, [cancel_campaign(author=author, number=number)])[0])


class ReviewFinish(Endpoint):
    rules = {"POST": check_administrator}

    @api_operation(
        "reviews_finish",
        TAG,
        "Finish a review",
        "Ends the answers. The worker then creates the plans with the result, and writes the evidence. Nothing changes until "
        "the plans are applied.",
        request=ReviewReasonSerializer,
        request_example={"reason": "all items are answered"},
        responses={202: ReviewSerializer},
        response_example=REVIEW_EXAMPLE | {"state": "finishing"},
        errors=[404, 409],
        parameters=[REVIEW_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        review_or_404(request, number)
        author = author_of(request, self.body(ReviewReasonSerializer)["reason"])
        campaign = finish_review(author=author, number=number)
        return Response(reviews_as_json(request, [campaign])[0], status=202)


class ReviewBundle(Endpoint):
    rules = {"GET": check_can_see_all}
    renderer_classes = [ZipRenderer]

    @api_operation(
        "reviews_bundle",
        TAG,
        "Download the evidence of a review",
        "A signed ZIP file with all items, answers, reviewers and plans. `manage.py verify_evidence` verifies it without a "
        "database. Returns 409 until the review is finished.",
        responses={(200, "application/zip"): FILE},
        errors=[404, 409, 410],
        parameters=[REVIEW_PATH],
    )
    def get(self, request: Request, number: int) -> StreamingHttpResponse:
        return bundle_response(review_or_404(request, number))


def bundle_response(campaign: Campaign) -> StreamingHttpResponse:
    """Return the bundle of a review as a download. Raise Problem if there is none."""
    if campaign.state != CampaignState.FINISHED:
        raise Problem(409, f"{campaign} is {campaign.state}, so it has no evidence yet")
    try:
        chunks = bundle_chunks(campaign)
    except (StorageError, OSError):
        raise Problem(
            410, f"the evidence of {campaign} cannot be read: the file was removed from the storage"
        ) from None
    return zip_response(chunks, f"review-{campaign.pk}")


def review_or_404(request: Request, number: int) -> Campaign:
    """Return the review if the caller sees it.

    Raise Http404 otherwise; the caller cannot tell whether it exists.
    """
    campaign = visible_campaigns(request.user).filter(pk=number).first() if number <= MAX_INTEGER else None
    if campaign is None:
        raise Http404
    return campaign


def reviews_as_json(request: Request, campaigns: list[Campaign]) -> list[dict]:
    """Return reviews as the caller sees them. Runs two queries."""
    totals = visible_totals(request.user, campaigns)
    plans: dict[int, list[int]] = {}
    sees_all = request.user.can_see_all
    if sees_all:
        rows = Plan.objects.filter(review_link__campaign__in=campaigns).order_by("pk")
        for plan, number in rows.values_list("pk", "review_link__campaign"):
            plans.setdefault(number, []).append(plan)
    return [
        {
            "number": row.pk,
            "title": row.title,
            "description": row.description,
            "scope": row.scope if sees_all else {},
            "state": row.state,
            "reviewer_rule": row.reviewer_rule,
            "reviewer_group": (row.reviewer_group or None) if sees_all else None,
            "escalation_group": (row.escalation_group or None) if sees_all else None,
            "deadline": as_json_time(row.deadline),
            "unanswered": row.unanswered,
            "recurrence": _RECURRENCE_NAMES[row.recurrence],
            "reminder_days": row.reminder_days,
            "escalation_days": row.escalation_days,
            "created_by": row.created_by,
            "created_at": as_json_time(row.created_at),
            "opened_at": as_json_time(row.opened_at),
            "finished_at": as_json_time(row.finished_at),
            "previous": row.previous_id if sees_all else None,
            "items": totals[row.pk].items,
            "answered": totals[row.pk].answered,
            "removed": totals[row.pk].removed,
            "figures": row.figures if sees_all else {},
            "plans": plans.get(row.pk, []),
            "error": row.error if sees_all else "",
            "has_bundle": bool(row.path) and sees_all,
        }
        for row in campaigns
    ]
