"""The pages of webhooks: the list, the form for a new one, and a webhook with its dead letters."""

from operator import itemgetter

from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe

from authzconsole.common.webhooks.delivery import secret_of
from authzconsole.common.webhooks.services import (
    create_webhook,
    delete_webhook,
    enable_webhook,
    replay_dead_letters,
)
from authzconsole.models import Webhook
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.forms import ConsoleForm, FormPage, NameInput, TextField, TextsField, reason_field
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.paging import paginate_sequence
from authzconsole.web.shared.rendering import render_page, see_other
from grants.journal import ACTIONS, current_revision
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 50


@require_safe
@capability_required(Capability.READ_JOURNAL)
def webhook_list(request: HttpRequest) -> HttpResponse:
    return render_page(
        request,
        "journal/webhooks.html",
        {
            "webhooks": Webhook.objects.annotate(letters=Count("dead_letters")).order_by("pk"),
            "can_change": request.user.can(Capability.MANAGE_SETTINGS),
        },
    )


@require_safe
@capability_required(Capability.READ_JOURNAL)
def webhook_page(request: HttpRequest, pk: int) -> HttpResponse:
    webhook = get_object_or_404(Webhook, pk=pk)
    letters = webhook.dead_letters.order_by("revision")
    page = paginate_sequence(request, letters, max_rows=ROWS_PER_PAGE)
    return render_page(
        request,
        "journal/webhook.html",
        {
            "webhook": webhook,
            "page": page,
            "can_change": request.user.can(Capability.MANAGE_SETTINGS),
            "waiting": max(0, current_revision() - webhook.position),
        },
    )


class WebhookForm(ConsoleForm):
    id_pattern = "webhook-%s"
    url = TextField(
        label="URL of the endpoint",
        placeholder="https://example.com/hook",
        required=True,
        max_characters=500,
        widget=NameInput({"inputmode": "url"}),
    )
    action = TextsField(
        label="Actions",
        help_text="Select none to send all actions.",
        choices=sorted(ACTIONS.items(), key=itemgetter(1)),
    )
    reason = reason_field()


@method_decorator(sensitive_variables("secret"), name="perform")
class NewWebhook(FormPage):
    """Create a webhook. Its secret is shown in this response and never again."""

    capabilities = (Capability.MANAGE_SETTINGS,)
    visible_to = (Capability.READ_JOURNAL,)
    decorators = (recent_authentication_required,)
    form_class = WebhookForm
    template_name = "journal/webhook_new.html"

    @property
    def change_name(self) -> str:
        return "Create a webhook"

    def perform(self, form: WebhookForm) -> HttpResponse:
        values = form.cleaned_data
        author = self.author(form)
        webhook = create_webhook(author=author, url=values["url"], actions=values["action"])
        secret = secret_of(webhook)
        return render_page(
            self.request, "journal/webhook_issued.html", {"webhook": webhook, "secret": secret}
        )


class WebhookChangeForm(ConsoleForm):
    verb = TextField()


class ChangeWebhook(FormPage):
    """Enable, disable, replay or delete, as the posted `verb` says."""

    http_method_names = ("post",)
    capabilities = (Capability.MANAGE_SETTINGS,)
    visible_to = (Capability.READ_JOURNAL,)
    decorators = (recent_authentication_required,)
    form_class = WebhookChangeForm

    @property
    def change_name(self) -> str:
        return f"Change webhook {self.kwargs['pk']}"

    def perform(self, form: WebhookChangeForm) -> HttpResponse:
        author, pk, verb = request_author(self.request), self.kwargs["pk"], form.cleaned_data["verb"]
        if verb == "delete":
            delete_webhook(author=author, number=pk)
            messages.success(self.request, f"Webhook {pk} is deleted.")
            return see_other(reverse("journal-webhooks"))
        if verb in ("enable", "disable"):
            enable_webhook(author=author, number=pk, is_enabled=verb == "enable")
            messages.success(self.request, f"Webhook {pk} is {verb}d.")
        elif verb == "replay":
            count = replay_dead_letters(author=author, number=pk)
            messages.success(self.request, f"{count:,} dead letters are sent again.")
        return see_other(reverse("journal-webhook", args=[pk]))
