"""Finding addresses and principals by a part of their names."""

from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.shared.entity_search import parse_search, search_visible_entities
from authzconsole.web.shared.guard import auditor_required
from authzconsole.web.shared.links import address_link_to, entity_url
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section
from entities.models import Entity
from grants.models import User

MOST_LISTED = 8
MOST_SUGGESTED = 10
# the fields that name principals by their type, and those that name one of a single type without it
FIELDS = ("principal", "subject", "creator", "source", "target")
PLAIN_FIELDS = {"deleter": "user", "user": "user", "owner": "user", "one": "user", "other": "user", "group": "group"}


@dataclass(frozen=True, slots=True)
class Listing:
    """A list under a field that finds as one types. field: its name in a URL. kind: the one that it takes, or empty. opens:
    whether what is chosen is opened, and not written into the field."""

    field: str
    kind: str = ""
    opens: bool = False


# by the id of the list
LISTS = {
    "search-suggestions": Listing("q", opens=True),
    "entity-suggestions": Listing("entity"),
    "ask-artifact-suggestions": Listing("artifact", "artifact"),
    "ask-dataset_type-suggestions": Listing("dataset_type", "dataset_type"),
    "ask-owner-suggestions": Listing("owner", "kerberosprincipal"),
}


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """The page of what a text finds; for a field that finds as one types, the first of it as the options of its list."""
    listing = LISTS.get(requested_section(request))
    text = text_parameter(request, listing.field if listing else "q")
    found = search_visible_entities(request.user, text, MOST_LISTED,
                                    only=listing.kind) if listing else search_visible_entities(request.user, text)
    return render_page(request, "shared/forms/search_results.html" if listing else "explorer/search.html", {
        "searched": text, "found": found, "rows": [_shown(entity, listing is None) for entity in found.rows],
        "listing": listing, "list_id": requested_section(request), "is_short": parse_search(text).is_short,
        "is_cut": found.total > len(found.rows) or not found.is_all,
    })


def _shown(entity: Entity, linked: bool) -> dict:
    """linked: whether the address itself is a link, as it is but in an option, which is one already."""
    return {"entity": entity, "address_link": address_link_to(entity, linked=linked), "url": entity_url(entity)}


@require_safe
@auditor_required
def suggest_principals(request: HttpRequest) -> HttpResponse:
    """Options for a field that names a principal. Ordinary accounts get no lists of names."""
    field = next((name for name in (*FIELDS, *PLAIN_FIELDS) if name in request.GET), "")
    type_, colon, name = text_parameter(request, field, max_characters=150).partition(":")
    is_typed, only = bool(colon) and type_ in ("user", "group"), PLAIN_FIELDS.get(field)
    wanted = {only} if only else {type_} if is_typed else {"user", "group"}
    names = _names(wanted, name if is_typed else f"{type_}{colon}{name}")
    return render_page(request, "shared/forms/options.html", {"options": [n.split(":", 1)[1] if only else n for n in names]})


def _names(types: set[str], text: str) -> list[str]:
    users = User.objects.filter(username__icontains=text).order_by("username") if "user" in types else User.objects.none()
    groups = Group.objects.filter(name__icontains=text).order_by("name") if "group" in types else Group.objects.none()
    found = [f"user:{name}" for name in users.values_list("username", flat=True)[:MOST_SUGGESTED]]
    return found + [f"group:{name}" for name in groups.values_list("name", flat=True)[:MOST_SUGGESTED]]
