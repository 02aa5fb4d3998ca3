"""Compare two users, and show which entities would be stranded by off-boarding a user or removing a group."""

from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.shared.guard import auditor_required
from authzconsole.web.shared.links import address_link_to, principal_link, principal_link_from_text, principal_url
from authzconsole.web.shared.paging import paginate_entities
from authzconsole.web.shared.parameters import name_parameter
from authzconsole.web.shared.principal_input import name_from_input, principal_or_404
from authzconsole.web.shared.privilege_cells import held_privileges, privilege_cells
from authzconsole.web.shared.rendering import render_page, requested_section
from entities.text import storage_fault
from grants.models import User
from grants.principals.administrator_loss import MAX_ADMIN_GRANTS_READ, loss_if_removed
from grants.principals.principal_lists import MAX_COUNTED, capped_count
from grants.principals.user_comparison import MAX_DIFFERENCES, compare_groups, differing_entities

ROWS_PER_PAGE = 20
MAX_PRINCIPALS = 20
FIELDS = ("one", "other")


@require_safe
@auditor_required
def compare_users(request: HttpRequest) -> HttpResponse:
    """Show the entities and groups in which two users differ. URL parameters: one, other."""
    names = {field: name_from_input(name_parameter(request, field), "user") for field in FIELDS}
    context = {"names": names, "url": request.path, "max_counted": MAX_COUNTED, "can_change": request.user.can_administer}
    if all(names.values()):
        context |= _comparison(request, names)
    is_section = requested_section(request) == "differences" and "page" in context
    return render_page(request, "people/_differences.html" if is_section else "people/compare.html", context)


def _comparison(request: HttpRequest, names: dict[str, str]) -> dict:
    users = {field: None if storage_fault(name) else User.objects.filter(username=name).first() for field, name in names.items()}
    unknown_names = [names[field] for field, user in users.items() if user is None]
    if unknown_names:
        return {"fault": f"No user named {unknown_names[0]}."}
    return _differences(request, **users)


def _differences(request: HttpRequest, one: User, other: User) -> dict:
    groups = compare_groups(one, other)
    differences = differing_entities(one, other, groups)
    total_rows = capped_count(differences.entities)
    page = paginate_entities(request, differences.entities, max_rows=ROWS_PER_PAGE, total_rows=total_rows)
    entity_ids = [entity.pk for entity in page.rows]
    privileges_by_user = [held_privileges(user, entity_ids) for user in (one, other)]
    group_lists = (("Both", groups.common), (f"Only {one.username}", groups.only_first),
                   (f"Only {other.username}", groups.only_second))
    return {
        "users": [principal_link(one), principal_link(other)], "page": page, "total": page.total,
        "max_compared": MAX_DIFFERENCES if differences.is_truncated else 0,
        "rows": [{"address_link": address_link_to(entity), "entity": entity,
                  "cells": [privilege_cells(privileges[entity.pk], entity.state) for privileges in privileges_by_user]}
                 for entity in page.rows],
        "group_lists": [(title, [principal_link(group) for group in listed]) for title, listed in group_lists],
    }


@require_safe
@auditor_required
def off_board(request: HttpRequest, principal: str) -> HttpResponse:
    """Show which entities would be stranded if the user were off-boarded or the group removed."""
    subject = principal_or_404(principal)
    loss = loss_if_removed(subject)
    rows = [{"address_link": address_link_to(row.entity), "admins": row.admin_count,
             "remaining_admin": principal_link_from_text(f"user:{row.remaining_admin}") if row.remaining_admin else None}
            for row in loss.first_entities]
    return render_page(request, "people/off_board.html", {
        "principal": principal_link(subject), "loss": loss, "max_checked": MAX_ADMIN_GRANTS_READ, "max_counted": MAX_COUNTED,
        "back": principal_url("person", principal), "is_user": isinstance(subject, User),
        "rows": rows, "more": loss.stranded_count - len(rows), "can_change": request.user.can_administer,
        **(_user_groups(subject) if isinstance(subject, User) else _affected_members(subject)),
    })


def _user_groups(user: User) -> dict:
    return {"groups": [principal_link(group) for group in user.groups.order_by("name")[:MAX_PRINCIPALS]]}


def _affected_members(group: Group) -> dict:
    """Return the active members of the group. They lose the privileges that they hold only through the group."""
    members = group.user_set.active_principals()
    return {"grants": capped_count(group.grants), "total_members": capped_count(members),
            "members": [principal_link(user) for user in members.order_by("username")[:MAX_PRINCIPALS]]}
