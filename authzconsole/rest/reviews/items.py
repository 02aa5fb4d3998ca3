"""The REST resources of items: list, download and answer them, move them to other reviewers, and sign off."""

from collections.abc import Mapping

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.rest.framework.callers import any_account, author_of, check_can_see_all
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import FILE, api_operation
from authzconsole.rest.framework.renderers import CsvRenderer, JsonLinesRenderer
from authzconsole.rest.reviews.campaigns import REVIEW_PATH, TAG, review_or_404
from authzconsole.rest.reviews.serializers import (
    ITEM_EXAMPLE,
    AnswerOutcomeSerializer,
    AssignmentSerializer,
    ItemsFileQuery,
    ReviewAnswerSerializer,
    ReviewItemSerializer,
    ReviewItemsQuery,
    SignOffSerializer,
)
from authzconsole.reviews.execution import sign_off_share
from authzconsole.reviews.item_rows import item_as_json, items_response, stream_items
from grants.models.reviews import Campaign, ReviewItem
from grants.reviews.answers import UNDO, ItemSelection, answer_items, assign_items, preview_answer
from grants.reviews.finishing import gone_items
from grants.reviews.removals import load_current_removal, with_current_removal
from grants.reviews.selection import matching_items, parse_filter, visible_items

_PAGE_MEMBERS = ("limit", "cursor")
_ITEM_PAGE = page_serializer(ReviewItemSerializer)


class ReviewItems(Endpoint):
    rules = {"GET": any_account}
    queries = {"GET": ReviewItemsQuery}

    @api_operation(
        "reviews_items",
        TAG,
        "List items",
        "Sorted by number. Reviewers see their own items; administrators, approvers and auditors see all.",
        query=ReviewItemsQuery,
        responses={200: _ITEM_PAGE},
        response_example={"items": [ITEM_EXAMPLE], "next": None},
        errors=[404],
        parameters=[REVIEW_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        campaign = review_or_404(request, number)
        rows = _items(request, campaign, self.query).select_related("reviewer")
        page = page_of(
            [ListPart(rows, ("place",))],
            lambda row: row,
            query=self.query,
            identity=list_identity(f"reviews/{number}/items", self.query),
        )
        load_current_removal(page["items"], campaign)
        return Response(page | {"items": [item_as_json(item) for item in page["items"]]})


class GoneItems(Endpoint):
    rules = {"GET": check_can_see_all}
    queries = {"GET": PageQuery}

    @api_operation(
        "reviews_gone",
        TAG,
        "List items that are gone",
        "The items of the previous review that this one no longer contains. For administrators, approvers and auditors.",
        query=PageQuery,
        responses={200: _ITEM_PAGE},
        response_example={"items": [ITEM_EXAMPLE | {"answer": "revoke"}], "next": None},
        errors=[404],
        parameters=[REVIEW_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        rows = gone_items(review_or_404(request, number)).select_related("reviewer")
        return Response(
            page_of(
                [ListPart(rows, ("pk",))],
                item_as_json,
                query=self.query,
                identity=list_identity(f"reviews/{number}/gone", self.query),
            )
        )


class ItemsFile(Endpoint):
    """The items as a file. Subclasses define the format."""

    rules = {"GET": any_account}
    queries = {"GET": ItemsFileQuery}

    def stream(self, request: Request, number: int, extension: str, media_type: str) -> StreamingHttpResponse:
        campaign = review_or_404(request, number)
        rows = stream_items(with_current_removal(_items(request, campaign, self.query), campaign))
        return items_response(rows, campaign, extension, media_type)


class ItemsCsv(ItemsFile):
    renderer_classes = [CsvRenderer]

    @api_operation(
        "reviews_items_csv",
        TAG,
        "Download items as CSV",
        "The items that the caller sees.",
        query=ItemsFileQuery,
        responses={(200, "text/csv"): FILE},
        errors=[404],
        parameters=[REVIEW_PATH],
    )
    def get(self, request: Request, number: int) -> StreamingHttpResponse:
        return self.stream(request, number, "csv", CsvRenderer.media_type)


class ItemsJsonLines(ItemsFile):
    renderer_classes = [JsonLinesRenderer]

    @api_operation(
        "reviews_items_jsonl",
        TAG,
        "Download items as JSON Lines",
        "The items that the caller sees.",
        query=ItemsFileQuery,
        responses={(200, "application/x-ndjson"): FILE},
        errors=[404],
        parameters=[REVIEW_PATH],
    )
    def get(self, request: Request, number: int) -> StreamingHttpResponse:
        return self.stream(request, number, "jsonl", JsonLinesRenderer.media_type)


class Answers(Endpoint):
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
        errors=[404, 409],
        parameters=[REVIEW_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        campaign, data = review_or_404(request, number), self.body(ReviewAnswerSerializer)
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
        errors=[404, 409],
        parameters=[REVIEW_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        campaign, data = review_or_404(request, number), self.body(AssignmentSerializer)
        outcome = assign_items(
            author=author_of(request),
            campaign=campaign,
            selection=_selection(data),
            reviewer=data.get("reviewer", ""),
            comment=data["comment"],
        )
        return Response({"count": outcome.count, "own": outcome.own, "sentence": outcome.sentence})


class SignOff(Endpoint):
    rules = {"POST": any_account}

    @api_operation(
        "reviews_sign_off",
        TAG,
        "Sign off",
        "Signs off the caller's items, which must all have an answer. When all reviewers have signed off, the review is "
        "finished.",
        responses={200: SignOffSerializer},
        response_example={"finished": False},
        errors=[404, 409],
        parameters=[REVIEW_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        self.check_empty_body()
        return Response(
            {"finished": sign_off_share(author=author_of(request), campaign=review_or_404(request, number))}
        )


def _items(request: Request, campaign: Campaign, query: Mapping) -> QuerySet[ReviewItem]:
    """Return the items that the caller sees and that meet the filter in the query."""
    filter_ = parse_filter({name: value for name, value in query.items() if name not in _PAGE_MEMBERS})
    return matching_items(visible_items(request.user, campaign), filter_)


def _selection(data: Mapping) -> ItemSelection:
    if "items" in data:
        return ItemSelection(numbers=data["items"])
    return ItemSelection(filter=parse_filter(data["filter"]))
