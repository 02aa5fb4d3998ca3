"""Two people side by side, and what would be lost if one of them left, or a group were removed."""

from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.people.principal_page import principal_or_404
from authzconsole.web.shared.guard import auditor_required
from authzconsole.web.shared.links import address_link_to, principal_link, principal_link_from_text, principal_url
from authzconsole.web.shared.paging import paginate_entities
from authzconsole.web.shared.parameters import name_parameter
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.privilege_cells import held_privileges, privilege_cells
from authzconsole.web.shared.rendering import render_page, requested_section
from grants.models import User
from grants.principal_names import storage_fault
from grants.principals.administrator_loss import MAX_ADMIN_GRANTS_READ, loss_if_removed
from grants.principals.principal_lists import MAX_COUNTED, capped_count
from grants.principals.user_comparison import MAX_DIFFERENCES, compare_groups, differing_entities

ROWS_A_PAGE = 20
MAX_NAMED = 20
FIELDS = ("one", "other")


@require_safe
@auditor_required
def compare_users(request: HttpRequest) -> HttpResponse:
    given = {name: name_from_input(name_parameter(request, name), "user") for name in FIELDS}
    context = {"given": given, "url": request.path, "most": MAX_COUNTED, "can_change": request.user.can_administer}
    if all(given.values()):
        users = {name: None if storage_fault(text) else User.objects.filter(username=text).first()
                 for name, text in given.items()}
        unknown = [given[name] for name, user in users.items() if user is None]
        fault = {"fault": f"user:{unknown[0]} is not known here: correct the name."} if unknown else {}
        context |= fault or _compared(request, **users)
    template = "people/_apart.html" if requested_section(request) == "apart" and "page" in context else "people/compare.html"
    return render_page(request, template, context)


def _compared(request: HttpRequest, one: User, other: User) -> dict:
    both, only_one, only_other = compare_groups(one, other)
    apart = differing_entities(one, other, only_one=only_one, only_other=only_other, both=both)
    page = paginate_entities(request, apart.entities, max_rows=ROWS_A_PAGE, total_rows=capped_count(apart.entities))
    ids = [entity.pk for entity in page.rows]
    held = [held_privileges(user, ids) for user in (one, other)]
    return {
        "people": [principal_link(one), principal_link(other)], "page": page, "total": page.total,
        "most_apart": MAX_DIFFERENCES if apart.are_more else 0,
        "rows": [{"address_link": address_link_to(entity), "entity": entity,
                  "cells": [privilege_cells(of[entity.pk], entity.state) for of in held]}
                 for entity in page.rows],
        "groups": [(title, [principal_link(group) for group in groups]) for title, groups in (
            ("Both", both), (f"Only {one.username}", only_one), (f"Only {other.username}", only_other))],
    }


@require_safe
@auditor_required
def off_board(request: HttpRequest, principal: str) -> HttpResponse:
    gone = principal_or_404(principal)
    found = loss_if_removed(gone)
    return render_page(request, "people/leaving.html", {
        "principal": principal_link(gone), "leaving": found, "looked_at": MAX_ADMIN_GRANTS_READ, "most": MAX_COUNTED,
        "back": principal_url("person", principal), "is_user": isinstance(gone, User),
        "rows": [{"address_link": address_link_to(row.entity), "admins": row.admins,
                  "heir": principal_link_from_text(f"user:{row.heir}") if row.heir else None} for row in found.rows],
        "more": found.none + found.one - len(found.rows), "can_change": request.user.can_administer,
        **(_of_user(gone) if isinstance(gone, User) else _of_group(gone)),
    })


def _of_user(user: User) -> dict:
    return {"groups": [principal_link(group) for group in user.groups.order_by("name")[:MAX_NAMED]]}


def _of_group(group: Group) -> dict:
    """Who would lose what it holds, unless they hold it otherwise too."""
    members = group.user_set.filter(is_active=True, is_principal=True)
    return {"grants": capped_count(group.grants), "total_members": capped_count(members),
            "members": [principal_link(user) for user in members.order_by("username")[:MAX_NAMED]]}
