"""Grant and revoke on one entity. The form is a separate page, a dialog, or a section of the entity page."""

import json

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from authzconsole.web.effects.forms import (
    NOT_AS_SHOWN,
    effect_context,
    effect_context_if_known,
    refusal_text,
    shown_effect,
)
from authzconsole.web.shared.guard import entity_or_404, grantable_address_or_404, request_author
from authzconsole.web.shared.links import (
    address_link_to,
    address_url,
    entity_tab_url,
    principal_link_from_text,
)
from authzconsole.web.shared.principal_input import principal_from_input
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from authzconsole.web.shared.stranding_warning import StrandingWarning, revocation_warning
from authzconsole.web.shared.times.periods import (
    fields_of_period,
    period_fields,
    period_form_context,
    period_of_form,
    period_words,
)
from entities.address import Address
from entities.vocabulary import Privilege, VocabularyError, privilege_by_name
from grants.authority.rights import grantable_privileges
from grants.change_set import Grant, Revoke
from grants.changes import ChangeSet, Outcome, Preview, apply
from grants.errors import ChangeRefused, GrantError
from grants.grant_attributes import GrantAttributes
from grants.models import GRANT_TABLES, NAME_COLUMNS, permission_ids
from grants.principal_names import format_principal
from grants.validity import Validity, ValidityError

EFFECT_SUFFIX = "-effect"
# id of the form on a separate page. It is sent without htmx, because that page has no sections to refresh.
PAGE_FORM_ID = "change-form-standalone"


@require_http_methods(["GET", "HEAD", "POST"])
def grant(request: HttpRequest, address: str) -> HttpResponse:
    target = grantable_address_or_404(request, address)
    if request.method != "POST":
        return _form_response(request, "grant", target, _form_fields(request.GET))
    return _submit(request, target, "grant")


@require_http_methods(["GET", "HEAD", "POST"])
def revoke(request: HttpRequest, address: str) -> HttpResponse:
    target = grantable_address_or_404(request, address)
    if request.method != "POST":
        return _form_response(request, "revoke", target, _form_fields(request.GET))
    return _submit(request, target, "revoke")


def _submit(request: HttpRequest, target: Address, verb: str) -> HttpResponse:
    fields = _form_fields(request.POST)
    if "preview" in request.POST:
        return _form_response(request, verb, target, fields)
    try:
        outcome = _change(request, target, verb, fields)
    except NOT_AS_SHOWN as error:
        fault, status = refusal_text(error)
        return _form_response(
            request, verb, target, fields | {"fault": fault}, preview=error.preview, status=status
        )
    except (GrantError, VocabularyError) as error:
        return _form_response(
            request,
            verb,
            target,
            fields | {"fault": _error_text(error), "invalid_field": _invalid_field(fields, error)},
            status=400,
        )
    for sentence, level in _outcome_messages(outcome):
        messages.add_message(request, level, sentence)
    return _success_response(request, target)


def _change(request: HttpRequest, target: Address, verb: str, fields: dict) -> Outcome:
    if not fields["privileges"]:
        raise GrantError(f"no privilege is selected: select at least one of {', '.join(Privilege)}")
    if not fields["principal"]:
        raise GrantError("no principal is named: write user:NAME or group:NAME")
    # delegates see no effect
    shown = shown_effect(request) if request.user.can_administer else None
    return apply(
        _change_set(verb, target, fields),
        author=request_author(request, fields["reason"]),
        attributes=GrantAttributes(**{name: fields[name] for name in GrantAttributes._fields}),
        shown=shown,
    )


def _change_set(verb: str, target: Address, fields: dict) -> ChangeSet:
    principal, names = format_principal(fields["principal"]), fields["privileges"]
    if verb == "revoke":
        return ChangeSet.of(*(Revoke(principal, target, privilege_by_name(name)) for name in names))
    validity = period_of_form(fields)
    return ChangeSet.of(*(Grant(principal, target, privilege_by_name(name), validity) for name in names))


def _effect(request: HttpRequest, verb: str, target: Address, fields: dict) -> dict | None:
    """Return the effect of the change in the form; None while the form is incomplete or invalid."""
    if not fields["principal"] or not fields["privileges"]:
        return None
    try:
        changes, stranding = _change_set(verb, target, fields), _stranding(verb, target, fields)
    except (GrantError, VocabularyError):
        return None
    return effect_context_if_known(request, changes, [fields["principal"]], stranding)


def _stranding(verb: str, target: Address, fields: dict) -> StrandingWarning | None:
    return revocation_warning(fields["principal"], target, fields["privileges"]) if verb == "revoke" else None


def _stored_period(target: Address, fields: dict) -> Validity | None:
    """Return the period of the grant in the form if the grant exists and has limits; otherwise None.

    Runs at most one query.
    """
    principal, _, name = fields["principal"].partition(":")
    if (
        principal not in GRANT_TABLES
        or len(fields["privileges"]) != 1
        or fields["privileges"][0] not in list(Privilege)
    ):
        return None
    grant = (
        GRANT_TABLES[principal][0]
        .objects.filter(
            **{NAME_COLUMNS[principal]: name},
            content_object__kind=target.kind,
            content_object__key=target.key,
            permission_id=permission_ids()[Privilege(fields["privileges"][0])],
        )
        .first()
    )
    return grant.validity if grant and grant.validity.is_limited else None


def _form_fields(data) -> dict:
    return {
        "principal": principal_from_input(data.get("principal", "")),
        "privileges": list(dict.fromkeys(data.getlist("privilege"))),
        **period_fields(data),
        **{name: data.get(name, "").strip() for name in GrantAttributes._fields},
        "fault": "",
    }


def _invalid_field(fields: dict, error: Exception) -> str:
    """Return the field that caused the error; empty if it is neither the principal, the privileges nor the
    period.
    """
    if isinstance(error, ValidityError):
        return "period"
    if not fields["privileges"]:
        return "privilege"
    return "principal" if not fields["principal"] or isinstance(error, ChangeRefused) else ""


def _error_text(error: Exception) -> str:
    """Return the message.

    An unknown principal causes the same error for each privilege; it is displayed once.
    """
    if isinstance(error, ChangeRefused):
        return "; ".join(dict.fromkeys(item.message for item in error.errors))
    return str(error)


def _outcome_messages(outcome: Outcome):
    if outcome.granted:
        first = outcome.granted[0]
        yield (
            f"Granted {_privilege_list(outcome.granted)} on {first.address} to {first.principal}{_period_suffix(first)}.",
            messages.SUCCESS,
        )
    if outcome.changed_periods:
        first = outcome.changed_periods[0]
        yield (
            f"{_privilege_list(outcome.changed_periods)} on {first.address} for {first.principal} is now valid "
            f"{period_words(first.validity)}.",
            messages.SUCCESS,
        )
    if outcome.revoked:
        first = outcome.revoked[0]
        yield (
            f"Revoked {_privilege_list(outcome.revoked)} on {first.address} from {first.principal}.",
            messages.SUCCESS,
        )
    if outcome.planned:
        yield f"{', '.join(map(str, outcome.planned))} was not registered; it is now planned.", messages.INFO
    for sentence in outcome.unchanged:
        yield f"{sentence}.", messages.INFO


def _period_suffix(item: Grant) -> str:
    return f" {period_words(item.validity)}" if item.validity.is_limited else ""


def _privilege_list(items) -> str:
    return ", ".join(item.privilege for item in items)


def _success_response(request: HttpRequest, target: Address) -> HttpResponse:
    """Redirect to the entity; for htmx, send the messages and an event that reloads the sections with grants."""
    if not request.htmx:
        return see_other(_back_url(request, target))
    response = render_page(request, "shared/feedback/notices.html", {})
    response["HX-Reswap"] = "none"
    response["HX-Trigger"] = json.dumps({"grants-changed": {}, "dialog-done": {}})
    return response


def _back_url(request: HttpRequest, target: Address) -> str:
    """Return the page of the entity, or the form if the account cannot see the entity."""
    if not request.user.can_see_all:
        try:
            entity_or_404(request, str(target))
        except Http404:
            return address_url("grant", target)
    return entity_tab_url(target, "access")


def _form_response(
    request: HttpRequest,
    verb: str,
    target: Address,
    fields: dict,
    *,
    preview: Preview | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the form as a page, in the dialog, or in the section that htmx requests; or only its effect and
    its buttons.

    preview: of the change, if it is known.
    """
    section = requested_section(request)
    templates = {"": f"{verb}.html", "dialog": f"_{verb}_dialog.html"}
    template = (
        "_grant_actions.html"
        if section.endswith(EFFECT_SUFFIX)
        else templates.get(section, f"_{verb}_form.html")
    )
    section = section.removesuffix(EFFECT_SUFFIX)
    stored = _stored_period(target, fields) if verb == "grant" else None
    if (
        stored is not None
        and request.method != "POST"
        and not any(fields[name] for name in period_fields({}))
    ):
        fields = fields | fields_of_period(stored)
    if not request.user.can_administer:
        effect = None
    elif preview is not None:
        effect = effect_context(request, preview, _stranding(verb, target, fields))
    else:
        # an input with an error will change, and so will its effect
        effect = None if status == 400 else _effect(request, verb, target, fields)
    return render_page(
        request,
        f"entities/grants/{template}",
        {
            **fields,
            "address_link": address_link_to(target),
            "title_address_link": address_link_to(target, is_linked=False),
            "action": address_url(verb, target),
            "back": _back_url(request, target),
            "all_privileges": grantable_privileges(request.user),
            # delegates learn nothing about other entities and principals
            "is_delegate": not request.user.can_administer,
            "principal_link": principal_link_from_text(fields["principal"]),
            "form_id": {"": PAGE_FORM_ID, "dialog": f"{verb}-form-dialog"}.get(section, section),
            "page_form_id": PAGE_FORM_ID,
            "effect": effect,
            "period": fields,
            "period_form": period_form_context() if verb == "grant" else None,
            "changed_period": stored,
        },
        status=status,
    )
