"""The pages of webhooks: the list, the form for a new one, and a webhook with its dead letters."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from authzconsole.common.messages import as_sentence
from authzconsole.common.webhooks.events import secret_of
from authzconsole.common.webhooks.services import (
    create_webhook,
    delete_webhook,
    enable_webhook,
    replay_dead_letters,
)
from authzconsole.models import Webhook
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.journal.rows import ACTION_LABELS, action_label
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.paging import QuerySetSequence, paginate_sequence
from authzconsole.web.shared.rendering import render_page, see_other
from grants.errors import GrantError
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
            "rows": [_row(webhook) for webhook in Webhook.objects.order_by("pk")],
            "can_change": request.user.can(Capability.MANAGE_SETTINGS),
        },
    )


@require_safe
@capability_required(Capability.READ_JOURNAL)
def webhook_page(request: HttpRequest, pk: int) -> HttpResponse:
    webhook = Webhook.objects.filter(pk=pk).first()
    if webhook is None:
        raise Http404("there is no such webhook")
    letters = QuerySetSequence(webhook.dead_letters.order_by("revision"))
    page = paginate_sequence(request, letters, max_rows=ROWS_PER_PAGE, name="page")
    return render_page(
        request,
        "journal/webhook.html",
        {
            "row": _row(webhook),
            "page": page,
            "can_change": request.user.can(Capability.MANAGE_SETTINGS),
            "waiting": max(0, current_revision() - webhook.position),
        },
    )


@sensitive_variables("secret")
@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.MANAGE_SETTINGS, visible_to=[Capability.READ_JOURNAL])
@recent_authentication_required
def new_webhook(request: HttpRequest) -> HttpResponse:
    """Create a webhook. Its secret is shown in this response and never again."""
    form = {
        "url": request.POST.get("url", "").strip(),
        "actions": request.POST.getlist("action"),
        "reason": request.POST.get("reason", "").strip(),
    }
    if request.method != "POST":
        return _form_response(request, form)
    try:
        webhook = create_webhook(
            author=request_author(request, form["reason"]), url=form["url"], actions=form["actions"]
        )
    except GrantError as error:
        return _form_response(request, form, fault=as_sentence(error), status=400)
    return render_page(
        request, "journal/webhook_issued.html", {"row": _row(webhook), "secret": secret_of(webhook)}
    )


@require_POST
@capability_required(Capability.MANAGE_SETTINGS, visible_to=[Capability.READ_JOURNAL])
@recent_authentication_required
def change_webhook(request: HttpRequest, pk: int) -> HttpResponse:
    """Enable, disable, replay or delete, as the posted `verb` says."""
    author, verb = request_author(request), request.POST.get("verb", "")
    if verb == "delete":
        delete_webhook(author=author, number=pk)
        messages.success(request, f"Webhook {pk} is deleted.")
        return see_other(reverse("journal-webhooks"))
    if verb in ("enable", "disable"):
        enable_webhook(author=author, number=pk, is_enabled=verb == "enable")
        messages.success(request, f"Webhook {pk} is {verb}d.")
    elif verb == "replay":
        count = replay_dead_letters(author=author, number=pk)
        messages.success(request, f"{count:,} dead letters are sent again.")
    return see_other(reverse("journal-webhook", args=[pk]))


def _row(webhook: Webhook) -> dict:
    actions = ", ".join(action_label(action) for action in webhook.actions.split())
    state = "disabled" if not webhook.is_enabled else "failing" if webhook.error else "active"
    return {
        "webhook": webhook,
        "actions": actions or "All actions",
        "state": state,
        "url": reverse("journal-webhook", args=[webhook.pk]),
        "dead_letters": webhook.dead_letters.count(),
    }


def _form_response(request: HttpRequest, form: dict, *, fault: str = "", status: int = 200) -> HttpResponse:
    actions = sorted(
        ((action, ACTION_LABELS.get(action, action)) for action in ACTIONS), key=lambda item: item[1]
    )
    return render_page(
        request, "journal/webhook_new.html", {"form": form, "fault": fault, "actions": actions}, status=status
    )
