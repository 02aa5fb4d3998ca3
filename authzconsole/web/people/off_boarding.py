"""The checklist that off-boards a user with one plan, and the entities that removing a group would strand."""

from collections.abc import Iterable

from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from authzconsole.common.messages import READ_ONLY_ACCOUNT
from authzconsole.models import ApiToken
from authzconsole.sessions.services import active_sessions
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import (
    address_link_to,
    principal_link,
    principal_link_from_text,
    principal_url,
)
from authzconsole.web.shared.principal_input import principal_from_input, principal_or_404
from authzconsole.web.shared.rendering import render_page, see_other
from entities.address import AddressError
from entities.models import State
from grants.errors import GrantError
from grants.models import User
from grants.plans.sources.off_boarding import HeldEntity, OffBoarding, create_off_boarding_plan, held_entities
from grants.principals.administrator_loss import MAX_ADMIN_GRANTS_READ, loss_if_removed
from grants.principals.principal_lists import MAX_COUNTED, capped_count
from grants.roles.capabilities import Capability

MAX_PRINCIPALS = 20
# rows with a field of their own; other entities are covered by the fields of the namespaces and of the
# stranded entities
MAX_ENTITIES = 200
MAX_NAMESPACES = 100
ENTITY_PREFIX, NAMESPACE_PREFIX = "entity-", "inside-"
STEPS = ("deactivate", "leave_groups", "revoke_grants")


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.READ_ALL)
def off_board(request: HttpRequest, principal: str) -> HttpResponse:
    """Show the checklist of a user, and create its plan; for a group, show what its removal would strand."""
    subject = principal_or_404(principal)
    if isinstance(subject, Group):
        return _group_response(request, subject)
    if request.method != "POST":
        return _user_response(request, subject, dict.fromkeys(STEPS, "yes"))
    if not request.user.can_administer:
        raise PermissionDenied(READ_ONLY_ACCOUNT)
    form = {name: value.replace("\0", "") for name, value in request.POST.items()}
    try:
        plan = create_off_boarding_plan(author=request_author(request), choices=_choices(subject, form))
    except (GrantError, AddressError) as error:
        return _user_response(request, subject, form, fault=f"{error}.", status=400)
    return see_other(plan_url(plan))


def _choices(user: User, form: dict[str, str]) -> OffBoarding:
    return OffBoarding(
        user.username,
        *(form.get(step) == "yes" for step in STEPS),
        entity_heirs=_heirs_by_address(form, ENTITY_PREFIX),
        namespace_heirs=_heirs_by_address(form, NAMESPACE_PREFIX),
        stranded_heirs=_principals(form.get("stranded_to", "")),
        accepts_no_administrator=form.get("accept") == "yes",
    )


def _heirs_by_address(form: dict[str, str], prefix: str) -> dict[str, list[str]]:
    return {
        name.removeprefix(prefix): heirs
        for name, text in form.items()
        if name.startswith(prefix) and (heirs := _principals(text))
    }


def _principals(text: str) -> list[str]:
    """Return the principals of a field, separated by commas."""
    parts = [principal_from_input(part) for part in text.split(",") if part.strip()]
    return [part if ":" in part else f"user:{part}" for part in parts]


def _user_response(
    request: HttpRequest, user: User, form: dict[str, str], *, fault: str = "", status: int = 200
) -> HttpResponse:
    held = held_entities(user)
    stranded = [row for row in held if row.is_stranded]
    grants = dict(user.grants.order_by().values_list("content_object__state").annotate(Count("pk")))
    groups = list(user.groups.order_by("name"))
    return render_page(
        request,
        "people/changes/off_board.html",
        {
            "principal": principal_link(user),
            "back": principal_url("person", str(user)),
            "fault": fault,
            "user": user,
            "url": principal_url("person-off-board", str(user)),
            "can_change": request.user.can_administer,
            "form": form,
            "groups": [principal_link(group) for group in groups[:MAX_PRINCIPALS]],
            "total_groups": len(groups),
            "grants": [(state.label.lower(), grants[state]) for state in State if grants.get(state)],
            "total_grants": sum(grants.values()),
            "sessions": capped_count(active_sessions(user)),
            "tokens": capped_count(ApiToken.objects.active().filter(owner=user)),
            "max_counted": MAX_COUNTED,
            "total_held": len(held),
            "total_stranded": len(stranded),
            "without_admin": sum(row.admin_count == 0 for row in stranded),
            "rows": [
                _entity_row(row, form) | {"id": f"heirs-{number}"}
                for number, row in enumerate(held[:MAX_ENTITIES])
            ],
            "max_entities": MAX_ENTITIES,
            "namespaces": _namespace_rows(held, form),
            "stranded_to": form.get("stranded_to", ""),
        },
        status=status,
    )


def _entity_row(row: HeldEntity, form: dict[str, str]) -> dict:
    name = f"{ENTITY_PREFIX}{row.entity}"
    return {
        "address_link": address_link_to(row.entity),
        "state": row.entity.state,
        "privileges": row.privileges,
        "admin_count": row.admin_count,
        "name": name,
        "heirs": form.get(name, ""),
    }


def _namespace_rows(held: Iterable[HeldEntity], form: dict[str, str]) -> list[dict]:
    totals: dict = {}
    for row in held:
        if row.entity.namespace is not None:
            totals[row.entity.namespace] = totals.get(row.entity.namespace, 0) + 1
    names = sorted(totals, key=lambda namespace: namespace.key)[:MAX_NAMESPACES]
    return [
        {
            "address_link": address_link_to(namespace),
            "total": totals[namespace],
            "name": f"{NAMESPACE_PREFIX}{namespace}",
            "heirs": form.get(f"{NAMESPACE_PREFIX}{namespace}", ""),
            "id": f"inside-{number}",
        }
        for number, namespace in enumerate(names)
    ]


def _group_response(request: HttpRequest, group: Group) -> HttpResponse:
    loss = loss_if_removed(group)
    rows = [
        {
            "address_link": address_link_to(row.entity),
            "admins": row.admin_count,
            "remaining_admin": principal_link_from_text(f"user:{row.remaining_admin}")
            if row.remaining_admin
            else None,
        }
        for row in loss.first_entities
    ]
    return render_page(
        request,
        "people/changes/group_removal.html",
        {
            "principal": principal_link(group),
            "loss": loss,
            "max_checked": MAX_ADMIN_GRANTS_READ,
            "max_counted": MAX_COUNTED,
            "back": principal_url("person", f"group:{group.name}"),
            "rows": rows,
            "more": loss.stranded_count - len(rows),
            "can_change": request.user.can_administer,
            **_affected_members(group),
        },
    )


def _affected_members(group: Group) -> dict:
    """Return the active members of the group.

    They lose the privileges that they hold only through the group.
    """
    members = group.user_set.active_principals()
    return {
        "grants": capped_count(group.grants),
        "total_members": capped_count(members),
        "members": [principal_link(user) for user in members.order_by("username")[:MAX_PRINCIPALS]],
    }
