"""The page that gives a user the access of a colleague, or makes two users alike, item by item, with one
plan.
"""

from collections.abc import Iterable
from itertools import islice

from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import (
    address_link_to,
    principal_link,
    principal_link_from_text,
    principal_url,
)
from authzconsole.web.shared.parameters import field_text
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, see_other
from entities.text import storage_fault
from grants.change_set import Grant, Join, Leave
from grants.errors import GrantError
from grants.models import PlanVerb, User
from grants.plans.create import MAX_PLAN_ITEMS
from grants.plans.sources.like import (
    AccessDifference,
    DifferenceSelection,
    create_like_plan,
    difference_key,
    differences,
)
from grants.principals.principal_lists import MAX_COUNTED, groups_with_counts
from grants.roles.capabilities import Capability
from grants.validity import Validity

# items with a checkbox of their own; one checkbox stands for all others
MAX_ITEMS = 500
PARTS = {
    PlanVerb.JOIN: "Groups to join",
    PlanVerb.GRANT: "Direct grants to add",
    PlanVerb.LEAVE: "Groups to leave",
    PlanVerb.REVOKE: "Direct grants to revoke",
}
FIELDS = ("source", "target", "remove", "rest")


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def like_colleague(request: HttpRequest) -> HttpResponse:
    """Show in which items the user `target` differs from the user `source`, and create a plan of the chosen
    ones.

    URL parameters: source, target, remove (`yes`: also remove what only the target has).
    """
    data = request.POST if request.method == "POST" else request.GET
    form = {name: field_text(data, name) for name in FIELDS}
    names = {name: name_from_input(form[name], "user") for name in ("source", "target")}
    users = {
        name: None if storage_fault(text) else User.objects.filter(username=text).first()
        for name, text in names.items()
    }
    context: dict = {
        "names": names,
        "remove": form["remove"] == "yes",
        "max_items": MAX_ITEMS,
        "max_counted": MAX_COUNTED,
    }
    if unknown := next((names[name] for name, user in users.items() if names[name] and user is None), ""):
        status = 400 if request.method == "POST" else 200
        return _response(request, context | {"fault": f"No user named {unknown}."}, status=status)
    source, target = users["source"], users["target"]
    if source is None or target is None:
        return _response(request, context)
    removes = context["remove"]
    selection = DifferenceSelection(removes=removes)
    rows = [row for row in islice(differences(source, target), MAX_PLAN_ITEMS + 1) if selection.has(row)]
    chosen = _default_keys(rows, removes)
    if request.method == "POST":
        chosen = {
            *request.POST.getlist("item"),
            *(map(difference_key, rows[MAX_ITEMS:]) if form["rest"] == "yes" else ()),
        }
        keys = None if chosen.issuperset(map(difference_key, rows)) else frozenset(chosen)
        try:
            plan = create_like_plan(
                author=request_author(request),
                source=source.username,
                target=target.username,
                selection=DifferenceSelection(keys, removes),
            )
        except GrantError as error:
            return _response(
                request, context | _choices(source, target, rows, chosen) | {"fault": f"{error}."}, status=400
            )
        return see_other(plan_url(plan))
    return _response(request, context | _choices(source, target, rows, chosen))


def _default_keys(rows: Iterable[AccessDifference], removes: bool) -> set[str]:
    """Return the items that are selected at first: the groups, or everything if the users are made alike."""
    return {difference_key(row) for row in rows if removes or isinstance(row, Join)}


def _choices(source: User, target: User, rows: list[AccessDifference], chosen: set[str]) -> dict:
    shown, rest = rows[:MAX_ITEMS], rows[MAX_ITEMS:]
    names = [row.group for row in shown if isinstance(row, Join | Leave)]
    groups = {group.name: group for group in groups_with_counts(Group.objects.filter(name__in=names))}
    parts = [
        {
            "title": title,
            "verb": verb.value,
            "rows": [_row(row, groups, chosen) for row in shown if row.verb == verb],
        }
        for verb, title in PARTS.items()
    ]
    return {
        "source": principal_link(source),
        "target": principal_link(target),
        "parts": [part for part in parts if part["rows"]],
        "total": len(rows),
        "rest": len(rest),
        "is_rest_selected": bool(rest) and difference_key(rest[0]) in chosen,
        "selected": sum(difference_key(row) in chosen for row in rows),
        "back": principal_url("person", str(target)),
        "is_target_inactive": not target.is_active,
    }


def _row(row: AccessDifference, groups: dict, chosen: set[str]) -> dict:
    key = difference_key(row)
    context = {
        "key": key,
        "is_selected": key in chosen,
        "validity": row.validity if isinstance(row, Join | Grant) else Validity(),
    }
    if isinstance(row, Join | Leave):
        group = principal_link_from_text(f"group:{row.group}")
        return context | {"group": group, "counts": groups.get(row.group)}
    return context | {"privilege": row.privilege, "address_link": address_link_to(row.address)}


def _response(request: HttpRequest, context: dict, *, status: int = 200) -> HttpResponse:
    return render_page(request, "people/changes/like.html", context, status=status)
