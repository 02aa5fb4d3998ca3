"""The page of one user or group: visible entities, direct grants, groups or members, and history.

An account sees its own page at `my-access`, without forms and without the names of other principals.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import wraps

from django.contrib.auth.models import Group
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from analytics.analyses import DEFAULT_SINCE_DAYS
from authzconsole.common.limited_access import expired_link
from authzconsole.web.accounts.account_pages import account_or_404, account_section
from authzconsole.web.forms import PeriodForm
from authzconsole.web.journal.rows import MAX_LINES, journal_rows, latest_journal_lines
from authzconsole.web.people.access import effective_access_section
from authzconsole.web.people.managers import manager_of
from authzconsole.web.people.profile import Profile
from authzconsole.web.people.visibility_tree import visibility_section
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.paging import ADDRESS_ORDER, keyset_page
from authzconsole.web.shared.parameters import name_parameter, text_parameter
from authzconsole.web.shared.past import shows_past
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.privilege_cells import (
    groups_of_user,
    holder_cells,
    period_rows,
    privilege_cells,
)
from authzconsole.web.shared.rendering import render_page, requested_section
from entities.models import Entity
from entities.vocabulary import Privilege
from grants.active_generation import active_generation
from grants.errors import PrincipalError
from grants.evaluation.entity_filters import visibility_condition
from grants.evaluation.granted_levels import levels_of_groups
from grants.history import latest_membership_lines
from grants.journal_details import parse_detail
from grants.journal_queries import journal_lines
from grants.models import JournalLine, RoleGroup, RoleMembership, User, UserGrant, type_of
from grants.plans.sources.expired import PeriodScope
from grants.plans.sources.unused import UnusedAccess
from grants.policies.levels import LEVEL_OF_PRIVILEGE, Level
from grants.policies.principals import group_text
from grants.principal_names import format_principal
from grants.principals.principal_lists import MAX_COUNTED, capped_count, directly_granted_entities
from grants.principals.renaming import current_name
from grants.querysets import belongings, memberships
from grants.roles.capabilities import Capability
from grants.usage import days_with_use

ROWS_PER_PAGE = 20
MAX_GROUPS = 200
MAX_REPORTS = 10
# the parameter with which the page of a user or group with many grants has the visible entities at once
TREE = "tree"
# the lines of a user that are searched for those with which it joined its groups
MAX_JOINS = 1_000
PRIVILEGE_OF_LEVEL = {level: privilege for privilege, level in LEVEL_OF_PRIVILEGE.items()}


def _past_subject(principal: str) -> str | None:
    try:
        return format_principal(principal)
    except PrincipalError:
        return None


def _account_page_without_grants(view):
    """Redirect accounts that see accounts, but no grants, to the page of the account."""

    @wraps(view)
    def redirecting_view(request: HttpRequest, principal: str) -> HttpResponse:
        if request.user.can(Capability.READ_ACCOUNTS) and not request.user.can_see_all:
            return redirect(principal_url("account", str(account_or_404(principal))))
        return view(request, principal)

    return redirecting_view


@require_safe
@_account_page_without_grants
@capability_required(Capability.READ_ALL)
@shows_past(_past_subject)
def principal_page(request: HttpRequest, principal: str) -> HttpResponse:
    url = principal_url("person", principal)
    try:
        subject = principal_or_404(principal)
    except Http404:
        if (current := current_name(principal)) == principal:
            raise
        return redirect(principal_url("person", current))
    return _page_response(request, Profile(subject, url, active_generation(), request.user.can_administer))


@require_safe
def my_access(request: HttpRequest) -> HttpResponse:
    return _page_response(
        request, Profile(request.user, request.path, active_generation(), can_change=False, is_own=True)
    )


def _page_response(request: HttpRequest, profile: Profile) -> HttpResponse:
    """Render the page, or the one section that htmx requests.

    htmx loads the visible entities after the page if the grants are too many to count at once.
    """
    name = requested_section(request)
    context = {
        "profile": profile,
        "url": profile.url,
        "principal": principal_link(profile.principal),
        "can_change": profile.can_change,
        "generation": profile.generation,
        "max_counted": MAX_COUNTED,
    }
    if name in SECTIONS:
        section = SECTIONS[name](request, profile)
        if section is None:
            raise Http404("there is no such section")
        return render_page(request, f"people/_{name}.html", context | {name: section})
    access = effective_access_section(request, profile)
    known = {"access": access}
    if access["counts"] is None and TREE not in request.GET:
        # what takes too long to count takes too long to search too
        known["visibility"] = {"is_later": True}
    context |= known | {
        name: section(request, profile) for name, section in SECTIONS.items() if name not in known
    }
    return render_page(
        request,
        "people/page.html",
        context
        | {
            "can_see_as": request.user.can(Capability.SEE_AS),
            "unused_days": _unused_days(request, profile),
            "account": account_section(request, profile.principal)
            if _shows_account(request, profile)
            else "",
        },
    )


def _shows_account(request: HttpRequest, profile: Profile) -> bool:
    """Return whether the page has the section of the account: on pages of users, unless they show the past."""
    return (
        profile.is_user
        and not profile.is_own
        and getattr(request, "past", None) is None
        and request.user.can(Capability.READ_ACCOUNTS)
    )


def _unused_days(request: HttpRequest, profile: Profile) -> int:
    """Return for how many days the user has not used something that a plan would revoke; 0 if there is nothing, or if the
    account cannot create plans. Runs at most three queries.
    """
    if (
        not isinstance(profile.principal, User)
        or not profile.can_change
        or getattr(request, "past", None) is not None
    ):
        return 0
    days, today = min(days_with_use(), DEFAULT_SINCE_DAYS), timezone.now().date()
    access = UnusedAccess(profile.principal, today - timedelta(days=days))
    return days if days and access.exists() else 0


def _groups(request: HttpRequest, profile: Profile) -> dict | None:
    """Return the groups of a user by name, with what their grants give, and the journal line with which the user joined; None
    for a group. Runs five queries.
    """
    if not profile.is_user:
        return None
    found = list(
        memberships()
        .filter(user=profile.principal)
        .select_related("user", "group")
        .order_by("group__name")[: MAX_GROUPS + 1]
    )
    rows = found[:MAX_GROUPS]
    levels = levels_of_groups([row.group_id for row in rows])
    joins = _joins(request, profile) if profile.is_own or request.user.can_read_journal else {}
    return {
        "rows": [
            {
                "membership": row,
                "levels": _level_links(row.group.name, (levels or {}).get(row.group_id, {})),
                "join": joins.get(group_text(row.group.name)),
            }
            for row in rows
        ],
        "is_counted": levels is not None,
        "roles": list(
            RoleMembership.objects.filter(user=profile.principal)
            .select_related("role", "via__group")
            .order_by("role__name", "via__group__name")[:MAX_GROUPS]
        ),
        "is_cut": len(found) > MAX_GROUPS,
        "max_groups": MAX_GROUPS,
        "form": PeriodForm(auto_id="join-%s"),
    }


def _level_links(group: str, levels: Mapping[Level, int]) -> list[dict]:
    """Return the levels with the number of entities and the URL that lists these, where one privilege gives the level."""
    url = principal_url("person", group_text(group))
    return [
        {
            "level": level,
            "total": total,
            "url": f"{url}?holding={PRIVILEGE_OF_LEVEL[level]}#access" if level in PRIVILEGE_OF_LEVEL else "",
        }
        for level, total in levels.items()
    ]


def _joins(request: HttpRequest, profile: Profile) -> dict[str, JournalLine]:
    """Return the lines with which a user joined groups, by group. Runs one query."""
    lines = journal_lines(principal=profile.address, action="member-add")
    if past := getattr(request, "past", None):
        lines = lines.filter(place__lte=past.revision)
    joins: dict[str, JournalLine] = {}
    for line in lines[:MAX_JOINS]:
        detail = parse_detail(line.detail)
        # a line with an earlier period only changed it
        if detail.before is None:
            joins.setdefault(detail.rest, line)
    return joins


def _members(request: HttpRequest, profile: Profile) -> dict | None:
    """Return the memberships of a group by name; None for a user."""
    if profile.is_user:
        return None
    members, find = (
        memberships().filter(group=profile.principal),
        text_parameter(request, "member", max_characters=150),
    )
    page = keyset_page(
        request,
        members.filter(user__username__icontains=find).select_related("user", "group"),
        "user__username",
        max_rows=ROWS_PER_PAGE,
        prefix="member-",
    )
    # the groups in a role, or the roles of a group
    role_groups = list(
        RoleGroup.objects.filter(Q(role=profile.principal) | Q(group=profile.principal))
        .select_related("role", "group")
        .order_by("role__name", "group__name")[:MAX_GROUPS]
    )
    return {
        "page": page,
        "find": find,
        "total": capped_count(members) + sum(row.role_id == profile.principal.pk for row in role_groups),
        "role_groups": role_groups,
        "lines": _membership_lines(request, profile),
        "form": PeriodForm(auto_id="join-%s"),
    }


def _membership_lines(request: HttpRequest, profile: Profile) -> list[dict]:
    """Return the latest lines with which users joined or left the group; empty for an earlier state."""
    if not request.user.can_read_journal or getattr(request, "past", None) is not None:
        return []
    return journal_rows(latest_membership_lines(profile.principal.name, MAX_LINES))


def _grants(request: HttpRequest, profile: Profile) -> dict:
    """Return the direct grants of the principal, or those of its group in the URL parameter `through`, sorted
    by address.
    """
    ids = belongings().filter(user=profile.principal).values("group") if profile.is_user else ()
    groups = Group.objects.filter(pk__in=ids)
    group_name = name_parameter(request, "through")
    find = text_parameter(request, "holds", max_characters=200)
    group = groups.filter(name=group_name).first() if group_name else None
    holder = group or profile.principal
    entities = directly_granted_entities(holder)
    total = capped_count(entities)
    if find:
        entities = entities.filter(key__icontains=find)
    page = keyset_page(
        request, entities, *ADDRESS_ORDER, max_rows=ROWS_PER_PAGE, total=total, prefix="holds-"
    )
    return {
        "page": page,
        "rows": _grant_rows(profile, holder, page.rows),
        "total": total,
        "total_grants": capped_count(type_of(holder).grants_to(holder)),
        "find": find,
        "group": group,
        "expired": None if profile.is_own else expired_link(PeriodScope(profile.address)),
    }


def _grant_rows(profile: Profile, holder: User | Group, entities: list[Entity]) -> list[dict]:
    if profile.is_own:
        return _own_rows(profile, entities)
    holder_type = type_of(holder)
    grants: dict[int, dict] = {}
    direct = holder_type.grants_to(holder).filter(content_object__in=entities)
    for grant in direct.select_related("granted_by"):
        grants.setdefault(grant.content_object_id, {})[grant.privilege] = grant
    # a group holds nothing through groups
    groups = groups_of_user(holder, entities) if isinstance(holder, User) else {}
    return [
        {
            "entity": entity,
            "is_linked": True,
            "latest": max(grants[entity.pk].values(), key=lambda grant: grant.granted_at),
            "cells": holder_cells(
                entity,
                format_principal(holder),
                grants[entity.pk],
                groups.get(entity.pk, {}),
                can_change=profile.can_change,
            ),
            "periods": period_rows(
                entity, format_principal(holder), grants[entity.pk], can_change=profile.can_change
            ),
        }
        for entity in entities
    ]


def _own_rows(profile: Profile, entities: list[Entity]) -> list[dict]:
    """Return rows without authors and reasons. Only entities that the account can see are linked."""
    cells = privilege_cells(profile.principal, entities)
    visible = Entity.objects.filter(visibility_condition(profile.principal, profile.generation), pk__in=cells)
    visible_ids = set(visible.values_list("pk", flat=True))
    held: dict[int, dict] = {}
    for grant in UserGrant.objects.filter(user=profile.principal, content_object__in=entities):
        held.setdefault(grant.content_object_id, {})[grant.privilege] = grant
    return [
        {
            "entity": entity,
            "is_linked": entity.pk in visible_ids,
            "periods": period_rows(entity, "", held.get(entity.pk, {}), can_change=False, is_own=True),
            "cells": cells[entity.pk],
            "give_back": [
                (privilege, reverse("give-back", query={"entity": entity, "privilege": privilege}))
                for privilege in Privilege
                if privilege in held.get(entity.pk, {})
            ],
        }
        for entity in entities
    ]


def _manager(request: HttpRequest, profile: Profile) -> dict | None:
    """Return the manager of a user, and the first users that the user manages; None for a group, on the page of the account
    itself, and for an earlier state, because managers have no history.
    """
    if (
        profile.is_own
        or not isinstance(profile.principal, User)
        or getattr(request, "past", None) is not None
    ):
        return None
    reports = User.objects.filter(manager_link__manager=profile.principal).order_by("username")
    found = list(reports[: MAX_REPORTS + 1])
    return {
        "manager": manager_of(profile.principal),
        "reports": found[:MAX_REPORTS],
        "max_reports": MAX_REPORTS,
        "is_cut": len(found) > MAX_REPORTS,
    }


def _history(request: HttpRequest, profile: Profile) -> dict | None:
    if profile.is_own or not request.user.can_read_journal:
        return None
    return latest_journal_lines(request, principal=profile.address)


# by the id of the section; its template is people/_<id>.html
SECTIONS: dict[str, Callable[[HttpRequest, Profile], dict | None]] = {
    "access": effective_access_section,
    "visibility": visibility_section,
    "grants": _grants,
    "groups": _groups,
    "members": _members,
    "manager": _manager,
    "history": _history,
}
