"""The page of one user or group: where it belongs, what it holds, and what it sees. An ordinary account gets its own."""

from collections.abc import Callable
from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.journal.history import history_of
from authzconsole.web.people.visibility_tree import sight_section
from authzconsole.web.shared.guard import auditor_required
from authzconsole.web.shared.links import address_link_to, principal_link, principal_url
from authzconsole.web.shared.paging import paginate_entities, paginate_names, url_with
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.privilege_cells import held_privileges, holder_cells, privilege_cells
from authzconsole.web.shared.rendering import render_page, requested_section
from entities.models import Entity
from entities.selectors import sorted_by_address
from grants.active_generation import active_generation
from grants.errors import PrincipalError
from grants.evaluation.entity_filters import visibility_condition
from grants.models import GRANT_TABLES, Role, User
from grants.policies.policy import Generation
from grants.principal_names import parse_principal
from grants.principal_rows import principals_by_name
from grants.principals.principal_lists import MAX_COUNTED, capped_count, held_entities

ROWS_A_PAGE = 20
MAX_GROUPS = 200
NO_PRINCIPAL = ("This account only signs in to the console: it is an unknown subject in every decision until it is granted "
                "something or joins a group.")
INACTIVE = "Inactive: cannot sign in and is denied everything. What it holds stays, and applies again once it is active."


@dataclass(frozen=True, slots=True)
class PrincipalPage:
    """Whose page it is. is_own: an account looks at itself, and changes nothing."""

    principal: User | Group
    url: str
    generation: Generation
    can_change: bool
    is_own: bool = False

    @property
    def written(self) -> str:
        return f"user:{self.principal.username}" if self.is_user else f"group:{self.principal.name}"

    @property
    def is_user(self) -> bool:
        return isinstance(self.principal, User)


def principal_or_404(text: str) -> User | Group:
    try:
        parse_principal(text)
    except PrincipalError as error:
        raise Http404(str(error)) from None
    found = principals_by_name([text]).get(text)
    if found is None:
        raise Http404("there is no such person or group")
    return found


@require_safe
@auditor_required
def principal_page(request: HttpRequest, principal: str) -> HttpResponse:
    found = principal_or_404(principal)
    url = principal_url("person", principal)
    return _page(request, PrincipalPage(found, url, active_generation(), request.user.can_administer))


@require_safe
def my_access(request: HttpRequest) -> HttpResponse:
    return _page(request, PrincipalPage(request.user, request.path, active_generation(), can_change=False, is_own=True))


def _page(request: HttpRequest, asked: PrincipalPage) -> HttpResponse:
    part = requested_section(request)
    context = {"asked": asked, "url": asked.url, "principal": principal_link(asked.principal), "can_change": asked.can_change,
               "generation": asked.generation, "most": MAX_COUNTED}
    if part in SECTIONS:
        section = SECTIONS[part](request, asked)
        if section is None:
            raise Http404("there is no such part")
        return render_page(request, f"people/_{part}.html", context | {part: section})
    context |= {name: section(request, asked) for name, section in SECTIONS.items()}
    return render_page(request, "people/page.html", context | {
        "hints": list(_hints(asked)), "role": Role(asked.principal.role).label if asked.is_user else "",
        "leaving_url": principal_url("person-leaving", asked.written), "account_url": principal_url("account", asked.written),
    })


def _hints(asked: PrincipalPage):
    if asked.is_user and not asked.principal.is_active:
        yield "warning", INACTIVE
    if asked.is_user and not asked.principal.is_principal:
        yield "info", NO_PRINCIPAL


def _groups(request: HttpRequest, asked: PrincipalPage) -> dict | None:
    """Of a user: the groups, by name."""
    if not asked.is_user:
        return None
    found = list(asked.principal.groups.order_by("name")[: MAX_GROUPS + 1])
    return {"rows": [principal_link(group) for group in found[:MAX_GROUPS]], "is_cut": len(found) > MAX_GROUPS,
            "most": MAX_GROUPS}


def _members(request: HttpRequest, asked: PrincipalPage) -> dict | None:
    """Of a group: the users in it, by name."""
    if asked.is_user:
        return None
    rows, find = asked.principal.user_set.all(), text_parameter(request, "member", max_characters=150)
    page = paginate_names(request, rows.filter(username__icontains=find), "username", max_rows=ROWS_A_PAGE, prefix="member-")
    return {"page": page, "rows": [principal_link(user) for user in page.rows], "find": find, "total": capped_count(rows)}


def _holds(request: HttpRequest, asked: PrincipalPage) -> dict:
    """What the principal itself holds, or one of its groups: of whichever is chosen, by address."""
    groups = asked.principal.groups if asked.is_user else Group.objects.none()
    name, find = request.GET.get("through", "").replace("\0", ""), text_parameter(request, "holds", max_characters=200)
    through = groups.filter(name=name).first() if name else None
    holder = through or asked.principal
    rows = held_entities(holder)
    total = capped_count(rows)
    if find:
        rows = rows.filter(key__icontains=find)
    page = paginate_entities(request, sorted_by_address(rows), max_rows=ROWS_A_PAGE, total_rows=total, prefix="holds-")
    return {
        "page": page, "rows": _held_rows(asked, holder, page.rows), "total": total, "find": find,
        "through": principal_link(through) if through else None,
        "itself_url": url_with(request, **dict.fromkeys(("through", "holds", "holds-after", "holds-before"))),
    }


def _held_rows(asked: PrincipalPage, holder: User | Group, entities: list[Entity]) -> list[dict]:
    if asked.is_own:
        return _own_rows(asked, entities)
    kind, name = ("user", holder.username) if isinstance(holder, User) else ("group", holder.name)
    model, column = GRANT_TABLES[kind]
    grants: dict[int, dict] = {}
    for grant in model.objects.select_related("granted_by").filter(**{column: holder.pk, "content_object__in": entities}):
        grants.setdefault(grant.content_object_id, {})[grant.privilege] = grant
    through = held_privileges(holder, [entity.pk for entity in entities]) if kind == "user" else {}
    return [{
        "address_link": address_link_to(entity), "entity": entity,
        "latest": max(grants[entity.pk].values(), key=lambda grant: grant.granted_at),
        "cells": holder_cells(entity, f"{kind}:{name}", grants[entity.pk], dict(through[entity.pk].groups) if through else {},
                              changeable=asked.can_change),
    } for entity in entities]


def _own_rows(asked: PrincipalPage, entities: list[Entity]) -> list[dict]:
    """Without who granted it and why, and linked where the account may look."""
    held = held_privileges(asked.principal, [entity.pk for entity in entities])
    visible = visibility_condition(asked.principal, asked.generation)
    seen = set(Entity.objects.filter(visible, pk__in=held).values_list("pk", flat=True))
    return [{"address_link": address_link_to(entity, linked=entity.pk in seen), "entity": entity,
             "cells": privilege_cells(held[entity.pk], entity.state)} for entity in entities]


def _sight(request: HttpRequest, asked: PrincipalPage) -> dict:
    return sight_section(request, asked.principal, asked.generation)


def _history(request: HttpRequest, asked: PrincipalPage) -> dict | None:
    return None if asked.is_own else history_of(principal=asked.written)


# by the id of the part; the template of each is people/_<id>.html
SECTIONS: dict[str, Callable[[HttpRequest, PrincipalPage], dict | None]] = {
    "sight": _sight, "holds": _holds, "groups": _groups, "members": _members, "history": _history,
}
