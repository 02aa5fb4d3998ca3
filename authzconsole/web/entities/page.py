"""The page of one entity. Its tabs and their sections can be requested one by one with htmx. Each tab has a URL and contains some
sections.
"""

from collections.abc import Callable
from datetime import timedelta

from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.ask.questions import FIELDS, ask_section
from authzconsole.web.entities.access import PARAMETERS, access_section, totals_section
from authzconsole.web.entities.children import children_section
from authzconsole.web.entities.holders import holders_section
from authzconsole.web.entities.stewards import stewards_section
from authzconsole.web.journal.evidence import evidence_url
from authzconsole.web.journal.rows import history_section
from authzconsole.web.reports.readiness import readiness_section
from authzconsole.web.shared.guard import address_or_404, entity_or_404
from authzconsole.web.shared.links import address_url, entity_tab_url, entity_url
from authzconsole.web.shared.past import shows_past
from authzconsole.web.shared.rendering import render_page, requested_section
from authzconsole.web.shared.visible_entities import breadcrumbs_of
from entities.address import Address, address_or_none, parse_address, parse_grantable
from entities.frozen import frozen
from entities.models import PATTERN, Entity, State
from entities.patterns import containers_revealed_by, entities_matching
from entities.selectors import children_of, entity_at, sorted_by_address
from entities.vocabulary import KINDS, child_kinds
from grants.active_generation import active_generation
from grants.authority.rights import can_read_history
from grants.models import GroupGrant, UserGrant
from grants.policies.policy import Generation
from grants.requests.catalogue import can_publish
from grants.roles.capabilities import Capability


@frozen
class Tab:
    """A tab. name: value of the query parameter `tab`, and its template `entities/tabs/<name>.html`.

    sections: ids of the sections in it. parameters: query parameters of its forms. They select the tab if the
    URL does not name one, so that forms work without scripts and links do not need to name the tab.
    """

    name: str
    title: str
    sections: tuple[str, ...]
    parameters: tuple[str, ...] = ()


INSIDE = Tab("inside", "Contents", ("children",))
ACCESS = Tab(
    "access", "Access", ("access", "holders", "stewards"), ("holder", "order", "holders", *PARAMETERS)
)
ASK = Tab("ask", "Ask", ("ask", "readiness"), (*FIELDS, "deleter"))
HISTORY = Tab("history", "History", ("history",))


def tabs_of(request: HttpRequest, entity: Entity) -> list[Tab]:
    """Return the tabs of an entity: Inside only if it can have children, History only if the account can read
    its lines.
    """
    inside = [INSIDE] if child_kinds(entity.kind) else []
    return [*inside, ACCESS, ASK, *([HISTORY] if can_read_history(request.user, entity) else [])]


def current_tab(request: HttpRequest, tabs: list[Tab]) -> Tab:
    """Return the tab that the URL names, or else the last one that its parameters belong to, or else the
    first.

    The last tab is preferred because a question is the most specific: the URL of a question may also contain
    a page of holders.
    """
    by_name = {tab.name: tab for tab in tabs}
    if (name := request.GET.get("tab", "")) in by_name:
        return by_name[name]
    return next(
        (tab for tab in reversed(tabs) if any(parameter in request.GET for parameter in tab.parameters)),
        tabs[0],
    )


Section = Callable[[HttpRequest, Entity, Generation], dict | None]


# by the id of the section; its template is entities/_<id>.html
SECTIONS: dict[str, Section] = {
    "children": children_section,
    "access": access_section,
    "totals": totals_section,
    "holders": holders_section,
    "ask": ask_section,
    "readiness": readiness_section,
    "stewards": stewards_section,
    "history": history_section,
}

# how many of the entities that a pattern matches its page lists
MAX_MATCHING = 50
DELETE = ("delete", "Delete")
VERBS = {State.PLANNED: ("register", "Register"), State.LIVE: DELETE, State.DELETED: ("recreate", "Recreate")}


@require_safe
@shows_past(lambda address: address_or_none(address))
def entity_page(request: HttpRequest, address: str) -> HttpResponse:
    requested_address = address_or_404(
        address, parse_grantable if request.user.can_see_all else parse_address
    )
    if requested_address.is_pattern:
        return _pattern_response(request, requested_address)
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
        "generation": generation,
        **{section: SECTIONS[section](request, entity, generation) for section in sections},
    }


def _tab_context(request: HttpRequest, entity: Entity, generation: Generation) -> dict:
    """Return the context of the current tab. The sections of other tabs are not computed."""
    tabs = tabs_of(request, entity)
    tab = current_tab(request, tabs)
    return _section_context(request, entity, generation, *tab.sections) | {
        "tab": tab,
        "tab_template": f"entities/tabs/{tab.name}.html",
        "tabs": tabs,
    }


def _page_context(request: HttpRequest, entity: Entity, generation: Generation) -> dict:
    verbs = _verbs(entity) if request.user.can_administer and entity.kind != "instance" else []
    return _tab_context(request, entity, generation) | {
        "trail": breadcrumbs_of(entity, request.user, generation),
        "verbs": [(verb, title, address_url("lifecycle", entity, verb)) for verb, title in verbs],
        "has_changed": entity.changed_at - entity.created_at > timedelta(minutes=1),
        "publish_url": address_url("publish", entity) if _can_publish(request, entity) else "",
        "evidence_url": evidence_url(entity) if request.user.can_read_journal else "",
        "readiness_url": _readiness_url(request, entity),
        "total_grants": _total_grants(entity) if request.user.can_see_all and not entity.is_live else None,
        "new_kinds": child_kinds(entity.kind) if request.user.can_administer and entity.is_live else [],
    }


def _can_publish(request: HttpRequest, entity: Entity) -> bool:
    return entity.is_live and not getattr(request, "past", None) and can_publish(request.user, entity.address)


def _verbs(entity: Entity) -> list[tuple[str, str]]:
    """Return the lifecycle actions as (verb, title).

    A planned entity can be deleted if it has no grants and no children.
    """
    can_delete = (
        entity.state == State.PLANNED and not _total_grants(entity) and not children_of(entity).exists()
    )
    return [VERBS[entity.state], *([DELETE] if can_delete else [])]


def _readiness_url(request: HttpRequest, entity: Entity) -> str:
    """Return the URL of the section that says whether a namespace can be deleted; empty if it has no such
    section.
    """
    is_now = not getattr(request, "past", None)
    can_read = request.user.can_see_all and request.user.can(Capability.READ_REPORTS)
    has_section = entity.kind == "namespace" and entity.is_live and can_read and is_now
    return f"{entity_tab_url(entity, 'ask')}#readiness" if has_section else ""


def _total_grants(entity: Entity) -> int:
    return sum(model.objects.filter(content_object=entity).count() for model in (UserGrant, GroupGrant))


def _pattern_response(request: HttpRequest, pattern: Address) -> HttpResponse:
    """Render the page of a pattern, with what it matches and its holders. Only for accounts that see everything."""
    row = entity_at(pattern) or Entity(pk=0, kind=pattern.kind, key=pattern.key, state=PATTERN)
    context = _section_context(request, row, active_generation(), "holders")
    if requested_section(request) == "holders":
        return render_page(request, "entities/_holders.html", context)
    matching = sorted_by_address(entities_matching(pattern))
    counts = dict(matching.order_by().values_list("state").annotate(Count("pk")))
    return render_page(
        request,
        "entities/pattern.html",
        context
        | {
            "matching": matching[:MAX_MATCHING],
            "counts": [(state.label, counts[state]) for state in State if state in counts],
            "total": sum(counts.values()),
            "more": max(0, sum(counts.values()) - MAX_MATCHING),
            "plural": KINDS[pattern.kind].plural,
            "containers": containers_revealed_by(pattern).count(),
        },
    )


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
