"""The section with the holders of an entity. An ordinary account sees only its own privileges."""

from dataclasses import replace

from django.http import HttpRequest

from authzconsole.common.limited_access import expired_link
from authzconsole.web.entities.grant_views import GrantForm
from authzconsole.web.shared.links import principal_link
from authzconsole.web.shared.paging import paginate_sequence
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.privilege_cells import (
    group_privileges,
    groups_of_user,
    holder_cells,
    period_rows,
    privilege_cells,
)
from entities.models import Entity
from entities.vocabulary import Privilege
from grants.authority.rights import can_change_some_grants, can_see_holders
from grants.authority.stewards import sees_everything_in
from grants.holders import Holder, holders_of
from grants.models import PRINCIPAL_TYPES, privilege_of
from grants.plans.sources.expired import PeriodScope
from grants.policies.policy import Generation
from grants.policies.principals import group_text, principal_text
from grants.principals.administrator_loss import capped_admin_count

ROWS_PER_PAGE = 20
ORDERS = ("latest",)
MAX_BY_PATTERNS = 100
# with more holders, the section has a filter by name
MAX_HOLDERS_WITHOUT_FILTER = 10


def holders_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict:
    """Return the context of the section.

    `total_admins` is the number of active administrators of a live entity: 0, 1, or 2 for more.
    """
    if not can_see_holders(request.user, entity):
        return {"own": _own_privileges(request.user, entity)}
    find, order = (
        text_parameter(request, "holder", max_characters=150),
        choice_parameter(request, "order", ORDERS),
    )
    holders = holders_of(entity, find=find, is_latest_first=order == "latest")
    page = paginate_sequence(request, holders, max_rows=ROWS_PER_PAGE, name="holders")
    # a delegate learns nothing about members of groups
    sees_all = sees_everything_in(request.user, entity)
    users = [holder.principal.pk for holder in page.rows if holder.kind == "user"] if sees_all else []
    groups_by_user = group_privileges(entity, users)
    can_change = not getattr(request, "past", None) and can_change_some_grants(request.user, entity)
    return {
        "page": page,
        "rows": [_row(holder, entity, groups_by_user, can_change, sees_all) for holder in page.rows],
        "can_change": can_change,
        "is_plain": not request.user.can_see_all,
        "privileges": list(Privilege),
        "grant_form": GrantForm(account=request.user) if can_change else None,
        "find": find,
        "order": order,
        "by_patterns": _by_patterns(entity),
        "expired": expired_link(PeriodScope(within=entity.address)) if request.user.can_see_all else None,
        "total_admins": capped_admin_count(entity) if entity.is_live else None,
        "is_filtered": bool(find) or page.total > MAX_HOLDERS_WITHOUT_FILTER,
    }


def _by_patterns(entity: Entity) -> list[dict]:
    """Return the first grants on patterns that match the entity: pattern, holder and privileges."""
    rows: dict[tuple[str, str], list[str]] = {}
    for principal_type in PRINCIPAL_TYPES.values():
        derived = principal_type.held_grants.filter(content_object=entity, pattern__isnull=False)
        columns = ("pattern__kind", "pattern__key", principal_type.name_path, "permission_id")
        for kind, key, name, permission in derived.order_by(*columns).values_list(*columns)[:MAX_BY_PATTERNS]:
            holder = f"{kind}:{key}", principal_text(principal_type.name, name)
            rows.setdefault(holder, []).append(str(privilege_of(permission)))
    return [
        {"pattern": pattern, "principal": principal, "privileges": ", ".join(privileges)}
        for (pattern, principal), privileges in sorted(rows.items())
    ]


def _row(holder: Holder, entity: Entity, groups_by_user: dict, can_change: bool, sees_all: bool) -> dict:
    groups = groups_by_user.get(holder.principal.pk, {}) if holder.kind == "user" else {}
    latest = max(holder.grants.values(), key=lambda grant: grant.granted_at)
    return {
        "principal": principal_link(holder) if sees_all else replace(principal_link(holder), members=None),
        "latest": latest,
        "periods": period_rows(entity, str(holder), holder.grants, can_change=can_change),
        "cells": holder_cells(entity, str(holder), holder.grants, groups, can_change=can_change),
    }


def _own_privileges(user, entity: Entity) -> dict:
    cells = privilege_cells(user, [entity])[entity.pk]
    groups = groups_of_user(user, [entity]).get(entity.pk, {})
    return {
        "cells": cells,
        "has_any": any(cell.status != "none" for cell in cells),
        "groups": sorted({group_text(name) for names in groups.values() for name in names}),
    }
