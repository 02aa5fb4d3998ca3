"""Download access requests as CSV and JSON Lines."""

from collections.abc import Iterator

from django.http import StreamingHttpResponse
from rest_framework.request import Request

from authzconsole.common.downloads.request_files import request_file
from authzconsole.rest.access_requests.requests import TAG
from authzconsole.rest.access_requests.serializers import ListFilters, summary_as_json
from authzconsole.rest.framework.callers import any_account
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import FILE, api_operation
from authzconsole.rest.framework.renderers import CsvRenderer, JsonLinesRenderer
from grants.models import AccessRequest, User
from grants.requests.approvers import approver_scope, listed_requests
from grants.requests.disclosure import listed_parts

REQUESTS_PER_READ = 500
ABOUT = (
    "The requests of the list, newest first, with the parts that the list on the page Requests would name: a part in no "
    "namespace of the caller is left out, even if the caller decides about it."
)


class _RequestFile(Endpoint):
    rules = {"GET": any_account}
    queries = {"GET": ListFilters}

    def get(self, request: Request) -> StreamingHttpResponse:
        return request_file(_rows(request.user, self.query), self.renderer_classes[0].format)


class AccessRequestsCsv(_RequestFile):
    renderer_classes = [CsvRenderer]

    @api_operation(
        "access_requests_csv",
        TAG,
        "Download access requests as CSV",
        f"An apostrophe precedes values that a spreadsheet would treat as a formula. {ABOUT}",
        query=ListFilters,
        responses={(200, "text/csv"): FILE},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        return super().get(request)


class AccessRequestsJsonLines(_RequestFile):
    renderer_classes = [JsonLinesRenderer]

    @api_operation(
        "access_requests_jsonl",
        TAG,
        "Download access requests as JSON Lines",
        ABOUT,
        query=ListFilters,
        responses={(200, "application/x-ndjson"): FILE},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        return super().get(request)


def _rows(account: User, query: dict) -> Iterator[dict]:
    """Yield the requests with their parts.

    Runs two queries, and a few for the account, for each REQUESTS_PER_READ requests.
    """
    scope, last = approver_scope(account), None
    while True:
        rows = (
            listed_requests(account, query["show"], query.get("state", ""))
            .prefetch_related("parts")
            .order_by("-pk")
        )
        batch: list[AccessRequest] = list(
            (rows if last is None else rows.filter(pk__lt=last))[:REQUESTS_PER_READ]
        )
        for row in batch:
            yield summary_as_json(row) | {"parts": [part.title for part in listed_parts(row, scope)]}
        if len(batch) < REQUESTS_PER_READ:
            return
        last = batch[-1].pk
