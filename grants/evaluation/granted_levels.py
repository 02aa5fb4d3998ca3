"""Count by access level what grants give on the entities that they are on."""

from collections import defaultdict
from collections.abc import Collection

from django.db.models import Case, CharField, Count, Value, When

from entities.models import State
from entities.vocabulary import KINDS
from grants.active_generation import active_generation
from grants.evaluation.effective_grants import GrantTable, has_at_most
from grants.models import GRANT_SOURCES, GROUP, permission_ids
from grants.policies.levels import LEVEL_OF_PRIVILEGE, LEVELS, Level, level_of_grant

MAX_GRANTS_OF_GROUPS = 5_000


def granted_level(kind: str) -> Case:
    """Return the expression for the level of a row with a grant, in the active generation. kind: the path to the kind of
    its entity.
    """
    generation, ids = active_generation(), permission_ids()
    weaker = [
        When(**{"permission_id": ids[privilege], f"{kind}__in": kinds}, then=Value(Level.SEES.value))
        for privilege, level in LEVEL_OF_PRIVILEGE.items()
        if (kinds := [name for name in KINDS if level_of_grant(generation, name, privilege) != level])
    ]
    levels = [
        When(permission_id=ids[privilege], then=Value(level.value))
        for privilege, level in LEVEL_OF_PRIVILEGE.items()
    ]
    return Case(*weaker, *levels, output_field=CharField())


def levels_of_groups(groups: Collection[int]) -> dict[int, dict[Level, int]] | None:
    """Return the number of live entities on which each group holds a grant that gives a level, the strongest level first.

    None if the groups have very many grants. Runs two queries.
    """
    table = GrantTable(GRANT_SOURCES[GROUP.name][0], tuple(groups))
    if not groups or not has_at_most(MAX_GRANTS_OF_GROUPS, (table,)):
        return None if groups else {}
    rows = (
        table.rows(content_object__state=State.LIVE)
        .annotate(level=granted_level("content_object__kind"))
        .values("group_id", "level")
        .annotate(total=Count("content_object", distinct=True))
        .order_by()
    )
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for row in rows:
        counts[row["group_id"]][row["level"]] = row["total"]
    return {
        group: {level: of_group[level] for level in LEVELS if level in of_group}
        for group, of_group in counts.items()
    }
