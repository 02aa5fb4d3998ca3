"""Registering, describing, deleting and recreating: each is foretold in numbers before it is done."""

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from authzconsole.web.entities.form_version import seal
from authzconsole.web.shared.guard import administrable_address_or_404, administrator_required, request_author
from authzconsole.web.shared.links import address_link_to, address_url, entity_url, principal_link_from_text
from authzconsole.web.shared.principal_input import principal_from_input
from authzconsole.web.shared.rendering import render_page, see_other
from entities.address import Address, AddressError, address_format, address_of, parse_address
from entities.models import Entity
from entities.selectors import entity_at
from entities.services import EntityError
from entities.vocabulary import KINDS, child_kinds
from grants.changes.outcomes import Outcome
from grants.errors import GrantError
from grants.journal import lock_journal
from grants.lifecycle.forecast import LifecycleForecast, lifecycle_forecast
from grants.lifecycle.services import delete_entity, describe_entity, recreate_entity, register_entity
from grants.principals.administrator_loss import capped_admin_count

MOST_HOLDERS = 12
FORETOLD_ANEW = "What it would do was changed since this page was opened: nothing was done. Look at what will happen now."
TITLES = {"register": "Register", "delete": "Delete", "recreate": "Recreate"}


@require_http_methods(["GET", "HEAD", "POST"])
def lifecycle(request: HttpRequest, verb: str, address: str) -> HttpResponse:
    """One of the three verbs on one address: the forecast, and the deed."""
    if verb not in TITLES:
        raise Http404("there is no such page")
    place = administrable_address_or_404(request, address)
    given = {name: request.POST.get(name, "").strip() for name in ("reason", "description")}
    given["creator"] = principal_from_input(request.POST.get("creator", ""))
    if request.method != "POST":
        return _forecast_page(request, verb, place, given)
    try:
        outcome = _done(request, verb, place, given)
    except (GrantError, EntityError) as error:
        return _forecast_page(request, verb, place, given, fault=str(error), status=400)
    if outcome is None:
        return _forecast_page(request, verb, place, given, fault=FORETOLD_ANEW, status=409)
    messages.add_message(request, messages.SUCCESS if outcome.has_changed else messages.INFO, f"{outcome.sentence}.")
    return see_other(entity_url(place))


def _done(request: HttpRequest, verb: str, place: Address, given: dict) -> Outcome | None:
    """None where it would do something else than the form foretold."""
    with transaction.atomic():
        lock_journal()
        forecast = lifecycle_forecast(place, verb)
        # what is refused now says why by itself
        if not forecast.refusal and request.POST.get("foretold", _seal(forecast)) != _seal(forecast):
            return None
        return _do(request, verb, place, given)


def _seal(forecast: LifecycleForecast) -> str:
    return seal(forecast.generation.name, forecast.entities, forecast.planned_inside, forecast.grants_removed,
                forecast.grants_kept, forecast.applying, forecast.creator_receives)


def _do(request: HttpRequest, verb: str, place: Address, given: dict) -> Outcome:
    author = request_author(request, given["reason"])
    if verb == "delete":
        return delete_entity(author=author, address=place)
    make = register_entity if verb == "register" else recreate_entity
    return make(author=author, address=place, description=given["description"], creator=_creator(given["creator"]))


def _creator(text: str) -> str | None:
    return (text if ":" in text else f"user:{text}") if text else None


def _forecast_page(request, verb: str, place: Address, given: dict, *, fault: str = "", status: int = 200) -> HttpResponse:
    forecast = lifecycle_forecast(place, verb)
    return render_page(request, "entities/lifecycle.html", {
        "verb": verb, "title": TITLES[verb], "address_link": address_link_to(place), "kind": KINDS[place.kind],
        "title_address_link": address_link_to(place, linked=False), "forecast": forecast,
        "kinds": [(kind, f"{total:,} {KINDS[kind].title if total == 1 else KINDS[kind].plural}")
                  for kind, total in forecast.entities.items()],
        "applying": _applying(forecast), "applying_more": max(0, len(forecast.applying) - MOST_HOLDERS),
        "admins": _admins(verb, place, forecast), "action": address_url("lifecycle", place, verb), "back": entity_url(place),
        # the reason why it cannot be done stands on the page already
        "fault": fault if fault != forecast.refusal else "", "foretold": _seal(forecast), **given,
    }, status=status)


def _admins(verb: str, place: Address, forecast: LifecycleForecast) -> int | None:
    """How many active users would administer what comes to life, 2 for all beyond; None where nothing comes to life."""
    if verb == "delete" or forecast.refusal:
        return None
    entity = entity_at(place)
    return capped_admin_count(entity) if entity is not None else 0


def _applying(forecast: LifecycleForecast) -> list[tuple]:
    return [(principal_link_from_text(name), ", ".join(privileges)) for name, privileges in forecast.applying[:MOST_HOLDERS]]


@require_http_methods(["GET", "HEAD", "POST"])
@administrator_required
def lifecycle_new(request: HttpRequest) -> HttpResponse:
    """Choose a kind and a name inside a container; what registering the address would do comes next."""
    if request.method != "POST":
        return _new_page(request, request.GET)
    try:
        place = _named(request.POST)
    except AddressError as error:
        return _new_page(request, request.POST, fault=str(error), status=400)
    entity = entity_at(place)
    verb = "recreate" if entity is not None and entity.state == "deleted" else "register"
    return see_other(address_url("lifecycle", place, verb))


def _named(data) -> Address:
    """The address inside the chosen parent. Raises AddressError naming the part at fault."""
    parent, kind, name = _parent(data), data.get("kind", ""), data.get("name", "").strip()
    if kind not in {child.name for child in child_kinds(parent.kind)}:
        raise AddressError(f"`{kind}` does not lie in {parent}; there lie "
                           f"{', '.join(child.name for child in child_kinds(parent.kind)) or 'no entities'}")
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
        raise Http404("nothing lies in an entity of this kind")
    kind = data.get("kind") if data.get("kind") in {child.name for child in kinds} else kinds[0].name
    return render_page(request, "entities/new.html", {
        "parent": address_link_to(parent), "kinds": kinds, "kind": kind, "name": data.get("name", ""), "fault": fault,
        "written": [(child.title, address_format(child.name)) for child in kinds], "back": entity_url(parent),
    }, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def describe(request: HttpRequest, address: str) -> HttpResponse:
    place = administrable_address_or_404(request, address)
    entity = entity_at(place)
    if entity is None:
        raise Http404("there is no such entity")
    if request.method != "POST":
        return _describe_page(request, entity, {"description": entity.description, "reason": ""})
    given = {name: request.POST.get(name, "").strip() for name in ("description", "reason")}
    try:
        outcome = _described(request, place, given)
    except GrantError as error:
        return _describe_page(request, entity, given, fault=str(error), status=400)
    if outcome is None:
        return _describe_page(request, entity_at(place), given, is_described_anew=True, status=409)
    messages.add_message(request, messages.SUCCESS if outcome.has_changed else messages.INFO, f"{outcome.sentence}.")
    return see_other(entity_url(place))


def _described(request: HttpRequest, place: Address, given: dict) -> Outcome | None:
    """None where it was described anew after the form was opened: one description would take the place of the other unread."""
    with transaction.atomic():
        lock_journal()
        now = seal(entity_at(place).description)
        if request.POST.get("was", now) != now:
            return None
        return describe_entity(author=request_author(request, given["reason"]), address=place, description=given["description"])


def _describe_page(request: HttpRequest, entity: Entity, given: dict, *, fault: str = "", is_described_anew: bool = False,
                   status: int = 200) -> HttpResponse:
    place = entity.address
    return render_page(request, "entities/describe.html", {
        "address_link": address_link_to(place), "title_address_link": address_link_to(place, linked=False),
        "was": seal(entity.description),
        "action": address_url("lifecycle-describe", place), "back": entity_url(place), "fault": fault,
        "is_described_anew": is_described_anew, "described": entity.description, **given,
    }, status=status)
