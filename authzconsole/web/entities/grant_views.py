"""Granting and revoking on one entity: a form that stands alone, in a dialog or in the page, and its POST."""

import json

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from authzconsole.web.shared.guard import administrable_address_or_404, request_author
from authzconsole.web.shared.links import address_link_to, address_url, entity_url, principal_link_from_text
from authzconsole.web.shared.principal_input import principal_from_input
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from authzconsole.web.shared.stranding_warning import revocation_warning
from entities.address import Address
from entities.vocabulary import Privilege, VocabularyError, privilege_by_name
from grants.changes.outcomes import ChangeOutcome
from grants.changes.services import change_grants
from grants.errors import ChangeRefused, GrantError

# the form on a page of its own, which is sent without htmx: nothing of that page shows grants
ALONE = "change-form-alone"


@require_http_methods(["GET", "HEAD", "POST"])
def grant(request: HttpRequest, address: str) -> HttpResponse:
    place = administrable_address_or_404(request, address)
    if request.method != "POST":
        return _form(request, "grant", place, _given(request.GET))
    return _changed(request, place, "grant")


@require_http_methods(["GET", "HEAD", "POST"])
def revoke(request: HttpRequest, address: str) -> HttpResponse:
    place = administrable_address_or_404(request, address)
    if request.method != "POST":
        return _form(request, "revoke", place, _given(request.GET))
    return _changed(request, place, "revoke")


def _changed(request: HttpRequest, place: Address, verb: str) -> HttpResponse:
    given = _given(request.POST)
    try:
        outcome = _write(request, place, verb, given)
    except (GrantError, VocabularyError) as error:
        return _form(request, verb, place, given | {"fault": _sentences(error), "faulty": _faulty(given, error)}, status=400)
    for sentence, level in _said(outcome):
        messages.add_message(request, level, sentence)
    return _after(request, place)


def _write(request: HttpRequest, place: Address, verb: str, given: dict) -> ChangeOutcome:
    if not given["privileges"]:
        raise GrantError(f"no privilege is chosen: choose at least one of {', '.join(Privilege)}")
    if not given["principal"]:
        raise GrantError("no principal is named: write user:NAME or group:NAME")
    items = [(given["principal"], place, privilege_by_name(name)) for name in given["privileges"]]
    return change_grants(author=request_author(request, given["reason"]), **{verb: items})


def _given(data) -> dict:
    return {"principal": principal_from_input(data.get("principal", "")),
            "privileges": list(dict.fromkeys(data.getlist("privilege"))),
            "reason": data.get("reason", "").strip(), "fault": ""}


def _faulty(given: dict, error: Exception) -> str:
    """The field that the fault is about; of what makes a change all else comes from the page."""
    if not given["privileges"]:
        return "privilege"
    return "principal" if not given["principal"] or isinstance(error, ChangeRefused) else ""


def _sentences(error: Exception) -> str:
    """Each fault once: one unknown principal is one fault, however many privileges were chosen."""
    if isinstance(error, ChangeRefused):
        return "; ".join(dict.fromkeys(message for _, _, message in error.errors))
    return str(error)


def _said(outcome: ChangeOutcome):
    if outcome.granted:
        first = outcome.granted[0]
        yield f"Granted {_listed(outcome.granted)} on {first.address} to {first.principal}.", messages.SUCCESS
    if outcome.revoked:
        first = outcome.revoked[0]
        yield f"Revoked {_listed(outcome.revoked)} on {first.address} from {first.principal}.", messages.SUCCESS
    if outcome.planned:
        yield f"{', '.join(map(str, outcome.planned))} was not registered: it is planned from now on.", messages.INFO
    for sentence in outcome.unchanged:
        yield f"{sentence}.", messages.INFO


def _listed(items) -> str:
    return ", ".join(item.privilege for item in items)


def _after(request: HttpRequest, place: Address) -> HttpResponse:
    """htmx gets the notices only; the parts that show grants are told to look again."""
    if not request.htmx:
        return see_other(entity_url(place))
    response = render_page(request, "shared/feedback/notices.html", {})
    response["HX-Reswap"] = "none"
    response["HX-Trigger"] = json.dumps({"grants-changed": {}, "dialog-done": {}})
    return response


def _form(request: HttpRequest, verb: str, place: Address, given: dict, *, status: int = 200) -> HttpResponse:
    """The form in a page of its own, in the dialog, or in place of the form that was sent."""
    part = requested_section(request)
    names = {"": f"{verb}.html", "dialog": f"_{verb}_dialog.html"}
    return render_page(request, f"entities/grants/{names.get(part, f'_{verb}_form.html')}", {
        **given, "address_link": address_link_to(place), "plain_address_link": address_link_to(place, linked=False),
        "action": address_url(verb, place),
        "back": entity_url(place), "all_privileges": list(Privilege),
        "shown_principal": principal_link_from_text(given["principal"]),
        "form_id": {"": ALONE, "dialog": f"{verb}-form-dialog"}.get(part, part), "alone_id": ALONE,
        "stranding": revocation_warning(given["principal"], place, given["privileges"]) if verb == "revoke" else None,
    }, status=status)
