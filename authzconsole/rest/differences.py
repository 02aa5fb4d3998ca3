"""The REST resource `differences`: what differs between two revisions for an entity, a container or a
principal.
"""

from django.http import StreamingHttpResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.downloads.difference_files import difference_as_json, difference_file
from authzconsole.rest.framework.callers import check_journal_reader
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.fields import AddressText, PrincipalText, QueryBoolean, StrictSerializer
from authzconsole.rest.framework.past import AsOf
from authzconsole.rest.framework.renderers import CsvRenderer, JsonLinesRenderer
from authzconsole.rest.openapi.operations import FILE, api_operation
from grants.history.differences import GAINED, LOST, Span, all_differences, as_differences, difference_parts
from grants.journal import current_revision

TAG = "Journal"
ABOUT = (
    "A row is a grant, membership, state or status that holds at one of the revisions and not at the other, whatever "
    "happened in between. For an entity, memberships of groups with a grant on it are included; for a user, the grants of "
    "its groups. For administrators and auditors."
)


class DifferencesFilters(StrictSerializer):
    entity = AddressText(required=False, help_text="The differences of this address.")
    contents = QueryBoolean(
        required=False, default=False, help_text="Also those of everything inside the entity."
    )
    principal = PrincipalText(required=False, help_text="The differences of `user:NAME` or `group:NAME`.")
    since = AsOf(required=True, help_text="The earlier revision or time, such as `2026-02-01T08:00:00Z`.")
    until = AsOf(required=False, help_text="The later revision or time; by default the newest revision.")

    def validate(self, data: dict) -> dict:
        if ("entity" in data) == ("principal" in data):
            raise serializers.ValidationError({"entity": ["send either `entity` or `principal`"]})
        data.setdefault("until", current_revision())
        if data["since"] > data["until"]:
            raise serializers.ValidationError(
                {"since": [f"revision {data['since']:,} is after revision {data['until']:,}"]}
            )
        return data


class DifferencesQuery(PageQuery, DifferencesFilters):
    pass


class DifferenceSerializer(serializers.Serializer):
    change = serializers.ChoiceField(
        [GAINED, LOST], help_text="Whether it holds at the later or at the earlier revision."
    )
    what = serializers.ChoiceField(["grant", "membership", "state", "status"])
    principal = serializers.CharField(help_text="Empty for a state.")
    entity = serializers.CharField(help_text="Empty for a membership or a status.")
    value = serializers.CharField(help_text="The privilege, the group, the state, or the status of a user.")
    revision = serializers.IntegerField(help_text="The line that began or ended it.")
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    reason = serializers.CharField()


EXAMPLE = {
    "change": "gained",
    "what": "grant",
    "principal": "user:sofia.lindqvist",
    "entity": "dataset:sales.orders",
    "value": "READ",
    "revision": 812,
    "at": "2026-02-01T08:00:00Z",
    "actor": "admin",
    "reason": "quarterly close",
}


class Differences(Endpoint):
    rules = {"GET": check_journal_reader}
    queries = {"GET": DifferencesQuery}

    @api_operation(
        "differences_list",
        TAG,
        "List differences between two revisions",
        ABOUT,
        query=DifferencesQuery,
        responses={200: page_serializer(DifferenceSerializer)},
        response_example={"items": [EXAMPLE], "next": None},
    )
    def get(self, request: Request) -> Response:
        query = self.query
        span = _span(query)
        parts = [ListPart(rows, ("pk",)) for rows in _parts(query, span)]
        page = page_of(parts, lambda row: row, query=query, identity=list_identity("differences", query))
        return Response(
            page | {"items": [difference_as_json(row) for row in as_differences(page["items"], span)]}
        )


class _DifferencesFile(Endpoint):
    rules = {"GET": check_journal_reader}
    queries = {"GET": DifferencesFilters}

    def get(self, request: Request) -> StreamingHttpResponse:
        span = _span(self.query)
        return difference_file(
            all_differences(_parts(self.query, span), span), self.renderer_classes[0].format
        )


class DifferencesCsv(_DifferencesFile):
    renderer_classes = [CsvRenderer]

    @api_operation(
        "differences_csv",
        TAG,
        "Download differences between two revisions as CSV",
        f"An apostrophe precedes values that a spreadsheet would treat as a formula. {ABOUT}",
        query=DifferencesFilters,
        responses={(200, "text/csv"): FILE},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        return super().get(request)


class DifferencesJsonLines(_DifferencesFile):
    renderer_classes = [JsonLinesRenderer]

    @api_operation(
        "differences_jsonl",
        TAG,
        "Download differences between two revisions as JSON Lines",
        ABOUT,
        query=DifferencesFilters,
        responses={(200, "application/x-ndjson"): FILE},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        return super().get(request)


def _span(query: dict) -> Span:
    return Span(query["since"], query["until"])


def _parts(query: dict, span: Span) -> list:
    subject = query["entity"] if "entity" in query else query["principal"]
    return difference_parts(subject, span, with_contents=query["contents"])
