"""The search page, which also finds people, plans and pages, and suggestions for form fields with addresses
and principals.
"""

from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.explorer.console_search import console_hits
from authzconsole.web.shared.entity_search import parse_search, search_visible_entities
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section
from grants.models import User
from grants.roles.capabilities import Capability

MAX_RESULTS_LISTED = 8
# results of each other type: in the suggestion list, and on the page
MAX_HITS_LISTED, MAX_HITS_SHOWN = 3, 10
# if there are also results of other types
MAX_ENTITIES_LISTED = 5
MAX_OPTIONS = 10
# form fields that take `user:NAME` or `group:NAME`
PRINCIPAL_FIELDS = ("principal", "subject", "creator", "source", "target")
# form fields for several principals, separated by commas; their names go on with an address
HEIR_FIELD_PREFIXES = ("entity-", "inside-")
# form fields that take the name of one type of principal
NAME_FIELDS = {
    "deleter": "user",
    "user": "user",
    "owner": "user",
    "one": "user",
    "other": "user",
    "like": "user",
    "group": "group",
}


@dataclass(frozen=True, slots=True)
class SuggestionList:
    """The suggestion list of a search field.

    field: query parameter with the text. kind: the only kind that the field accepts, or empty.
    opens: whether selecting a suggestion opens its page instead of filling the field.
    """

    field: str
    kind: str = ""
    opens: bool = False


# by the id of the list in the page
SUGGESTION_LISTS = {
    "search-suggestions": SuggestionList("q", opens=True),
    "entity-suggestions": SuggestionList("entity"),
    "ask-artifact-suggestions": SuggestionList("artifact", "artifact"),
    "ask-dataset_type-suggestions": SuggestionList("dataset_type", "dataset_type"),
    "ask-owner-suggestions": SuggestionList("owner", "kerberosprincipal"),
}


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """Render the search results as a page, or the first of them as options of a suggestion list."""
    suggestion_list = SUGGESTION_LISTS.get(requested_section(request))
    text = text_parameter(request, suggestion_list.field if suggestion_list else "q")
    groups = []
    if suggestion_list is None or suggestion_list.opens:
        groups = console_hits(request.user, text, MAX_HITS_LISTED if suggestion_list else MAX_HITS_SHOWN)
    max_listed = MAX_ENTITIES_LISTED if groups else MAX_RESULTS_LISTED
    result = (
        search_visible_entities(request.user, text, max_listed, only=suggestion_list.kind)
        if suggestion_list
        else search_visible_entities(request.user, text)
    )
    return render_page(
        request,
        "shared/forms/search_results.html" if suggestion_list else "explorer/search.html",
        {
            "searched": text,
            "result": result,
            "rows": result.rows,
            "suggestion_list": suggestion_list,
            "list_id": requested_section(request),
            "is_short": parse_search(text).is_short,
            "groups": groups,
            "total_found": len(result.rows) + sum(len(group.hits) for group in groups),
            "is_cut": result.total > len(result.rows) or not result.is_all,
        },
    )


@require_safe
@capability_required(Capability.READ_ALL, Capability.READ_ACCOUNTS)
def suggest_principals(request: HttpRequest) -> HttpResponse:
    """Render the options of a principal field. Ordinary accounts get 404, because they may not list names."""
    field = next(
        (
            name
            for name in request.GET
            if name in PRINCIPAL_FIELDS or name in NAME_FIELDS or _has_several(name)
        ),
        "",
    )
    text, kept = text_parameter(request, field, max_characters=1_000), ""
    if _has_several(field) and "," in text:
        kept, _, text = text.rpartition(",")
        kept, text = f"{kept}, ", text.lstrip()
    text = text[:150]
    type_, colon, name = text.partition(":")
    has_type, only_type = bool(colon) and type_ in ("user", "group"), NAME_FIELDS.get(field)
    types = {only_type} if only_type else {type_} if has_type else {"user", "group"}
    names = _matching_principals(types, name if has_type else f"{type_}{colon}{name}")
    options = [
        {"type": name.partition(":")[0], "value": name.partition(":")[2] if only_type else f"{kept}{name}"}
        for name in names
    ]
    return render_page(
        request,
        "shared/forms/options.html",
        {"options": options, "searched": text, "list_id": requested_section(request)},
    )


def _has_several(field: str) -> bool:
    """Return whether a form field takes several principals, separated by commas."""
    return field == "stranded_to" or field.startswith(HEIR_FIELD_PREFIXES)


def _matching_principals(types: set[str], text: str) -> list[str]:
    users = (
        User.objects.filter(username__icontains=text).order_by("username")
        if "user" in types
        else User.objects.none()
    )
    groups = (
        Group.objects.filter(name__icontains=text).order_by("name")
        if "group" in types
        else Group.objects.none()
    )
    result = [f"user:{name}" for name in users.values_list("username", flat=True)[:MAX_OPTIONS]]
    return result + [f"group:{name}" for name in groups.values_list("name", flat=True)[:MAX_OPTIONS]]
