"""The section with the holders of an entity. An ordinary account sees only its own privileges."""

from django.http import HttpRequest

from authzconsole.web.shared.links import holder_link
from authzconsole.web.shared.paging import paginate_sequence, url_with
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.privilege_cells import (
    HeldPrivileges,
    group_privileges,
    held_privileges,
    holder_cells,
    privilege_cells,
)
from entities.models import Entity
from entities.vocabulary import Privilege
from grants.holders import Holder, holders_of
from grants.policies.policy import Generation
from grants.principals.administrator_loss import capped_admin_count

ROWS_PER_PAGE = 20
ORDERS = ("latest",)
# with more holders, the section has a filter by name
MAX_HOLDERS_WITHOUT_FILTER = 10


def holders_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict:
    """Return the context of the section.

    `total_admins` is the number of active administrators of a live entity: 0, 1, or 2 for more.
    """
    if not request.user.can_see_all:
        return {"own": _own_privileges(request.user, entity)}
    find, order = text_parameter(request, "holder", max_characters=150), choice_parameter(request, "order", ORDERS)
    holders = holders_of(entity, find=find, is_latest_first=order == "latest")
    page = paginate_sequence(request, holders, max_rows=ROWS_PER_PAGE, name="holders")
    groups_by_user = group_privileges(entity, [holder.principal.pk for holder in page.rows if holder.kind == "user"])
    rows = [_row(holder, entity, groups_by_user, request.user.can_administer) for holder in page.rows]
    return {"page": page, "rows": rows, "total": page.total, "privileges": list(Privilege), "find": find, "order": order,
            "total_admins": capped_admin_count(entity) if entity.is_live else None,
            "is_filtered": bool(find) or page.total > MAX_HOLDERS_WITHOUT_FILTER,
            "name_url": url_with(request, order=None, holders=None),
            "latest_url": url_with(request, order="latest", holders=None)}


def _row(holder: Holder, entity: Entity, groups_by_user: dict, can_change: bool) -> dict:
    groups = groups_by_user.get(holder.principal.pk, {}) if holder.kind == "user" else {}
    latest = max(holder.grants.values(), key=lambda grant: grant.granted_at)
    return {
        "principal": holder_link(holder), "latest": latest,
        "cells": holder_cells(entity, str(holder), holder.grants, groups, changeable=can_change),
    }


def _own_privileges(user, entity: Entity) -> dict:
    privileges: HeldPrivileges = held_privileges(user, [entity.pk])[entity.pk]
    groups = sorted({f"group:{name}" for names in dict(privileges.groups).values() for name in names})
    return {"cells": privilege_cells(privileges, entity.state), "has_any": bool(privileges.direct or groups), "groups": groups}
