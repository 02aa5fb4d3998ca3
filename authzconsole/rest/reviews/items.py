"""The REST resources of items: list, download and answer them, move them to other reviewers, and sign off."""

from collections.abc import Mapping
from typing import Any

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.lists.reviews import GoneItems, ReviewItems
from authzconsole.rest.framework.callers import any_account, author_of
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.lists import RENDERERS, Download, ListEndpoint
from authzconsole.rest.framework.operations import api_operation
from authzconsole.rest.reviews.campaigns import REVIEW, TAG
from authzconsole.rest.reviews.serializers import (
    AnswerOutcomeSerializer,
    AssignmentSerializer,
    ReviewAnswerSerializer,
    SignOffSerializer,
)
from authzconsole.reviews.execution import sign_off_share
from authzconsole.reviews.item_rows import items_response, stream_items
from grants.reviews.answers import UNDO, ItemSelection, answer_items, assign_items, preview_answer
from grants.reviews.removals import with_current_removal
from grants.reviews.selection import parse_filter


class ReviewItemList(ListEndpoint):
    rows = ReviewItems
    resource = REVIEW
    operation = (
        "reviews_items",
        TAG,
        "List items",
        "Sorted by number. Reviewers see their own items; administrators, approvers and auditors see all.",
    )


class GoneItemList(ListEndpoint):
    rows = GoneItems
    resource = REVIEW
    operation = (
        "reviews_gone",
        TAG,
        "List items that are gone",
        "The items of the previous review that this one no longer contains. For administrators, approvers and auditors.",
    )


class ItemFiles(Download):
    rows = ReviewItems
    resource = REVIEW
    operation = "reviews_items", TAG, "items", "The items that the caller sees."
    lines = {"csv": "", "jsonl": ""}

    def file(self, request: Request, extension: str, **path: Any) -> HttpResponseBase:
        rows = with_current_removal(self.read_list(request, **path).select(), self.object)
        return items_response(stream_items(rows), self.object, extension, RENDERERS[extension].media_type)


class Answers(Endpoint):
    resource = REVIEW
    rules = {"POST": any_account}

    @api_operation(
        "reviews_answer",
        TAG,
        "Answer items",
        "Gives the same answer to the selected items; `undo` removes their answers. With `dry_run`, returns the counts and "
        "changes nothing. Items that the caller may not answer are left out.",
        request=ReviewAnswerSerializer,
        request_example={"items": [812, 813], "answer": "keep", "comment": "still in the team"},
        responses={200: AnswerOutcomeSerializer},
        response_example={"count": 2, "own": 0, "sentence": "kept 2 items"},
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        campaign, data = self.object, self.body(ReviewAnswerSerializer)
        selection = _selection(data)
        if data["dry_run"]:
            preview = preview_answer(account=request.user, campaign=campaign, selection=selection)
            return Response(
                {
                    "count": preview.count,
                    "own": preview.own,
                    "answered": preview.answered,
                    "strands": preview.strands,
                }
            )
        outcome = answer_items(
            author=author_of(request),
            campaign=campaign,
            selection=selection,
            new_until=data.get("until"),
            answer="" if data["answer"] == UNDO else data["answer"],
            comment=data["comment"],
        )
        return Response({"count": outcome.count, "own": outcome.own, "sentence": outcome.sentence})


class Assignments(Endpoint):
    resource = REVIEW
    rules = {"POST": any_account}

    @api_operation(
        "reviews_assign",
        TAG,
        "Move items to another reviewer",
        "Reviewers return items to the escalation; administrators and approvers can also name a reviewer. Answers of the items "
        "are removed.",
        request=AssignmentSerializer,
        request_example={"items": [812], "comment": "I do not know this dataset"},
        responses={200: AnswerOutcomeSerializer},
        response_example={"count": 1, "own": 0, "sentence": "moved 1 item to the escalation"},
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        campaign, data = self.object, self.body(AssignmentSerializer)
        outcome = assign_items(
            author=author_of(request),
            campaign=campaign,
            selection=_selection(data),
            reviewer=data.get("reviewer", ""),
            comment=data["comment"],
        )
        return Response({"count": outcome.count, "own": outcome.own, "sentence": outcome.sentence})


class SignOff(Endpoint):
    resource = REVIEW
    rules = {"POST": any_account}

    @api_operation(
        "reviews_sign_off",
        TAG,
        "Sign off",
        "Signs off the caller's items, which must all have an answer. When all reviewers have signed off, the review is "
        "finished.",
        responses={200: SignOffSerializer},
        response_example={"finished": False},
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        self.check_empty_body()
        return Response({"finished": sign_off_share(author=author_of(request), campaign=self.object)})


def _selection(data: Mapping) -> ItemSelection:
    if "items" in data:
        return ItemSelection(numbers=data["items"])
    return ItemSelection(filter=parse_filter(data["filter"]))
