"""The REST resource `journal`: read the journal and verify its hash chain."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.callers import any_account, check_journal_reader
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.fields import (
    AddressText,
    Choice,
    PrincipalText,
    QueryInteger,
    StrictSerializer,
    Text,
    Time,
)
from authzconsole.rest.openapi.operations import api_operation
from authzconsole.server.waiting import CAN_WAIT, WAIT_HEADER
from grants.authority.rights import can_read_history
from grants.journal import ACTIONS, MAX_LINES_PER_PROOF, current_head, read_only_reason, verify_part
from grants.journal_queries import custom_query_plan, journal_lines
from grants.models import JournalLine

TAG = "Journal"
MAX_WAIT_SECONDS = 30


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
        help_text="Which members the hash covers. In format 1, `caller_request_id`, `token`, `issuer` and `format` are not."
    )
    key_id = serializers.CharField(
        help_text="The key of the signature; empty in lines before the journal had keys."
    )
    mac = serializers.CharField(help_text="The HMAC-SHA-256 of `hash` with this key.")
    hash = serializers.CharField(
        help_text="The SHA-256 of the hash of the previous line and the other members of this line."
    )


class BreakSerializer(serializers.Serializer):
    revision = serializers.IntegerField()
    sentence = serializers.CharField()


class ProofSerializer(serializers.Serializer):
    holds = serializers.BooleanField(help_text="Whether the verified lines are intact.")
    revision = serializers.IntegerField(help_text="The newest revision.")
    first_break = BreakSerializer(allow_null=True)
    verified_to = serializers.IntegerField(help_text="The last verified line.")
    next = serializers.IntegerField(
        allow_null=True,
        help_text="Send this as `after` to verify the following lines; null at the end of the journal.",
    )
    head_hash = serializers.CharField(help_text="The hash of the newest line.")
    key_id = serializers.CharField(help_text="The key that signed the head of the journal.")
    read_only_reason = serializers.CharField(
        help_text="Why nothing can be changed, such as a missing key; otherwise empty."
    )


class ProofQuery(StrictSerializer):
    after = QueryInteger(
        required=False, default=0, max_value=2**62, help_text="Verify the lines after this revision."
    )


class JournalQuery(PageQuery):
    principal = PrincipalText(required=False)
    entity = AddressText(required=False)
    actor = Text(required=False, max_length=150, help_text="The account or command that made the change.")
    action = Choice(choices=ACTIONS, required=False, help_text="Only lines of this action.")
    request_id = Text(
        required=False, max_length=200, help_text="Only lines of the request with this id of the console."
    )
    caller_request_id = Text(
        required=False,
        max_length=200,
        help_text="Only lines of requests with this X-Request-ID of the caller.",
    )
    since = Time(required=False, help_text="Only lines at or after this time.")
    until = Time(required=False, help_text="Only lines before this time.")
    from_revision = QueryInteger(required=False, help_text="Only lines from this revision.")
    to_revision = QueryInteger(required=False, help_text="Only lines up to this revision.")
    after = QueryInteger(
        required=False, max_value=2**62, help_text="Only lines after this revision, oldest first."
    )
    wait = QueryInteger(
        required=False,
        max_value=MAX_WAIT_SECONDS,
        help_text=(
            "With `after`: wait up to this many seconds for a line if there is none. The response can be empty earlier."
        ),
    )

    def validate(self, data: dict) -> dict:
        if "wait" in data and "after" not in data:
            raise serializers.ValidationError({"wait": ["this needs `after`"]})
        return data


FILTERS = ("principal", "actor", "action", "request_id", "caller_request_id", "since", "until")
LINE_EXAMPLE = {
    "revision": 812,
    "at": "2026-02-01T08:00:00Z",
    "actor": "admin",
    "action": "grant",
    "principal": "user:sofia.lindqvist",
    "entity": "dataset:sales.orders",
    "privilege": "READ",
    "detail": "",
    "reason": "quarterly close",
    "request_id": "5f0c1d3c6e7a4f1f9a8f2b7f3f0c9d11",
    "caller_request_id": "",
    "token": 3,
    "issuer": "admin",
    "format": 2,
    "hash": "0" * 64,
    "key_id": "5f0c1d3c6e7a4f1f",
    "mac": "0" * 64,
}


class Journal(Endpoint):
    rules = {"GET": any_account}
    queries = {"GET": JournalQuery}

    @api_operation(
        "journal_list",
        TAG,
        "Read the journal",
        "Newest first, or with `after` oldest first. To follow the journal, send the last revision as `after` with `wait`. For "
        "administrators and auditors; data stewards read the lines about one `entity` in their namespaces.",
        query=JournalQuery,
        responses={200: page_serializer(LineSerializer)},
        response_example={"items": [LINE_EXAMPLE], "next": None},
    )
    def get(self, request: Request) -> Response:
        if "entity" not in self.query or not can_read_history(request.user, self.query["entity"]):
            check_journal_reader(request)
        query = {name: value for name, value in self.query.items() if name != "wait"}
        # read before the lines, so that no line is missed while the request waits
        revision = current_head().revision if self.query.get("wait") else 0
        filters = {name: query[name] for name in FILTERS if name in query}
        rows = journal_lines(**filters, entity=str(query.get("entity", "")))
        for name, lookup in (
            ("from_revision", "place__gte"),
            ("to_revision", "place__lte"),
            ("after", "place__gt"),
        ):
            rows = rows.filter(**{lookup: query[name]}) if name in query else rows
        with custom_query_plan():
            order = ("place",) if "after" in query else ("-place",)
            page = page_of(
                [ListPart(rows, order)], _line_as_json, query=query, identity=list_identity("journal", query)
            )
        response = Response(page)
        if self.query.get("wait") and not page["items"] and CAN_WAIT in request.META:
            response[WAIT_HEADER] = f"{revision};{self.query['wait']}"
        return response


class JournalProof(Endpoint):
    rules = {"GET": check_journal_reader}
    queries = {"GET": ProofQuery}

    @api_operation(
        "journal_prove",
        TAG,
        "Verify the journal",
        f"Verifies the hashes and signatures of at most {MAX_LINES_PER_PROOF:,} lines. Send `next` of the response as `after` to "
        "continue. `manage.py verify_journal` also compares the journal with the tables. For administrators and auditors.",
        query=ProofQuery,
        responses={200: ProofSerializer},
        response_example={
            "holds": True,
            "revision": 812,
            "first_break": None,
            "verified_to": 812,
            "next": None,
            "head_hash": "0" * 64,
            "key_id": "5f0c1d3c6e7a4f1f",
            "read_only_reason": "",
        },
    )
    def get(self, request: Request) -> Response:
        head, proof = current_head(), verify_part(self.query["after"])
        chain_break = proof.chain_break
        return Response(
            {
                "holds": chain_break is None,
                "revision": head.revision,
                "first_break": {"revision": chain_break.revision, "sentence": chain_break.sentence}
                if chain_break
                else None,
                "verified_to": proof.verified_to,
                "next": None if proof.is_complete or chain_break else proof.verified_to,
                "head_hash": head.hash,
                "key_id": head.key_id,
                "read_only_reason": read_only_reason(),
            }
        )


def _line_as_json(line: JournalLine) -> dict:
    return {name: getattr(line, name) for name in (*JournalLine.HASHED, "hash", "key_id", "mac")} | {
        "at": as_json_time(line.at)
    }
