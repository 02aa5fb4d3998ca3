"""The REST resource `security-events`."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.security_events.kinds import EventKind
from authzconsole.common.security_events.queries import event_as_json, security_events
from authzconsole.rest.framework.callers import readable_with
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.fields import Choice, Text, Time
from authzconsole.rest.openapi.operations import api_operation
from grants.roles.capabilities import Capability


class SecurityEventSerializer(serializers.Serializer):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    account = serializers.CharField(
        help_text="The account that acted; for a failed sign-in, the entered name."
    )
    address = serializers.CharField(help_text="The client address; empty for commands.")
    target = serializers.CharField(help_text="The principal, path or file that the event is about.")
    detail = serializers.CharField()
    request_id = serializers.CharField(help_text="The id that the console gave to the request.")
    token = serializers.IntegerField(allow_null=True, help_text="The number of the API token of the request.")
    count = serializers.IntegerField(help_text="The number of equal events that this one stands for.")


class SecurityEventsQuery(PageQuery):
    kind = Choice(choices=EventKind.values, required=False, help_text="Only events of this kind.")
    account = Text(required=False, max_length=150, help_text="Only events of this account or entered name.")
    address = Text(required=False, max_length=45, help_text="Only events from this client address.")
    since = Time(required=False, help_text="Only events at or after this time.")
    until = Time(required=False, help_text="Only events before this time.")


class SecurityEvents(Endpoint):
    rules = {"GET": readable_with(Capability.READ_SECURITY_EVENTS)}
    queries = {"GET": SecurityEventsQuery}

    @api_operation(
        "security_events_list",
        "Journal",
        "Read the security events",
        "Sign-ins, refused requests, downloads, and changes of tokens, roles and settings. Newest first. For administrators and "
        "auditors.",
        query=SecurityEventsQuery,
        responses={200: page_serializer(SecurityEventSerializer)},
        response_example={
            "items": [
                {
                    "id": 41,
                    "at": "2026-02-01T08:00:00.000Z",
                    "kind": "sign-in-failure",
                    "account": "admin",
                    "address": "192.0.2.7",
                    "target": "",
                    "detail": "",
                    "request_id": "5f0c1d3c6e7a4f1f9a8f2b7f3f0c9d11",
                    "token": None,
                    "count": 1,
                }
            ],
            "next": None,
        },
    )
    def get(self, request: Request) -> Response:
        query = self.query
        filters = ("kind", "account", "address", "since", "until")
        rows = security_events(**{name: query[name] for name in filters if name in query})
        return Response(
            page_of(
                [ListPart(rows, ("-id",))],
                event_as_json,
                query=query,
                identity=list_identity("security-events", query),
            )
        )
