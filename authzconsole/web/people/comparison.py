"""Compare two users."""

from collections.abc import Sequence

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
    """Show the entities and groups in which two users differ. URL parameters: one, other.

    htmx loads the access levels after the page if one of the users has too many grants to count at once.
    """
    section = requested_section(request)
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
        if unknown_names:
            context |= {"fault": f"No user named {unknown_names[0]}."}
        elif section == "levels":
            context |= _levels(users, is_later=False)
        else:
            context |= _differences(request, *users)
    is_section = section in ("differences", "levels") and "users" in context
    return render_page(request, f"people/_{section}.html" if is_section else "people/compare.html", context)


def _differences(request: HttpRequest, one: User, other: User) -> dict:
    groups = compare_groups(one, other)
    differences = differing_entities(one, other, groups)
    total_rows = capped_count(differences.entities)
    page = keyset_page(
        request, differences.entities, *ADDRESS_ORDER, max_rows=ROWS_PER_PAGE, total=total_rows
    )
    cells_by_user = [privilege_cells(user, page.rows) for user in (one, other)]
    return _levels([one, other], is_later="levels" not in request.GET) | {
        "page": page,
        "total": page.total,
        "max_compared": MAX_DIFFERENCES if differences.is_truncated else 0,
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


def _levels(users: Sequence[User], *, is_later: bool) -> dict:
    """Return the context of the access levels: the entities of each user for each level, in words; none if they have too many
    grants to count. is_later: leave out what takes more than milliseconds.
    """
    generation = active_generation()
    lists = [AccessibleEntities.of("user", user.username, generation) for user in users]
    is_counted = all(entities.is_quickly_counted for entities in lists)
    is_later = is_later and is_counted and not all(entities.is_counted_at_once for entities in lists)
    context = {"users": users, "generation": generation, "levels": [], "is_later": is_later}
    if is_later or not is_counted:
        return context
    words = [quantities_by_level(entities.level_counts(entities.counts())) for entities in lists]
    return context | {
        "levels": [
            {"level": level, "cells": [of_user.get(level, "") for of_user in words]}
            for level in LEVELS
            if any(level in of_user for of_user in words)
        ]
    }
