"""The REST resources of items: list, download and answer them, move them to other reviewers, and sign off."""

from collections.abc import Mapping

from django.http.response import HttpResponseBase
from rest_framework.response import Response

from authzconsole.lists.reviews import GoneItems, ReviewItems
from authzconsole.rest.framework.callers import any_account
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.lists import RENDERERS, ListEndpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.reviews.campaigns import REVIEW
from authzconsole.rest.reviews.serializers import (
    AnswerOutcomeSerializer,
    AssignmentSerializer,
    ReviewAnswerSerializer,
    SignOffSerializer,
)
from authzconsole.reviews.item_rows import items_response, stream_items
from grants.reviews.answers import UNDO, ItemSelection, answer_items, assign_items, preview_answer
from grants.reviews.finishing import sign_off_share
from grants.reviews.removals import with_current_removal
from grants.reviews.selection import parse_filter


class ReviewItemList(ListEndpoint):
    """List items.

    Sorted by number. Reviewers see their own items; administrators, approvers and auditors see all.
    """

    route, url_name = "reviews/<int:number>/items", "rest-review-items"
    operation_id = "reviews_items"
    rows = ReviewItems
    resource = REVIEW
    files = {"csv": "", "jsonl": ""}

    def file(self, extension: str) -> HttpResponseBase:
        rows = with_current_removal(self.read_list().select(), self.object)
        return items_response(stream_items(rows), self.object, extension, RENDERERS[extension].media_type)


class GoneItemList(ListEndpoint):
    """List items that are gone.

    The items of the previous review that this one no longer contains. For administrators, approvers and
    auditors.
    """

    route, url_name = "reviews/<int:number>/gone", "rest-review-gone"
    operation_id = "reviews_gone"
    rows = GoneItems
    resource = REVIEW


class Answers(Endpoint):
    route, url_name = "reviews/<int:number>/answers", "rest-review-answers"
    resource = REVIEW

    @operation(
        "reviews_answer",
        any_account,
        AnswerOutcomeSerializer,
        body=ReviewAnswerSerializer,
    )
    def post(self) -> Response:
        """Answer items.

        Gives the same answer to the selected items; `undo` removes their answers. With `dry_run`, returns
        the counts and changes nothing. Items that the caller may not answer are left out.
        """
        campaign, data = self.object, self.data
        selection = _selection(data)
        if data["dry_run"]:
            preview = preview_answer(account=self.request.user, campaign=campaign, selection=selection)
            return Response(
                {
                    "count": preview.count,
                    "own": preview.own,
                    "answered": preview.answered,
                    "strands": preview.strands,
                }
            )
        outcome = answer_items(
            author=self.author,
            campaign=campaign,
            selection=selection,
            new_until=data.get("until"),
            answer="" if data["answer"] == UNDO else data["answer"],
            comment=data["comment"],
        )
        return Response({"count": outcome.count, "own": outcome.own, "sentence": outcome.sentence})


class Assignments(Endpoint):
    route, url_name = "reviews/<int:number>/assignments", "rest-review-assignments"
    resource = REVIEW

    @operation(
        "reviews_assign",
        any_account,
        AnswerOutcomeSerializer,
        body=AssignmentSerializer,
    )
    def post(self) -> Response:
        """Move items to another reviewer.

        Reviewers return items to the escalation; administrators and approvers can also name a reviewer.
        Answers of the items are removed.
        """
        campaign, data = self.object, self.data
        outcome = assign_items(
            author=self.author,
            campaign=campaign,
            selection=_selection(data),
            reviewer=data.get("reviewer", ""),
            comment=data["comment"],
        )
        return Response({"count": outcome.count, "own": outcome.own, "sentence": outcome.sentence})


class SignOff(Endpoint):
    route, url_name = "reviews/<int:number>/sign-off", "rest-review-sign-off"
    resource = REVIEW

    @operation(
        "reviews_sign_off",
        any_account,
        SignOffSerializer,
    )
    def post(self) -> Response:
        """Sign off.

        Signs off the caller's items, which must all have an answer. When all reviewers have signed off,
        the review is finished.
        """
        self.check_empty_body()
        return Response({"finished": sign_off_share(author=self.author, campaign=self.object)})


def _selection(data: Mapping) -> ItemSelection:
    if "items" in data:
        return ItemSelection(numbers=data["items"])
    return ItemSelection(filter=parse_filter(data["filter"]))
