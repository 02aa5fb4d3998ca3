"""The page of one entity. Its tabs and their sections can be requested one by one with htmx."""

from collections.abc import Callable
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from authzconsole.web.ask.questions import ask_section
from authzconsole.web.entities.access import access_section, totals_section
from authzconsole.web.entities.children import children_section, selection_of
from authzconsole.web.entities.holders import holders_section
from authzconsole.web.entities.stewards import stewards_section
from authzconsole.web.entities.tabs import current_tab, tab_links, tabs_of
from authzconsole.web.journal.history import history_section
from authzconsole.web.reports.readiness import readiness_section
from authzconsole.web.shared.guard import address_or_404, entity_or_404
from authzconsole.web.shared.links import address_url, entity_tab_url, entity_url
from authzconsole.web.shared.paging import url_with_query
from authzconsole.web.shared.past import shows_past
from authzconsole.web.shared.rendering import render_page, requested_section
from authzconsole.web.shared.visible_entities import breadcrumbs_of
from entities.address import Address, AddressError, parse_address
from entities.models import Entity, State
from entities.selectors import children_of, entity_at
from entities.vocabulary import KINDS, child_kinds
from grants.active_generation import active_generation
from grants.models import GroupGrant, UserGrant
from grants.policies.policy import Generation
from grants.roles.capabilities import Capability

Section = Callable[[HttpRequest, Entity, Generation], dict | None]


def _children(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    section = children_section(request, entity, generation)
    if section is not None and request.user.can_administer:
        selection = section["selection"] = selection_of(request, section["page"])
        for row in section["rows"]:
            row["is_selected"] = str(row["entity"]) in selection["selected"]
    return section


# by the id of the section; its template is entities/_<id>.html
SECTIONS: dict[str, Section] = {
    "children": _children,
    "access": access_section,
    "totals": totals_section,
    "holders": holders_section,
    "ask": ask_section,
    "readiness": readiness_section,
    "stewards": stewards_section,
    "history": history_section,
}

DELETE = ("delete", "Delete")
VERBS = {State.PLANNED: ("register", "Register"), State.LIVE: DELETE, State.DELETED: ("recreate", "Recreate")}


def _past_subject(address: str) -> Address | None:
    try:
        return parse_address(address)
    except AddressError:
        return None


@require_safe
@shows_past(_past_subject)
def entity_page(request: HttpRequest, address: str) -> HttpResponse:
    requested_address = address_or_404(address)
    if (
        request.user.can_see_all
        and not getattr(request, "past", None)
        and entity_at(requested_address) is None
    ):
        return _unregistered_response(request, requested_address)
    generation = active_generation()
    entity = entity_or_404(request, address)
    section = requested_section(request)
    if section in SECTIONS:
        context = _section_context(request, entity, generation, section)
        if context[section] is None:
            raise Http404("there is no such section")
        return render_page(request, f"entities/_{section}.html", context)
    if section == "tab":
        return render_page(request, "entities/_tab.html", _tab_context(request, entity, generation))
    template = "entities/_detail.html" if section == "detail" else "entities/page.html"
    return render_page(
        request, template, _page_context(request, entity, generation) | {"is_section": section == "detail"}
    )


def _section_context(request: HttpRequest, entity: Entity, generation: Generation, *sections: str) -> dict:
    return {
        "entity": entity,
        "url": entity_url(entity),
        "can_change": request.user.can_administer,
        "grant_url": address_url("grant", entity),
        **{section: SECTIONS[section](request, entity, generation) for section in sections},
    }


def _tab_context(request: HttpRequest, entity: Entity, generation: Generation) -> dict:
    """Return the context of the current tab. The sections of other tabs are not computed."""
    tabs = tabs_of(request, entity)
    tab = current_tab(request, tabs)
    return _section_context(request, entity, generation, *tab.sections) | {
        "tab": tab,
        "tab_template": f"entities/tabs/{tab.name}.html",
        "tabs": tab_links(request, tabs, tab),
        "generation": generation,
    }


def _page_context(request: HttpRequest, entity: Entity, generation: Generation) -> dict:
    verbs = _verbs(entity) if request.user.can_administer and entity.kind != "instance" else []
    return _tab_context(request, entity, generation) | {
        "trail": breadcrumbs_of(entity, request.user, generation),
        "verbs": [(verb, title, address_url("lifecycle", entity, verb)) for verb, title in verbs],
        "readiness_url": _readiness_url(request, entity),
        "request_url": _request_url(request, entity),
        "hint": _hint(entity) if request.user.can_see_all else _own_hint(entity),
        "bulk_change_url": _bulk_change_url(request, entity),
        "new_kinds": child_kinds(entity.kind) if request.user.can_administer and entity.is_live else [],
    }


def _verbs(entity: Entity) -> list[tuple[str, str]]:
    """Return the lifecycle actions as (verb, title).

    A planned entity can be deleted if it has no grants and no children.
    """
    can_delete = (
        entity.state == State.PLANNED and not _total_grants(entity) and not children_of(entity).exists()
    )
    return [VERBS[entity.state], *([DELETE] if can_delete else [])]


def _bulk_change_url(request: HttpRequest, entity: Entity) -> str:
    """Return the URL of a bulk change inside the entity; empty if there is nothing that the account could
    change.
    """
    if not (request.user.can_administer and entity.is_live and child_kinds(entity.kind)):
        return ""
    return f"{reverse('plan-bulk-change')}?{urlencode({'within': str(entity)}, safe=':')}"


def _readiness_url(request: HttpRequest, entity: Entity) -> str:
    """Return the URL of the section that says whether a namespace can be deleted; empty if it has no such
    section.
    """
    is_now = not getattr(request, "past", None)
    can_read = request.user.can_see_all and request.user.can(Capability.READ_REPORTS)
    has_section = entity.kind == "namespace" and entity.is_live and can_read and is_now
    return f"{entity_tab_url(entity, 'ask')}#readiness" if has_section else ""


def _request_url(request: HttpRequest, entity: Entity) -> str:
    """Return the URL that requests access to the entity; empty for accounts that see everything."""
    return "" if request.user.can_see_all else url_with_query("request-new", {"entity": entity})


def _hint(entity: Entity) -> tuple[str, str] | None:
    if entity.is_live:
        return None
    total = _total_grants(entity)
    if entity.state == State.PLANNED:
        grants = f"{total:,} grant applies" if total == 1 else f"{total:,} grants apply"
        effect = f"{grants} once it exists." if total else "It has no grants."
        return ("planned", f"Planned: this {entity.kind_title} does not exist yet. {effect}")
    if not total:
        return ("info", f"Deleted: this {entity.kind_title} no longer exists and has no grants left.")
    grants = (
        "1 grant remains as a ghost grant and would"
        if total == 1
        else f"{total:,} grants remain as ghost grants and would"
    )
    return (
        "warning",
        f"Deleted: this {entity.kind_title} no longer exists, but {grants} apply again if it is recreated.",
    )


def _total_grants(entity: Entity) -> int:
    return sum(model.objects.filter(content_object=entity).count() for model in (UserGrant, GroupGrant))


def _own_hint(entity: Entity) -> tuple[str, str] | None:
    """Return the notice for an ordinary account, which may not see the grants of others."""
    match entity.state:
        case State.PLANNED:
            return ("planned", f"This {entity.kind_title} does not exist yet.")
        case State.DELETED:
            return ("info", f"This {entity.kind_title} no longer exists.")
    return None


def _unregistered_response(request: HttpRequest, address: Address) -> HttpResponse:
    """Render a 404 page for an unregistered address, with links to register it and to grant on it.

    Only for accounts that see everything.
    """
    return render_page(
        request,
        "entities/unregistered.html",
        {
            "target": address,
            "kind": KINDS[address.kind],
            "can_change": request.user.can_administer and address.kind != "instance",
            "register_url": address_url("lifecycle", address, "register"),
        },
        status=404,
    )
