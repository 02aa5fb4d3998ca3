"""Register, describe, delete and recreate entities. The page before each change shows its forecast."""

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from authzconsole.web.effects.forms import (
    NOT_AS_SHOWN,
    effect_context,
    effect_context_if_known,
    refusal_text,
    shown_effect,
)
from authzconsole.web.entities.form_version import form_version
from authzconsole.web.shared.guard import administrable_address_or_404, capability_required, request_author
from authzconsole.web.shared.links import address_link_to, address_url, entity_url, principal_link_from_text
from authzconsole.web.shared.principal_input import principal_from_input
from authzconsole.web.shared.rendering import render_page, requested_section, see_other, show_outcome
from entities.address import Address, AddressError, address_of, parse_address
from entities.models import Entity
from entities.selectors import entity_at
from entities.services import EntityError
from entities.vocabulary import KINDS, child_kinds
from grants.change_set import Delete, Recreate, Register
from grants.changes import ChangeSet, Outcome, Preview, apply
from grants.changes.entities import describe_entity
from grants.errors import GrantError
from grants.journal import lock_journal
from grants.lifecycle.forecast import LifecycleForecast, lifecycle_forecast
from grants.principals.administrator_loss import capped_admin_count
from grants.roles.capabilities import Capability

EFFECT_ID = "lifecycle-effect"
MAX_HOLDERS = 12
FORECAST_CHANGED = (
    "The forecast changed since you opened this page. Nothing was changed. Review the new forecast below."
)
TITLES = {"register": "Register", "delete": "Delete", "recreate": "Recreate"}


class NameNotConfirmed(Exception):
    """The form that deletes a namespace does not contain its name."""


@require_http_methods(["GET", "HEAD", "POST"])
def lifecycle(request: HttpRequest, verb: str, address: str) -> HttpResponse:
    """Show the forecast of registering, deleting or recreating an entity; make the change on POST."""
    if verb not in TITLES:
        raise Http404("there is no such page")
    target = administrable_address_or_404(request, address)
    fields = {
        name: request.POST.get(name, "").strip() for name in ("reason", "description", "confirmed_name")
    }
    fields["creator"] = principal_from_input(request.POST.get("creator", ""))
    if request.method != "POST" or "preview" in request.POST:
        fields["creator"] = principal_from_input(request.GET.get("creator", "")) or fields["creator"]
        return _forecast_page(request, verb, target, fields)
    try:
        outcome = _change_if_forecast_is_current(request, verb, target, fields)
    except NameNotConfirmed as error:
        return _forecast_page(
            request, verb, target, fields, fault=str(error), invalid_field="confirmed_name", status=400
        )
    except NOT_AS_SHOWN as error:
        fault, status = refusal_text(error)
        return _forecast_page(
            request, verb, target, fields, fault=fault, preview=error.preview, status=status
        )
    except (GrantError, EntityError) as error:
        return _forecast_page(request, verb, target, fields, fault=str(error), status=400)
    if outcome is None:
        return _forecast_page(request, verb, target, fields, fault=FORECAST_CHANGED, status=409)
    show_outcome(request, outcome)
    return see_other(entity_url(target))


def _change_if_forecast_is_current(
    request: HttpRequest, verb: str, target: Address, fields: dict
) -> Outcome | None:
    """Make the change.

    Return None, without a change, if the forecast has changed since the form was displayed.
    """
    with transaction.atomic():
        lock_journal()
        forecast = lifecycle_forecast(target, verb)
        # a refused change raises its own error below
        if not forecast.refusal and request.POST.get(
            "form_version", _forecast_version(forecast)
        ) != _forecast_version(forecast):
            return None
        if _requires_name(forecast) and fields["confirmed_name"] != target.name:
            raise NameNotConfirmed(
                f"nothing was deleted: to confirm, enter the name of the namespace, {target.name}"
            )
        return apply(
            _change_set(verb, target, fields),
            author=request_author(request, fields["reason"]),
            shown=shown_effect(request),
        )


def _change_set(verb: str, target: Address, fields: dict) -> ChangeSet:
    if verb == "delete":
        return ChangeSet.of(Delete(target))
    state = Register if verb == "register" else Recreate
    return ChangeSet.of(state(target, _creator(fields["creator"]), fields["description"]))


def _requires_name(forecast: LifecycleForecast) -> bool:
    """Return whether the name must be entered to confirm: to delete a namespace with contents."""
    return forecast.verb == "delete" and forecast.address.kind == "namespace" and forecast.entities_total > 1


def _forecast_version(forecast: LifecycleForecast) -> str:
    return form_version(
        forecast.generation.name,
        forecast.entities,
        forecast.planned_inside,
        forecast.grants_removed,
        forecast.grants_kept,
        forecast.applying,
        forecast.creator_receives,
    )


def _creator(text: str) -> str:
    return f"user:{text}" if text and ":" not in text else text


def _forecast_page(
    request,
    verb: str,
    target: Address,
    fields: dict,
    *,
    fault: str = "",
    invalid_field: str = "",
    preview: Preview | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the page, or only its effect and its buttons. preview: of the change, if it is known."""
    forecast = lifecycle_forecast(target, verb)
    is_part = requested_section(request) == EFFECT_ID
    return render_page(
        request,
        "effects/_actions.html" if is_part else "entities/lifecycle.html",
        {
            "effect": None if forecast.refusal else _effect(request, verb, target, fields, preview),
            "effect_id": EFFECT_ID,
            "button": f"{TITLES[verb]} {KINDS[target.kind].title}",
            "is_danger": verb == "delete",
            "has_preview": bool(forecast.creator_receives),
            "verb": verb,
            "title": TITLES[verb],
            "address_link": address_link_to(target),
            "kind": KINDS[target.kind],
            "title_address_link": address_link_to(target, is_linked=False),
            "forecast": forecast,
            "kinds": [
                f"{total:,} {KINDS[kind].title if total == 1 else KINDS[kind].plural}"
                for kind, total in forecast.entities.items()
            ],
            "applying_grants": _applying_grants(forecast),
            "more_holders": max(0, len(forecast.applying) - MAX_HOLDERS),
            "total_admins": _admin_count(verb, target, forecast),
            "action": address_url("lifecycle", target, verb),
            "back": entity_url(target),
            # the page already shows why the change is refused
            "fault": fault if fault != forecast.refusal else "",
            "form_version": _forecast_version(forecast),
            "required_name": target.name if _requires_name(forecast) else "",
            "invalid_field": invalid_field,
            **fields,
        },
        status=status,
    )


def _effect(
    request: HttpRequest, verb: str, target: Address, fields: dict, preview: Preview | None
) -> dict | None:
    """Return the effect of the change; None if it names an unknown creator."""
    if preview is not None:
        return effect_context(request, preview, has_forecast=True)
    try:
        return effect_context_if_known(
            request,
            _change_set(verb, target, fields),
            list(filter(None, [_creator(fields["creator"])])),
            has_forecast=True,
        )
    except GrantError:
        return None


def _admin_count(verb: str, target: Address, forecast: LifecycleForecast) -> int | None:
    """Return how many active administrators the entity will have: 0, 1, or 2 for more; None if it does not
    become live.
    """
    if verb == "delete" or forecast.refusal:
        return None
    entity = entity_at(target)
    return capped_admin_count(entity) if entity is not None else 0


def _applying_grants(forecast: LifecycleForecast) -> list[tuple]:
    """Return the first holders of the grants that take effect, as (principal, privileges)."""
    return [
        (principal_link_from_text(name), ", ".join(privileges))
        for name, privileges in forecast.applying[:MAX_HOLDERS]
    ]


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def lifecycle_new(request: HttpRequest) -> HttpResponse:
    """Show the form for the kind and name of a new entity; on POST, continue to the forecast of registering
    it.
    """
    if request.method != "POST":
        return _new_page(request, request.GET)
    try:
        target = _address_from_form(request.POST)
    except AddressError as error:
        return _new_page(request, request.POST, fault=str(error), status=400)
    entity = entity_at(target)
    verb = "recreate" if entity is not None and entity.state == "deleted" else "register"
    return see_other(address_url("lifecycle", target, verb))


def _address_from_form(data) -> Address:
    """Return the address inside the selected parent.

    Raise AddressError with the invalid part in the message.
    """
    parent, kind, name = _parent(data), data.get("kind", ""), data.get("name", "").strip()
    if kind not in {child.name for child in child_kinds(parent.kind)}:
        raise AddressError(
            f"{parent} cannot contain `{kind}`; it can contain "
            f"{', '.join(child.name for child in child_kinds(parent.kind)) or 'no entities'}"
        )
    return address_of(kind, name if parent.kind == "instance" else f"{parent.key}.{name}")


def _parent(data) -> Address:
    try:
        return parse_address(data.get("parent", ""))
    except AddressError:
        raise Http404("there is no such entity") from None


def _new_page(request, data, *, fault: str = "", status: int = 200) -> HttpResponse:
    parent = _parent(data)
    kinds = child_kinds(parent.kind)
    if not kinds:
        raise Http404("entities of this kind have no children")
    kind = data.get("kind") if data.get("kind") in {child.name for child in kinds} else kinds[0].name
    return render_page(
        request,
        "entities/new.html",
        {
            "parent": address_link_to(parent),
            "kinds": kinds,
            "kind": kind,
            "name": data.get("name", ""),
            "fault": fault,
            "back": entity_url(parent),
        },
        status=status,
    )


@require_http_methods(["GET", "HEAD", "POST"])
def describe(request: HttpRequest, address: str) -> HttpResponse:
    target = administrable_address_or_404(request, address)
    entity = entity_at(target)
    if entity is None:
        raise Http404("there is no such entity")
    if request.method != "POST":
        return _describe_page(request, entity, {"description": entity.description, "reason": ""})
    fields = {name: request.POST.get(name, "").strip() for name in ("description", "reason")}
    try:
        outcome = _save_description(request, target, fields)
    except GrantError as error:
        return _describe_page(request, entity, fields, fault=str(error), status=400)
    if outcome is None:
        return _describe_page(request, entity_at(target), fields, has_changed=True, status=409)
    show_outcome(request, outcome)
    return see_other(entity_url(target))


def _save_description(request: HttpRequest, target: Address, fields: dict) -> Outcome | None:
    """Save the description. Return None, without a change, if it changed since the form was opened."""
    with transaction.atomic():
        lock_journal()
        current_version = form_version(entity_at(target).description)
        if request.POST.get("was", current_version) != current_version:
            return None
        return describe_entity(
            author=request_author(request, fields["reason"]),
            address=target,
            description=fields["description"],
        )


def _describe_page(
    request: HttpRequest,
    entity: Entity,
    fields: dict,
    *,
    fault: str = "",
    has_changed: bool = False,
    status: int = 200,
) -> HttpResponse:
    target = entity.address
    return render_page(
        request,
        "entities/describe.html",
        {
            "address_link": address_link_to(target),
            "title_address_link": address_link_to(target, is_linked=False),
            "form_version": form_version(entity.description),
            "action": address_url("lifecycle-describe", target),
            "back": entity_url(target),
            "fault": fault,
            "has_changed": has_changed,
            "current_description": entity.description,
            **fields,
        },
        status=status,
    )
