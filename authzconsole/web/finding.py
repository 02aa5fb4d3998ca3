"""Finding addresses and principals by a part of their names."""

from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.guard import overseers_only
from authzconsole.web.parameters import text_of
from authzconsole.web.places import place_of
from authzconsole.web.rendering import render_page
from entities.models import Entity
from entities.selectors import search, sorted_by_address
from grants.active import active_generation
from grants.models import User
from grants.seen import seen_by

MOST_FOUND = 50
FEW_MATCHES = 1_000
MOST_SUGGESTED = 10
# the fields that name principals by their type, and those that name one of a single type without it
FIELDS = ("principal", "subject", "creator", "source", "target")
PLAIN_FIELDS = {"deleter": "user", "user": "user", "owner": "user", "one": "user", "other": "user", "group": "group"}


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    text = text_of(request, "q")
    found = list(found_by(request.user, text)[: MOST_FOUND + 1])
    return render_page(request, "search.html", {
        "searched": text, "rows": [{"place": place_of(entity), "entity": entity} for entity in found[:MOST_FOUND]],
        "is_cut": len(found) > MOST_FOUND, "most": MOST_FOUND,
    })


def found_by(user: User, text: str) -> QuerySet[Entity]:
    """What the text finds of what the user sees, by address."""
    return _of_few(search(text)) if user.may_see_all else _seen(search(text), user)


def _seen(rows: QuerySet[Entity], user: User) -> QuerySet[Entity]:
    """From what the user holds, where that is little; else from what the text finds, where that is little. Where both are much,
    a page of it is mostly met soon. At most four queries."""
    seen = seen_by(user, active_generation())
    return rows.filter(seen.all_rows) if seen.is_few else _of_few(rows).filter(seen.first_rows)


def _of_few(rows: QuerySet[Entity]) -> QuerySet[Entity]:
    """The same rows, by their numbers where they are few: to go along all entities in their order finds only many soon. One
    query."""
    few = list(rows.order_by().values_list("pk", flat=True)[: FEW_MATCHES + 1])
    return rows if len(few) > FEW_MATCHES else sorted_by_address(Entity.objects.filter(pk__in=few))


@require_safe
@overseers_only
def suggest_principals(request: HttpRequest) -> HttpResponse:
    """Options for a field that names a principal. Ordinary accounts get no lists of names."""
    field = next((name for name in (*FIELDS, *PLAIN_FIELDS) if name in request.GET), "")
    type_, colon, name = text_of(request, field, most_characters=150).partition(":")
    is_typed, only = bool(colon) and type_ in ("user", "group"), PLAIN_FIELDS.get(field)
    wanted = {only} if only else {type_} if is_typed else {"user", "group"}
    names = _names(wanted, name if is_typed else f"{type_}{colon}{name}")
    return render_page(request, "_pieces/options.html", {"options": [n.split(":", 1)[1] if only else n for n in names]})


def _names(types: set[str], text: str) -> list[str]:
    users = User.objects.filter(username__icontains=text).order_by("username") if "user" in types else User.objects.none()
    groups = Group.objects.filter(name__icontains=text).order_by("name") if "group" in types else Group.objects.none()
    found = [f"user:{name}" for name in users.values_list("username", flat=True)[:MOST_SUGGESTED]]
    return found + [f"group:{name}" for name in groups.values_list("name", flat=True)[:MOST_SUGGESTED]]
