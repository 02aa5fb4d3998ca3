"""The REST resource `reviews`: create, read, prepare again, cancel and finish reviews, and download their
evidence.
"""

from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from analytics.storage import StorageError
from authzconsole.common.fields import StrictSerializer, reason_field
from authzconsole.common.zip_files import zip_response
from authzconsole.evidence.bundles import bundle_chunks
from authzconsole.lists.reviews import RECURRENCES, Reviews, ReviewSerializer
from authzconsole.rest.framework.callers import any_account, author_of, check_administrator, check_can_see_all
from authzconsole.rest.framework.endpoint import Endpoint, Resource, created_response
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.locations import ROOT
from authzconsole.rest.framework.operations import FILE, LOCATION, operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.framework.renderers import ZipRenderer
from authzconsole.rest.reviews.serializers import ReviewCreationSerializer
from grants.models.reviews import Campaign, CampaignState
from grants.reviews.campaigns import CampaignOptions, cancel_campaign, create_campaign, retry_campaign
from grants.reviews.finishing import request_finish
from grants.reviews.selection import visible_campaigns


class ReviewReasonSerializer(StrictSerializer):
    """Why the review is prepared again, finished or cancelled."""

    reason = reason_field()


REVIEW = Resource.numbered("The number of the review.", lambda request: visible_campaigns(request.user))


class ReviewList(ListEndpoint):
    """List reviews.

    Sorted by number, newest first. Other accounts than administrators, approvers and auditors see only
    the reviews in which they have items.
    """

    route, url_name = "reviews", "rest-reviews"
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
        return created_response(_shown(self.request, campaign), f"{ROOT}/reviews/{campaign.pk}", status=202)


class ReviewDetail(Endpoint):
    route, url_name = "reviews/<int:number>", "rest-review"
    resource = REVIEW

    @operation(
        "reviews_retrieve",
        any_account,
        ReviewSerializer,
    )
    def get(self) -> Response:
        """Read a review.

        The counts are those of the items that the caller sees.
        """
        return Response(_shown(self.request, self.object))


class ReviewRetry(Endpoint):
    route, url_name = "reviews/<int:number>/retry", "rest-review-retry"
    resource = REVIEW

    @operation(
        "reviews_retry",
        check_administrator,
        {202: ReviewSerializer},
        body=ReviewReasonSerializer,
    )
    def post(self) -> Response:
        """Prepare a failed review again.

        The worker prepares the items from the beginning, and then opens the review. Returns 409 unless
        the state is `failed`, and after the deadline.
        """
        author = self.author
        campaign = retry_campaign(author=author, number=self.object.pk)
        return Response(_shown(self.request, campaign), status=202)


class ReviewCancellation(Endpoint):
    route, url_name = "reviews/<int:number>/cancel", "rest-review-cancel"
    resource = REVIEW

    @operation(
        "reviews_cancel",
        check_administrator,
        ReviewSerializer,
        body=ReviewReasonSerializer,
    )
    def post(self) -> Response:
        """Cancel a review.

        Its answers have no effect, and it does not recur.
        """
        author = self.author
        return Response(_shown(self.request, cancel_campaign(author=author, number=self.object.pk)))


class ReviewFinish(Endpoint):
    route, url_name = "reviews/<int:number>/finish", "rest-review-finish"
    resource = REVIEW

    @operation(
        "reviews_finish",
        check_administrator,
        {202: ReviewSerializer},
        body=ReviewReasonSerializer,
    )
    def post(self) -> Response:
        """Finish a review.

        Ends the answers. The worker then creates the plans with the result, and writes the evidence.
        Nothing changes until the plans are applied.
        """
        author = self.author
        campaign = request_finish(author=author, number=self.object.pk)
        return Response(_shown(self.request, campaign), status=202)


class ReviewBundle(Endpoint):
    route, url_name = "reviews/<int:number>/bundle", "rest-review-bundle"
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


def _shown(request: Request, campaign: Campaign) -> dict:
    """Return a review as the caller sees it."""
    return Reviews(request.user).members([campaign])[0]
