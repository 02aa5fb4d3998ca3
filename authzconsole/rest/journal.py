"""The REST resource `journal`: read the journal and verify its hash chain."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.callers import check_can_see_all
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.fields import AddressText, Choice, PrincipalText, QueryInteger, Text, Time
from authzconsole.rest.openapi.operations import api_operation
from grants.journal import ACTIONS, current_revision, first_break
from grants.journal_queries import custom_query_plan, journal_lines
from grants.models import JournalLine

TAG = "Journal"


class LineSerializer(serializers.Serializer):
    revision = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    action = serializers.CharField()
    principal = serializers.CharField()
    entity = serializers.CharField()
    privilege = serializers.CharField()
    detail = serializers.CharField()
    reason = serializers.CharField()
    request_id = serializers.CharField(help_text="The id that the console gave to the request.")
    caller_request_id = serializers.CharField(help_text="The X-Request-ID of the caller.")
    token = serializers.IntegerField(allow_null=True, help_text="The number of the API token of the request.")
    issuer = serializers.CharField(help_text="The account or command that created the token.")
    format = serializers.IntegerField(
        help_text="Which members the hash covers. In format 1, `caller_request_id`, `token`, `issuer` and `format` are not.")
    hash = serializers.CharField(help_text="The SHA-256 of the hash of the previous line and the other members of this line.")


class BreakSerializer(serializers.Serializer):
    revision = serializers.IntegerField()
    sentence = serializers.CharField()


class ProofSerializer(serializers.Serializer):
    holds = serializers.BooleanField()
    revision = serializers.IntegerField(help_text="The newest revision.")
    first_break = BreakSerializer(allow_null=True)


class JournalQuery(PageQuery):
    principal = PrincipalText(required=False)
    entity = AddressText(required=False)
    actor = Text(required=False, max_length=150, help_text="The account or command that made the change.")
    action = Choice(choices=ACTIONS, required=False, help_text="Only lines of this action.")
    since = Time(required=False, help_text="Only lines at or after this time.")
    until = Time(required=False, help_text="Only lines before this time.")
    from_revision = QueryInteger(required=False, help_text="Only lines from this revision.")
    to_revision = QueryInteger(required=False, help_text="Only lines up to this revision.")


LINE_EXAMPLE = {
    "revision": 812, "at": "2026-02-01T08:00:00Z", "actor": "admin", "action": "grant",
    "principal": "user:sofia.lindqvist", "entity": "dataset:sales.orders", "privilege": "READ", "detail": "",
    "reason": "quarterly close", "request_id": "5f0c1d3c6e7a4f1f9a8f2b7f3f0c9d11", "caller_request_id": "",
    "token": 3, "issuer": "admin", "format": 2, "hash": "0" * 64,
}


class Journal(Endpoint):
    queries = {"GET": JournalQuery}

    @api_operation(
        "journal_list", TAG, "Read the journal", "Newest first. For administrators and auditors.",
        query=JournalQuery, responses={200: page_serializer(LineSerializer)},
        response_example={"items": [LINE_EXAMPLE], "next": None})
    def get(self, request: Request) -> Response:
        check_can_see_all(request)
        query = self.query
        filters = {name: query[name] for name in ("principal", "actor", "action", "since", "until") if name in query}
        rows = journal_lines(**filters, entity=str(query.get("entity", "")))
        for name, lookup in (("from_revision", "place__gte"), ("to_revision", "place__lte")):
            rows = rows.filter(**{lookup: query[name]}) if name in query else rows
        with custom_query_plan():
            page = page_of([ListPart(rows, ("-place",))], _line_as_json, query=query, identity=list_identity("journal", query))
        return Response(page)


class Proof(Endpoint):
    @api_operation(
        "journal_prove", TAG, "Verify the journal",
        "Verifies the hash chain from the first line to the last. This takes about a second per 100,000 lines. For "
        "administrators and auditors.",
        responses={200: ProofSerializer}, response_example={"holds": True, "revision": 812, "first_break": None})
    def get(self, request: Request) -> Response:
        check_can_see_all(request)
        revision, journal_break = current_revision(), first_break()
        break_as_json = {"revision": journal_break.revision, "sentence": journal_break.sentence} if journal_break else None
        return Response({"holds": journal_break is None, "revision": revision, "first_break": break_as_json})


def _line_as_json(line: JournalLine) -> dict:
    return {name: getattr(line, name) for name in (*JournalLine.HASHED, "hash")} | {"at": as_json_time(line.at)}
