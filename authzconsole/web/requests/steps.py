"""The forms that decide about a request, ask back, answer and withdraw it."""

from collections.abc import Callable
from datetime import datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from authzconsole.web.requests.new_request import end_of_day
from authzconsole.web.requests.request_page import (
    ApprovalChoice,
    choice_from,
    last_day,
    render_request,
    view_or_404,
)
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.parameters import field_text
from authzconsole.web.shared.rendering import see_other
from grants.effects.effect import TOO_LARGE
from grants.errors import EffectChanged, EffectUnconfirmed, GrantError, NotApprover, RequestClosed, StaleBase
from grants.journal import Author
from grants.models import AccessRequest, RequestState
from grants.plans.apply import EffectConfirmation
from grants.requests.decide import Approval, approve_request, ask_back, deny_request
from grants.requests.own_steps import answer_question, withdraw_request


@require_POST
def approve(request: HttpRequest, pk: int) -> HttpResponse:
    """Approve the chosen parts, if their effect is the one that the form showed; or only show the effect of
    another choice.
    """
    view, choice = view_or_404(request, pk), choice_from(request.POST)
    if "show" in request.POST:
        return render_request(request, view, choice)
    digest = request.POST.get("effect", "")

    def perform(author: Author) -> AccessRequest:
        confirmation = EffectConfirmation(
            None if digest == TOO_LARGE else digest, confirms_beyond=request.POST.get("beyond") == "yes"
        )
        return approve_request(
            author=author,
            request_id=pk,
            approval=Approval(
                choice.proposals or {}, choice.comment, _end(choice.until, view.request), confirmation
            ),
        )

    return _perform(
        request,
        pk,
        perform,
        "Approved.",
        choice,
        pending_message="Approved. Other approvers decide about the other parts.",
    )


@require_POST
def deny(request: HttpRequest, pk: int) -> HttpResponse:
    return _perform(
        request,
        pk,
        lambda author: deny_request(author=author, request_id=pk, reason=field_text(request.POST, "reason")),
        "Request denied.",
    )


@require_POST
def ask(request: HttpRequest, pk: int) -> HttpResponse:
    return _perform(
        request,
        pk,
        lambda author: ask_back(author=author, request_id=pk, question=field_text(request.POST, "question")),
        "The request waits for the answer of the requester.",
    )


@require_POST
def answer(request: HttpRequest, pk: int) -> HttpResponse:
    return _perform(
        request,
        pk,
        lambda author: answer_question(
            author=author, request_id=pk, answer=field_text(request.POST, "answer")
        ),
        "The request waits for its approvers again.",
    )


@require_POST
def withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    return _perform(
        request,
        pk,
        lambda author: withdraw_request(
            author=author, request_id=pk, comment=field_text(request.POST, "comment")
        ),
        "The request is withdrawn.",
    )


def _perform(
    request: HttpRequest,
    pk: int,
    step: Callable[[Author], AccessRequest],
    message: str,
    choice: ApprovalChoice | None = None,
    *,
    pending_message: str = "",
) -> HttpResponse:
    """Take a step and show the page again, with the fault if it was refused.

    pending_message: replaces `message` if the request is still pending.
    """
    view_or_404(request, pk)
    try:
        done = step(request_author(request))
    except NotApprover as error:
        return _fault_response(request, pk, error, 403, choice)
    except (RequestClosed, EffectChanged, EffectUnconfirmed, StaleBase) as error:
        return _fault_response(request, pk, error, 409, choice)
    except GrantError as error:
        return _fault_response(request, pk, error, 400, choice)
    messages.success(
        request, pending_message if pending_message and done.state == RequestState.PENDING else message
    )
    return see_other(reverse("request", args=[pk]))


def _fault_response(
    request: HttpRequest, pk: int, error: GrantError, status: int, choice: ApprovalChoice | None
) -> HttpResponse:
    return render_request(
        request, view_or_404(request, pk), choice, fault=f"Nothing was changed: {error}.", status=status
    )


def _end(text: str, row: AccessRequest) -> datetime | None:
    """Return the end of the chosen day; None for the requested end."""
    return None if text == last_day(row.requested_until) else end_of_day(text)
