"""The form that requests access. It never reveals whether an address or a colleague exists."""

from datetime import UTC, datetime, time, timedelta

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_http_methods

from authzconsole.common.messages import as_sentence
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.parameters import MAX_CHARACTERS, field_text
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, see_other
from entities.address import AddressError, parse_address
from entities.vocabulary import KINDS, Privilege, clip
from grants.errors import AlreadyPermitted, DuplicateRequest, GrantError, RequestError
from grants.requests.create import RequestDraft, WantedAccess, create_request

FIELDS = ("entity", "colleague", "reason", "until")


@require_http_methods(["GET", "HEAD", "POST"])
def new_request(request: HttpRequest) -> HttpResponse:
    """Show the form with the values of the URL, or create the request and open its page."""
    values = request.POST if request.method == "POST" else request.GET
    form = {name: field_text(values, name).strip()[:MAX_CHARACTERS] for name in FIELDS}
    form["reason"] = field_text(values, "reason").strip()
    form["operations"] = [operation[:40] for operation in values.getlist("operation") if operation]
    if request.method != "POST":
        return _form_response(request, form)
    try:
        created = create_request(author=request_author(request), draft=_draft(form))
    except (DuplicateRequest, AlreadyPermitted) as error:
        reference = getattr(error, "request_id", None)
        return _form_response(
            request,
            form,
            fault=as_sentence(error),
            status=409,
            reference=reverse("request", args=[reference]) if reference else "",
        )
    except (GrantError, AddressError) as error:
        return _form_response(request, form, fault=as_sentence(error), status=400)
    messages.success(request, "The request waits for its approvers. This page shows what they decide.")
    return see_other(reverse("request", args=[created.pk]))


def end_of_day(text: str) -> datetime | None:
    """Return the end of a date, such as `2026-12-05`, in the time zone of the reader; None for empty text.

    Raise RequestError if it is no date.
    """
    if not text:
        return None
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    if day is None or day.year > 9_000:
        raise RequestError(f"`{clip(text)}` is not a date: enter a date such as 2026-12-05")
    return datetime.combine(day + timedelta(days=1), time(), timezone.get_current_timezone()).astimezone(UTC)


def _draft(form: dict) -> RequestDraft:
    until = end_of_day(form["until"])
    if form["colleague"]:
        return RequestDraft(
            form["reason"], colleague=name_from_input(form["colleague"], "user"), requested_until=until
        )
    if not form["entity"]:
        raise RequestError("the address is missing: enter one such as dataset:sales.orders")
    address = parse_address(form["entity"])
    if not form["operations"]:
        raise RequestError("choose what you need to do with it")
    return RequestDraft(
        form["reason"],
        [WantedAccess(address, operation) for operation in form["operations"]],
        requested_until=until,
    )


def _form_response(
    request: HttpRequest, form: dict, *, fault: str = "", reference: str = "", status: int = 200
) -> HttpResponse:
    return render_page(
        request,
        "requests/new.html",
        {
            "form": form,
            "fault": fault,
            "reference": reference,
            "kinds": _operations(form["entity"]),
            "privileges": [str(privilege) for privilege in Privilege],
            "today": f"{timezone.localtime():%Y-%m-%d}",
            "is_for_colleague": bool(form["colleague"]) and not form["entity"],
        },
        status=status,
    )


def _operations(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return (title of a kind, its operations): of the kind of the address, or of all kinds while there is no
    valid address.
    """
    try:
        kinds = [KINDS[parse_address(text).kind]]
    except AddressError:
        kinds = list(KINDS.values())
    return [(kind.title.capitalize(), tuple(kind.operations)) for kind in kinds if kind.operations]
