"""The REST resource `webhooks`: endpoints that receive journal lines, and their dead letters."""

from django.views.decorators.debug import sensitive_variables
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import (
    Boolean,
    Choice,
    List,
    StrictSerializer,
    Text,
    reason_field,
)
from authzconsole.common.webhooks.events import secret_of
from authzconsole.common.webhooks.services import (
    MAX_WEBHOOKS,
    create_webhook,
    delete_webhook,
    enable_webhook,
    replay_dead_letters,
)
from authzconsole.lists.journal import DeadLetters
from authzconsole.models import Webhook
from authzconsole.rest.framework.callers import (
    author_of,
    changeable_with,
    check_journal_reader,
    check_recent_authentication,
)
from authzconsole.rest.framework.endpoint import Endpoint, Resource, created_response
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.locations import webhook_location
from authzconsole.rest.framework.operations import LOCATION, api_operation
from authzconsole.rest.people.users import OutcomeSerializer
from grants.journal import ACTIONS, current_revision
from grants.roles.capabilities import Capability

check_settings_manager = changeable_with(Capability.MANAGE_SETTINGS)

TAG = "Journal"


class WebhookSerializer(output.Output):
    number = output.Integer(source="pk", example=2)
    url = output.Text(example="https://siem.example.com/hook")
    actions = output.Texts(
        get=lambda webhook: webhook.actions.split(),
        example=["grant", "revoke"],
        help_text="The journal actions that it receives; empty: all.",
    )
    enabled = output.Boolean(source="is_enabled", example=True)
    position = output.Integer(
        example=4711, help_text="The revision of the last line that was delivered, skipped or given up."
    )
    delivered = output.Integer(example=120, help_text="The number of delivered lines.")
    delivered_at = output.Time(allow_null=True, example=output.TIME_EXAMPLE)
    failed_attempts = output.Integer(
        source="attempts", help_text="The number of failed attempts to deliver the next line."
    )
    error = output.Text(help_text="The reason of the last failed attempt; empty after a success.")
    dead_letters = output.Integer(
        get=lambda webhook: webhook.dead_letters.count(),
        help_text="The number of lines that the endpoint did not accept.",
    )
    created_by = output.Text()
    created_at = output.Time()


class WebhooksSerializer(output.Output):
    items = WebhookSerializer(many=True)


class NewWebhookSerializer(WebhookSerializer):
    secret = output.Text(
        get=secret_of,
        example="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        help_text="The secret of the signatures. Only this response contains it.",
    )


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


class RedeliverySerializer(output.Output):
    count = output.Integer(example=12, help_text="The number of dead letters that are sent again.")


WEBHOOK = Resource.numbered(
    "The number of the webhook.",
    lambda request: Webhook.objects.all(),
    "there is no webhook with the number {}",
)


class Webhooks(Endpoint):
    rules = {"GET": check_journal_reader, "POST": check_settings_manager}

    @api_operation(
        "webhooks_list",
        TAG,
        "List webhooks",
        f"Sorted by number; there are at most {MAX_WEBHOOKS}. For administrators and auditors.",
        responses={200: WebhooksSerializer},
    )
    def get(self, request: Request) -> Response:
        return Response(WebhooksSerializer.data_of({"items": Webhook.objects.order_by("pk")}))

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
        parameters=[LOCATION],
    )
    @sensitive_variables("content")
    def post(self, request: Request) -> Response:
        check_recent_authentication(request)
        data = self.body(WebhookCreationSerializer)
        webhook = create_webhook(
            author=author_of(request, data["reason"]), url=data["url"], actions=data["actions"]
        )
        return created_response(NewWebhookSerializer.data_of(webhook), webhook_location(webhook.pk))


class WebhookDetail(Endpoint):
    resource = WEBHOOK
    rules = {"GET": check_journal_reader, "PATCH": check_settings_manager, "DELETE": check_settings_manager}
    queries = {"DELETE": ReasonSerializer}

    @api_operation(
        "webhooks_retrieve",
        TAG,
        "Read a webhook",
        "For administrators and auditors.",
        responses={200: WebhookSerializer},
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(WebhookSerializer.data_of(self.object))

    @api_operation(
        "webhooks_change",
        TAG,
        "Enable or disable a webhook",
        "An enabled webhook continues where it stopped.",
        request=WebhookChangeSerializer,
        request_example={"enabled": False, "reason": "maintenance of the SIEM"},
        responses={200: WebhookSerializer},
        response_example={"enabled": False},
    )
    def patch(self, request: Request, number: int) -> Response:
        check_recent_authentication(request)
        data = self.body(WebhookChangeSerializer)
        enable_webhook(author=author_of(request, data["reason"]), number=number, is_enabled=data["enabled"])
        self.object.refresh_from_db()
        return Response(WebhookSerializer.data_of(self.object))

    @api_operation(
        "webhooks_delete",
        TAG,
        "Delete a webhook",
        "Also deletes its dead letters.",
        query=ReasonSerializer,
        responses={200: OutcomeSerializer},
        response_example={"changed": True, "sentence": "webhook 2 was deleted", "revision": 4712},
    )
    def delete(self, request: Request, number: int) -> Response:
        check_recent_authentication(request)
        delete_webhook(author=author_of(request, self.query["reason"]), number=number)
        return Response(
            {"changed": True, "sentence": f"webhook {number} was deleted", "revision": current_revision()}
        )


class DeadLetterList(ListEndpoint):
    rows = DeadLetters
    resource = WEBHOOK
    operation = (
        "webhooks_dead_letters",
        TAG,
        "List dead letters",
        "The journal lines that the endpoint did not accept, oldest first. For administrators and auditors.",
    )


class Redelivery(Endpoint):
    resource = WEBHOOK
    rules = {"POST": check_settings_manager}

    @api_operation(
        "webhooks_redeliver",
        TAG,
        "Send the dead letters again",
        "All dead letters of the webhook are sent before new lines.",
        request=ReasonSerializer,
        request_example={"reason": "the SIEM works again"},
        responses={200: RedeliverySerializer},
    )
    def post(self, request: Request, number: int) -> Response:
        check_recent_authentication(request)
        data = self.body(ReasonSerializer)
        count = replay_dead_letters(author=author_of(request, data["reason"]), number=number)
        return Response({"count": count})
