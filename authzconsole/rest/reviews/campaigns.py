"""The REST resource `reviews`: create, read, prepare again, cancel and finish reviews, and download their
evidence.
"""

from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from analytics.storage import StorageError
from authzconsole.common.downloads.zip_files import zip_response
from authzconsole.common.fields import StrictSerializer, reason_field
from authzconsole.evidence.bundles import bundle_chunks
from authzconsole.lists.reviews import RECURRENCES, Reviews, ReviewSerializer
from authzconsole.rest.framework.callers import any_account, author_of, check_administrator, check_can_see_all
from authzconsole.rest.framework.endpoint import Endpoint, Resource, created_response
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.locations import ROOT
from authzconsole.rest.framework.operations import FILE, LOCATION, api_operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.framework.renderers import ZipRenderer
from authzconsole.rest.reviews.serializers import ReviewCreationSerializer
from grants.models.reviews import Campaign, CampaignState
from grants.reviews.campaigns import CampaignOptions, cancel_campaign, create_campaign, retry_campaign
from grants.reviews.finishing import request_finish
from grants.reviews.selection import visible_campaigns

TAG = "Reviews"
_PREPARING_EXAMPLE = {"state": "preparing", "items": 0, "answered": 0, "removed": 0}


class ReviewReasonSerializer(StrictSerializer):
    """Why the review is prepared again, finished or cancelled."""

    reason = reason_field()


REVIEW = Resource.numbered("The number of the review.", lambda request: visible_campaigns(request.user))


class ReviewList(ListEndpoint):
    rows = Reviews
    rules = {"POST": check_administrator}
    operation = (
        "reviews_list",
        TAG,
        "List reviews",
        "Sorted by number, newest first. Other accounts than administrators, approvers and auditors see only the reviews in "
        "which they have items.",
    )

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
        campaign = create_campaign(author=author, options=CampaignOptions(**data))
        response = created_response(_shown(request, campaign), f"{ROOT}/reviews/{campaign.pk}")
        response.status_code = 202
        return response


class ReviewDetail(Endpoint):
    resource = REVIEW
    rules = {"GET": any_account}

    @api_operation(
        "reviews_retrieve",
        TAG,
        "Read a review",
        "The counts are those of the items that the caller sees.",
        responses={200: ReviewSerializer},
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(_shown(request, self.object))


class ReviewRetry(Endpoint):
    resource = REVIEW
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
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        author = author_of(request, self.body(ReviewReasonSerializer)["reason"])
        campaign = retry_campaign(author=author, number=number)
        return Response(_shown(request, campaign), status=202)


class ReviewCancellation(Endpoint):
    resource = REVIEW
    rules = {"POST": check_administrator}

    @api_operation(
        "reviews_cancel",
        TAG,
        "Cancel a review",
        "Its answers have no effect, and it does not recur.",
        request=ReviewReasonSerializer,
        request_example={"reason": "the scope was wrong"},
        responses={200: ReviewSerializer},
        response_example={"state": "cancelled"},
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        author = author_of(request, self.body(ReviewReasonSerializer)["reason"])
        return Response(_shown(request, cancel_campaign(author=author, number=number)))


class ReviewFinish(Endpoint):
    resource = REVIEW
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
        response_example={"state": "finishing"},
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        author = author_of(request, self.body(ReviewReasonSerializer)["reason"])
        campaign = request_finish(author=author, number=number)
        return Response(_shown(request, campaign), status=202)


class ReviewBundle(Endpoint):
    resource = REVIEW
    rules = {"GET": check_can_see_all}
    renderer_classes = [ZipRenderer]

    @api_operation(
        "reviews_bundle",
        TAG,
        "Download the evidence of a review",
        "A signed ZIP file with all items, answers, reviewers and plans. `manage.py verify_evidence` verifies it without a "
        "database. Returns 409 until the review is finished.",
        responses={(200, "application/zip"): FILE},
        errors=[409, 410],
    )
    def get(self, request: Request, number: int) -> StreamingHttpResponse:
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


def _shown(request: Request, campaign: Campaign) -> dict:
    """Return a review as the caller sees it."""
    return Reviews(request.user).members([campaign])[0]
