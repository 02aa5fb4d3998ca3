"""Grant and revoke on one entity. The form is a separate page, a dialog, or a section of the entity page."""

import json

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from authzconsole.web.plans.change_effect import change_effect_context
from authzconsole.web.shared.guard import administrable_address_or_404, request_author
from authzconsole.web.shared.links import address_link_to, address_url, entity_tab_url, principal_link_from_text
from authzconsole.web.shared.principal_input import principal_from_input
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from authzconsole.web.shared.stranding_warning import revocation_warning
from entities.address import Address
from entities.vocabulary import Privilege, VocabularyError, privilege_by_name
from grants.changes.outcomes import ChangeOutcome
from grants.effects.changes import GrantChange
from grants.effects.single_changes import change_grants_as_shown
from grants.errors import ChangeRefused, EffectChanged, GrantError
from grants.grant_attributes import GrantAttributes
from grants.principal_names import format_principal

# id of the form on a separate page. It is sent without htmx, because that page has no sections to refresh.
PAGE_FORM_ID = "change-form-standalone"


@require_http_methods(["GET", "HEAD", "POST"])
def grant(request: HttpRequest, address: str) -> HttpResponse:
    target = administrable_address_or_404(request, address)
    if request.method != "POST":
        return _form_response(request, "grant", target, _form_fields(request.GET))
    return _submit(request, target, "grant")


@require_http_methods(["GET", "HEAD", "POST"])
def revoke(request: HttpRequest, address: str) -> HttpResponse:
    target = administrable_address_or_404(request, address)
    if request.method != "POST":
        return _form_response(request, "revoke", target, _form_fields(request.GET))
    return _submit(request, target, "revoke")


def _submit(request: HttpRequest, target: Address, verb: str) -> HttpResponse:
    fields = _form_fields(request.POST)
    if "preview" in request.POST:
        return _form_response(request, verb, target, fields)
    try:
        outcome = _change(request, target, verb, fields)
    except EffectChanged as error:
        return _form_response(request, verb, target, fields | {"fault": f"Nothing was changed: {error}."}, status=409)
    except (GrantError, VocabularyError) as error:
        return _form_response(request, verb, target,
                              fields | {"fault": _error_text(error), "invalid_field": _invalid_field(fields, error)}, status=400)
    for sentence, level in _outcome_messages(outcome):
        messages.add_message(request, level, sentence)
    return _success_response(request, target)


def _change(request: HttpRequest, target: Address, verb: str, fields: dict) -> ChangeOutcome:
    if not fields["privileges"]:
        raise GrantError(f"no privilege is selected: select at least one of {', '.join(Privilege)}")
    if not fields["principal"]:
        raise GrantError("no principal is named: write user:NAME or group:NAME")
    items = [(fields["principal"], target, privilege_by_name(name)) for name in fields["privileges"]]
    attributes = {name: fields[name] for name in GrantAttributes._fields}
    return change_grants_as_shown(author=request_author(request, fields["reason"]), attributes=attributes,
                                  digest=request.POST.get("effect", ""), **{verb: items})


def _effect(verb: str, target: Address, fields: dict) -> dict | None:
    """Return the effect of the change in the form; None while the form is incomplete or invalid."""
    if not fields["principal"] or not fields["privileges"]:
        return None
    try:
        changes = [GrantChange(format_principal(fields["principal"]), target, privilege_by_name(name), verb == "grant")
                   for name in fields["privileges"]]
        return change_effect_context(changes)
    except (GrantError, VocabularyError):
        return None


def _form_fields(data) -> dict:
    return {"principal": principal_from_input(data.get("principal", "")),
            "privileges": list(dict.fromkeys(data.getlist("privilege"))),
            **{name: data.get(name, "").strip() for name in GrantAttributes._fields}, "fault": ""}


def _invalid_field(fields: dict, error: Exception) -> str:
    """Return the field that caused the error; empty if it is neither the principal nor the privileges."""
    if not fields["privileges"]:
        return "privilege"
    return "principal" if not fields["principal"] or isinstance(error, ChangeRefused) else ""


def _error_text(error: Exception) -> str:
    """Return the message. An unknown principal causes the same error for each privilege; it is displayed once."""
    if isinstance(error, ChangeRefused):
        return "; ".join(dict.fromkeys(message for _, _, message in error.errors))
    return str(error)


def _outcome_messages(outcome: ChangeOutcome):
    if outcome.granted:
        first = outcome.granted[0]
        yield f"Granted {_privilege_list(outcome.granted)} on {first.address} to {first.principal}.", messages.SUCCESS
    if outcome.revoked:
        first = outcome.revoked[0]
        yield f"Revoked {_privilege_list(outcome.revoked)} on {first.address} from {first.principal}.", messages.SUCCESS
    if outcome.planned:
        yield f"{', '.join(map(str, outcome.planned))} was not registered; it is now planned.", messages.INFO
    for sentence in outcome.unchanged:
        yield f"{sentence}.", messages.INFO


def _privilege_list(items) -> str:
    return ", ".join(item.privilege for item in items)


def _success_response(request: HttpRequest, target: Address) -> HttpResponse:
    """Redirect to the entity; for htmx, send the messages and an event that reloads the sections with grants."""
    if not request.htmx:
        return see_other(entity_tab_url(target, "access"))
    response = render_page(request, "shared/feedback/notices.html", {})
    response["HX-Reswap"] = "none"
    response["HX-Trigger"] = json.dumps({"grants-changed": {}, "dialog-done": {}})
    return response


def _form_response(request: HttpRequest, verb: str, target: Address, fields: dict, *, status: int = 200) -> HttpResponse:
    """Render the form as a page, in the dialog, or in the section that htmx requests."""
    section = requested_section(request)
    templates = {"": f"{verb}.html", "dialog": f"_{verb}_dialog.html"}
    return render_page(request, f"entities/grants/{templates.get(section, f'_{verb}_form.html')}", {
        **fields, "address_link": address_link_to(target), "title_address_link": address_link_to(target, linked=False),
        "action": address_url(verb, target), "back": entity_tab_url(target, "access"), "all_privileges": list(Privilege),
        "principal_link": principal_link_from_text(fields["principal"]),
        "form_id": {"": PAGE_FORM_ID, "dialog": f"{verb}-form-dialog"}.get(section, section), "page_form_id": PAGE_FORM_ID,
        # an input with an error will change, and so will its effect
        "effect": None if status == 400 else _effect(verb, target, fields),
        "stranding": revocation_warning(fields["principal"], target, fields["privileges"]) if verb == "revoke" else None,
    }, status=status)
