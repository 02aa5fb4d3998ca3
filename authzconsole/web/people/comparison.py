"""Two people side by side, and what would be lost if one of them left, or a group were removed."""

from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.people.principal_page import principal_or_404
from authzconsole.web.shared.guard import overseers_only
from authzconsole.web.shared.links import place_of, principal_named, principal_shown, principal_url
from authzconsole.web.shared.paging import page_of_entities
from authzconsole.web.shared.parameters import name_of
from authzconsole.web.shared.principal_input import name_meant
from authzconsole.web.shared.privilege_cells import held_by, held_cells
from authzconsole.web.shared.rendering import render_page, target_part
from grants.models import User
from grants.principal_names import text_fault
from grants.principals.administrator_loss import MOST_LOOKED_AT, leaving_of
from grants.principals.principal_lists import MOST_COUNTED, count_to
from grants.principals.user_comparison import MOST_APART, entities_told_apart, groups_compared

ROWS_A_PAGE = 20
MAX_NAMED = 20
FIELDS = ("one", "other")


@require_safe
@overseers_only
def compare_users(request: HttpRequest) -> HttpResponse:
    given = {name: name_meant(name_of(request, name), "user") for name in FIELDS}
    context = {"given": given, "url": request.path, "most": MOST_COUNTED, "can_change": request.user.may_administer}
    if all(given.values()):
        users = {name: None if text_fault(text) else User.objects.filter(username=text).first() for name, text in given.items()}
        unknown = [given[name] for name, user in users.items() if user is None]
        fault = {"fault": f"user:{unknown[0]} is not known here: correct the name."} if unknown else {}
        context |= fault or _compared(request, **users)
    template = "people/_apart.html" if target_part(request) == "apart" and "page" in context else "people/compare.html"
    return render_page(request, template, context)


def _compared(request: HttpRequest, one: User, other: User) -> dict:
    both, only_one, only_other = groups_compared(one, other)
    apart = entities_told_apart(one, other, only_one=only_one, only_other=only_other, both=both)
    page = page_of_entities(request, apart.entities, most_rows=ROWS_A_PAGE, total_rows=count_to(apart.entities))
    ids = [entity.pk for entity in page.rows]
    held = [held_by(user, ids) for user in (one, other)]
    return {
        "people": [principal_shown(one), principal_shown(other)], "page": page, "total": page.total,
        "most_apart": MOST_APART if apart.are_more else 0,
        "rows": [{"place": place_of(entity), "entity": entity, "cells": [held_cells(of[entity.pk], entity.state) for of in held]}
                 for entity in page.rows],
        "groups": [(title, [principal_shown(group) for group in groups]) for title, groups in (
            ("Both", both), (f"Only {one.username}", only_one), (f"Only {other.username}", only_other))],
    }


@require_safe
@overseers_only
def off_board(request: HttpRequest, principal: str) -> HttpResponse:
    gone = principal_or_404(principal)
    found = leaving_of(gone)
    return render_page(request, "people/leaving.html", {
        "principal": principal_shown(gone), "leaving": found, "looked_at": MOST_LOOKED_AT, "most": MOST_COUNTED,
        "back": principal_url("person", principal), "is_user": isinstance(gone, User),
        "rows": [{"place": place_of(row.entity), "admins": row.admins,
                  "heir": principal_named(f"user:{row.heir}") if row.heir else None} for row in found.rows],
        "more": found.none + found.one - len(found.rows), "can_change": request.user.may_administer,
        **(_of_user(gone) if isinstance(gone, User) else _of_group(gone)),
    })


def _of_user(user: User) -> dict:
    return {"groups": [principal_shown(group) for group in user.groups.order_by("name")[:MAX_NAMED]]}


def _of_group(group: Group) -> dict:
    """Who would lose what it holds, unless they hold it otherwise too."""
    members = group.user_set.filter(is_active=True, is_principal=True)
    return {"grants": count_to(group.grants), "total_members": count_to(members),
            "members": [principal_shown(user) for user in members.order_by("username")[:MAX_NAMED]]}
