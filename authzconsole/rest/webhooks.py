"""The REST resource `webhooks`: endpoints that receive journal lines, and their dead letters."""

from django.views.decorators.debug import sensitive_variables
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
from authzconsole.common.webhooks.delivery import secret_of
from authzconsole.common.webhooks.services import (
    MAX_WEBHOOKS,  # noqa: F401 (a docstring names it)
    create_webhook,
    delete_webhook,
    enable_webhook,
    replay_dead_letters,
)
from authzconsole.lists.journal import DeadLetters
from authzconsole.models import Webhook
from authzconsole.rest.framework.callers import (
    changeable_with,
    check_journal_reader,
    check_recent_authentication,
)
from authzconsole.rest.framework.endpoint import Endpoint, Resource
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.people import OutcomeSerializer
from grants.journal import ACTIONS, current_revision
from grants.outcomes import Outcome
from grants.roles.capabilities import Capability

check_settings_manager = changeable_with(Capability.MANAGE_SETTINGS)


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
    route = "webhooks"

    @operation(
        "webhooks_list",
        check_journal_reader,
        WebhooksSerializer,
    )
    def get(self) -> object:
        """List webhooks.

        Sorted by number; there are at most {MAX_WEBHOOKS}. For administrators and auditors.
        """
        return {"items": Webhook.objects.order_by("pk")}

    @operation(
        "webhooks_create",
        check_settings_manager,
        {201: NewWebhookSerializer},
        body=WebhookCreationSerializer,
    )
    @sensitive_variables("content")
    def post(self) -> Response:
        """Create a webhook.

        It receives the journal lines from now on, as signed CloudEvents. Only this response contains the
        secret of the signatures. Location is the URL of the webhook.
        """
        check_recent_authentication(self.request)
        data = self.data
        webhook = create_webhook(author=self.author, url=data["url"], actions=data["actions"])
        return self.creation_response(webhook, "webhooks")


class WebhookDetail(Endpoint):
    route = "webhooks/<int:number>"
    resource = WEBHOOK

    @operation(
        "webhooks_retrieve",
        check_journal_reader,
        WebhookSerializer,
    )
    def get(self) -> object:
        """Read a webhook.

        For administrators and auditors.
        """
        return self.object

    @operation(
        "webhooks_change",
        check_settings_manager,
        WebhookSerializer,
        body=WebhookChangeSerializer,
    )
    def patch(self) -> object:
        """Enable or disable a webhook.

        An enabled webhook continues where it stopped.
        """
        check_recent_authentication(self.request)
        enable_webhook(author=self.author, number=self.object.pk, is_enabled=self.data["enabled"])
        self.object.refresh_from_db()
        return self.object

    @operation(
        "webhooks_delete",
        check_settings_manager,
        OutcomeSerializer,
        query=ReasonSerializer,
    )
    def delete(self) -> object:
        """Delete a webhook.

        Also deletes its dead letters.
        """
        check_recent_authentication(self.request)
        delete_webhook(author=self.author, number=self.object.pk)
        return Outcome(True, f"webhook {self.object.pk} was deleted", current_revision())


class DeadLetterList(ListEndpoint):
    """List dead letters.

    The journal lines that the endpoint did not accept, oldest first. For administrators and auditors.
    """

    route = "webhooks/<int:number>/dead-letters"
    operation_id = "webhooks_dead_letters"
    rows = DeadLetters
    resource = WEBHOOK


class Redelivery(Endpoint):
    route = "webhooks/<int:number>/redeliver"
    resource = WEBHOOK

    @operation(
        "webhooks_redeliver",
        check_settings_manager,
        RedeliverySerializer,
        body=ReasonSerializer,
    )
    def post(self) -> Response:
        """Send the dead letters again.

        All dead letters of the webhook are sent before new lines.
        """
        check_recent_authentication(self.request)
        return {"count": replay_dead_letters(author=self.author, number=self.object.pk)}
