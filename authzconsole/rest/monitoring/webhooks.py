"""The REST resource `webhooks`: endpoints that receive journal lines, and their dead letters."""

from django.views.decorators.debug import sensitive_variables
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.webhooks.events import secret_of
from authzconsole.common.webhooks.services import (
    MAX_WEBHOOKS,
    create_webhook,
    delete_webhook,
    enable_webhook,
    replay_dead_letters,
)
from authzconsole.models import DeadLetter, Webhook
from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.callers import (
    author_of,
    changeable_with,
    check_journal_reader,
    check_recent_authentication,
)
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint, created_response
from authzconsole.rest.framework.fields import (
    MAX_INTEGER,
    Boolean,
    Choice,
    List,
    StrictSerializer,
    Text,
    reason_field,
)
from authzconsole.rest.framework.locations import webhook_location
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.openapi.operations import LOCATION, api_operation, path_parameter
from authzconsole.rest.people.users import OutcomeSerializer
from grants.journal import ACTIONS, current_revision
from grants.roles.capabilities import Capability

check_settings_manager = changeable_with(Capability.MANAGE_SETTINGS)

TAG = "Journal"
WEBHOOK_PATH = path_parameter("number", "The number of the webhook.", int)


class WebhookSerializer(serializers.Serializer):
    number = serializers.IntegerField()
    url = serializers.CharField()
    actions = serializers.ListField(
        child=serializers.CharField(), help_text="The journal actions that it receives; empty: all."
    )
    enabled = serializers.BooleanField()
    position = serializers.IntegerField(
        help_text="The revision of the last line that was delivered, skipped or given up."
    )
    delivered = serializers.IntegerField(help_text="The number of delivered lines.")
    delivered_at = serializers.DateTimeField(allow_null=True)
    failed_attempts = serializers.IntegerField(
        help_text="The number of failed attempts to deliver the next line."
    )
    error = serializers.CharField(help_text="The reason of the last failed attempt; empty after a success.")
    dead_letters = serializers.IntegerField(help_text="The number of lines that the endpoint did not accept.")
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()


class WebhooksSerializer(serializers.Serializer):
    items = WebhookSerializer(many=True)


class NewWebhookSerializer(WebhookSerializer):
    secret = serializers.CharField(help_text="The secret of the signatures. Only this response contains it.")


class WebhookCreationSerializer(StrictSerializer):
    """An endpoint, and the journal actions that it receives."""

    url = Text(max_length=500, help_text="The URL; https, unless WEBHOOK_ALLOW_HTTP is on.")
    actions = List(
        child=Choice(choices=list(ACTIONS)),
        required=False,
        default=list,
        max_length=len(ACTIONS),
        help_text="Only journal lines with these actions; by default all.",
    )
    reason = reason_field()


class WebhookChangeSerializer(StrictSerializer):
    """The new state of a webhook. An enabled webhook continues where it stopped."""

    enabled = Boolean(help_text="Whether the webhook sends lines.")
    reason = reason_field()


class ReasonSerializer(StrictSerializer):
    """Why it is done."""

    reason = reason_field()


class DeadLetterSerializer(serializers.Serializer):
    revision = serializers.IntegerField(help_text="The revision of the journal line.")
    at = serializers.DateTimeField(help_text="When it was given up.")
    error = serializers.CharField(help_text="The reason of the last failed attempt.")
    sent_again = serializers.BooleanField(help_text="Whether it waits to be sent again.")


class RedeliverySerializer(serializers.Serializer):
    count = serializers.IntegerField(help_text="The number of dead letters that are sent again.")


EXAMPLE = {
    "number": 2,
    "url": "https://siem.example.com/hook",
    "actions": ["grant", "revoke"],
    "enabled": True,
    "position": 4711,
    "delivered": 120,
    "delivered_at": "2026-02-01T08:00:00Z",
    "failed_attempts": 0,
    "error": "",
    "dead_letters": 0,
    "created_by": "admin",
    "created_at": "2026-01-01T08:00:00Z",
}


class Webhooks(Endpoint):
    rules = {"GET": check_journal_reader, "POST": check_settings_manager}

    @api_operation(
        "webhooks_list",
        TAG,
        "List webhooks",
        f"Sorted by number; there are at most {MAX_WEBHOOKS}. For administrators and auditors.",
        responses={200: WebhooksSerializer},
        response_example={"items": [EXAMPLE]},
    )
    def get(self, request: Request) -> Response:
        return Response({"items": [_as_json(webhook) for webhook in Webhook.objects.order_by("pk")]})

    @api_operation(
        "webhooks_create",
        TAG,
        "Create a webhook",
        "It receives the journal lines from now on, as signed CloudEvents. Only this response contains the secret of the "
        "signatures. Location is the URL of the webhook.",
        request=WebhookCreationSerializer,
        request_example={
            "url": "https://siem.example.com/hook",
            "actions": ["grant", "revoke"],
            "reason": "for the SIEM",
        },
        responses={201: NewWebhookSerializer},
        response_example=EXAMPLE | {"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
        parameters=[LOCATION],
    )
    @sensitive_variables("content")
    def post(self, request: Request) -> Response:
        check_recent_authentication(request)
        data = self.body(WebhookCreationSerializer)
        webhook = create_webhook(
            author=author_of(request, data["reason"]), url=data["url"], actions=data["actions"]
        )
        content = _as_json(webhook) | {"secret": secret_of(webhook)}
        return created_response(content, webhook_location(webhook.pk))


class WebhookDetail(Endpoint):
    rules = {"GET": check_journal_reader, "PATCH": check_settings_manager, "DELETE": check_settings_manager}
    queries = {"DELETE": ReasonSerializer}

    @api_operation(
        "webhooks_retrieve",
        TAG,
        "Read a webhook",
        "For administrators and auditors.",
        responses={200: WebhookSerializer},
        response_example=EXAMPLE,
        errors=[404],
        parameters=[WEBHOOK_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(_as_json(_webhook_or_404(number)))

    @api_operation(
        "webhooks_change",
        TAG,
        "Enable or disable a webhook",
        "An enabled webhook continues where it stopped.",
        request=WebhookChangeSerializer,
        request_example={"enabled": False, "reason": "maintenance of the SIEM"},
        responses={200: WebhookSerializer},
        response_example=EXAMPLE | {"enabled": False},
        errors=[404],
        parameters=[WEBHOOK_PATH],
    )
    def patch(self, request: Request, number: int) -> Response:
        _webhook_or_404(number)
        check_recent_authentication(request)
        data = self.body(WebhookChangeSerializer)
        enable_webhook(author=author_of(request, data["reason"]), number=number, is_enabled=data["enabled"])
        return Response(_as_json(_webhook_or_404(number)))

    @api_operation(
        "webhooks_delete",
        TAG,
        "Delete a webhook",
        "Also deletes its dead letters.",
        query=ReasonSerializer,
        responses={200: OutcomeSerializer},
        response_example={"changed": True, "sentence": "webhook 2 was deleted", "revision": 4712},
        errors=[404],
        parameters=[WEBHOOK_PATH],
    )
    def delete(self, request: Request, number: int) -> Response:
        _webhook_or_404(number)
        check_recent_authentication(request)
        delete_webhook(author=author_of(request, self.query["reason"]), number=number)
        return Response(
            {"changed": True, "sentence": f"webhook {number} was deleted", "revision": current_revision()}
        )


class DeadLetters(Endpoint):
    rules = {"GET": check_journal_reader}
    queries = {"GET": PageQuery}

    @api_operation(
        "webhooks_dead_letters",
        TAG,
        "List dead letters",
        "The journal lines that the endpoint did not accept, oldest first. For administrators and auditors.",
        query=PageQuery,
        responses={200: page_serializer(DeadLetterSerializer)},
        response_example={
            "items": [
                {"revision": 4700, "at": "2026-02-01T08:00:00Z", "error": "status 500", "sent_again": False}
            ],
            "next": None,
        },
        errors=[404],
        parameters=[WEBHOOK_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        rows = DeadLetter.objects.filter(webhook=_webhook_or_404(number))
        return Response(
            page_of(
                [ListPart(rows, ("revision",))],
                _dead_letter_as_json,
                query=self.query,
                identity=list_identity(f"webhooks/{number}/dead-letters", self.query),
            )
        )


class Redelivery(Endpoint):
    rules = {"POST": check_settings_manager}

    @api_operation(
        "webhooks_redeliver",
        TAG,
        "Send the dead letters again",
        "All dead letters of the webhook are sent before new lines.",
        request=ReasonSerializer,
        request_example={"reason": "the SIEM works again"},
        responses={200: RedeliverySerializer},
        response_example={"count": 12},
        errors=[404],
        parameters=[WEBHOOK_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        _webhook_or_404(number)
        check_recent_authentication(request)
        data = self.body(ReasonSerializer)
        count = replay_dead_letters(author=author_of(request, data["reason"]), number=number)
        return Response({"count": count})


def _webhook_or_404(number: int) -> Webhook:
    webhook = Webhook.objects.filter(pk=number).first() if number <= MAX_INTEGER else None
    if webhook is None:
        raise Problem(404, f"there is no webhook with the number {number}")
    return webhook


def _as_json(webhook: Webhook) -> dict:
    return {
        "number": webhook.pk,
        "url": webhook.url,
        "actions": webhook.actions.split(),
        "enabled": webhook.is_enabled,
        "position": webhook.position,
        "delivered": webhook.delivered,
        "delivered_at": as_json_time(webhook.delivered_at),
        "failed_attempts": webhook.attempts,
        "error": webhook.error,
        "dead_letters": webhook.dead_letters.count(),
        "created_by": webhook.created_by,
        "created_at": as_json_time(webhook.created_at),
    }


def _dead_letter_as_json(letter: DeadLetter) -> dict:
    return {
        "revision": letter.revision,
        "at": as_json_time(letter.at),
        "error": letter.error,
        "sent_again": letter.is_replayed,
    }
