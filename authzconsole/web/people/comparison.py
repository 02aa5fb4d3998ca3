"""Compare two users."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.levels import quantities_by_level
from authzconsole.web.shared.paging import ADDRESS_ORDER, keyset_page
from authzconsole.web.shared.parameters import name_parameter
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.privilege_cells import privilege_cells
from authzconsole.web.shared.rendering import render_page, requested_section
from grants.access import AccessibleEntities
from grants.active_generation import active_generation
from grants.models import User
from grants.policies.levels import LEVELS
from grants.principals.principal_lists import MAX_COUNTED, capped_count
from grants.principals.user_comparison import MAX_DIFFERENCES, compare_groups, differing_entities
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 20
FIELDS = ("one", "other")


@require_safe
@capability_required(Capability.READ_ALL)
def compare_users(request: HttpRequest) -> HttpResponse:
    """Show the entities and groups in which two users differ. URL parameters: one, other."""
    names = {field: name_from_input(name_parameter(request, field), "user") for field in FIELDS}
    context = {
        "names": names,
        "url": request.path,
        "max_counted": MAX_COUNTED,
        "can_change": request.user.can_administer,
    }
    if all(names.values()):
        users = [User.objects.filter(username=name).first() for name in names.values()]
        unknown_names = [name for name, user in zip(names.values(), users, strict=True) if user is None]
        context |= (
            {"fault": f"No user named {unknown_names[0]}."}
            if unknown_names
            else _differences(request, *users)
        )
    is_section = requested_section(request) == "differences" and "page" in context
    return render_page(request, "people/_differences.html" if is_section else "people/compare.html", context)


def _differences(request: HttpRequest, one: User, other: User) -> dict:
    groups = compare_groups(one, other)
    differences = differing_entities(one, other, groups)
    total_rows = capped_count(differences.entities)
    page = keyset_page(
        request, differences.entities, *ADDRESS_ORDER, max_rows=ROWS_PER_PAGE, total=total_rows
    )
    cells_by_user = [privilege_cells(user, page.rows) for user in (one, other)]
    return {
        "users": [one, other],
        "levels": _levels(one, other),
        "page": page,
        "total": page.total,
        "max_compared": MAX_DIFFERENCES if differences.is_truncated else 0,
        "generation": active_generation(),
        "rows": [
            {
                "entity": entity,
                "cells": [cells[entity.pk] for cells in cells_by_user],
            }
            for entity in page.rows
        ],
        "group_lists": [
            ("Both", groups.common),
            (f"Only {one.username}", groups.only_first),
            (f"Only {other.username}", groups.only_second),
        ],
    }


def _levels(*users: User) -> list[dict] | None:
    """Return the entities of each user for each access level, in words; None if they have too many grants to count."""
    lists = [AccessibleEntities.of("user", user.username, active_generation()) for user in users]
    if not all(entities.is_quickly_counted for entities in lists):
        return None
    words = [quantities_by_level(entities.level_counts(entities.counts())) for entities in lists]
    return [
        {"level": level, "cells": [of_user.get(level, "") for of_user in words]}
        for level in LEVELS
        if any(level in of_user for of_user in words)
    ]
