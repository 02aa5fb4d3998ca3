"""The paths of permitted operations for display: operations with the same paths share a row, and paths of one
holder an item.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice

from authzconsole.web.shared.links import address_link_to
from entities.address import Address, address_or_none
from entities.patterns import has_patterns
from entities.selectors import entities_at
from entities.vocabulary import Privilege, quantity
from grants.access import Path, Ways
from grants.models import PRINCIPAL_TYPES, privilege_of
from grants.policies.levels import LEVELS, operations_by_level
from grants.policies.policy import Generation
from grants.policies.principals import is_group_text, principal_text
from grants.principal_names import parse_principal
from grants.validity import in_force

# Grants on other entities that an item lists; the downloads have all.
MAX_LISTED = 10


def patterns_by_path(listed: Iterable[Mapping[str, Ways]]) -> dict[Path, str]:
    """Return the pattern of each listed path that only a grant on a pattern gives now.

    listed: ways by operation. Runs one query without patterns, and four with some.
    """
    paths = {path for ways in listed for way in ways.values() for path in way.listed_paths}
    addresses = {address for path in paths if (address := address_or_none(path.entity))}
    if not addresses or not has_patterns():
        return {}
    entities = [row.pk for row in entities_at(addresses).values()]
    given: dict[Path, str] = {}
    for principal_type in PRINCIPAL_TYPES.values():
        names = [
            name
            for type_, name in map(parse_principal, {path.principal for path in paths})
            if type_ == principal_type.name
        ]
        columns = (principal_type.name_path, "content_object__kind", "content_object__key", "permission_id")
        rows = principal_type.held_grants.filter(
            **in_force(), **{f"{principal_type.name_path}__in": names}, content_object__in=entities
        )
        for name, kind, key, permission, *pattern in rows.order_by("pattern__key").values_list(
            *columns, "pattern__kind", "pattern__key"
        ):
            path = Path(principal_text(principal_type.name, name), f"{kind}:{key}", privilege_of(permission))
            if None in pattern:
                given[path] = ""
            else:
                given.setdefault(path, ":".join(pattern))
    return {path: pattern for path, pattern in given.items() if pattern}


def way_rows(
    ways: Mapping[str, Ways],
    entity: Address,
    generation: Generation,
    operation: str,
    patterns: Mapping[Path, str],
    *,
    is_linked: bool,
) -> list[dict]:
    """Return the rows of `shared/display/ways.html` for the operations on one entity: operations with the same paths, by
    access level, and the holders of these paths; the strongest level first.

    operation: the only operation that was asked for; empty for all operations. patterns: see `patterns_by_path`. is_linked: whether the entities of the
    paths are links.
    """
    operations: dict[tuple, list[str]] = {}
    for name, way in ways.items():
        operations.setdefault((tuple(way.listed_paths), way.only, way.is_complete), []).append(name)
    permitted = operations_by_level(generation, entity.kind, ways)
    existing = operations_by_level(generation, entity.kind, [operation] if operation else None)
    rows = [
        {
            "levels": [
                {
                    "name": level,
                    "is_partial": len(permitted[level]) < len(existing.get(level, ())),
                    # other rows have operations of the same level
                    "operations": of_level if len(of_level) < len(permitted[level]) else [],
                }
                for level, of_level in operations_by_level(generation, entity.kind, names).items()
            ],
            "operations": names,
            "holders": list(_holder_items(paths, only, is_complete, str(entity), patterns, is_linked)),
        }
        for (paths, only, is_complete), names in operations.items()
    ]
    return sorted(rows, key=lambda row: LEVELS.index(row["levels"][0]["name"]))


def _holder_items(
    paths: Iterable[Path],
    only: frozenset[Path],
    is_complete: bool,
    entity: str,
    patterns: Mapping[Path, str],
    is_linked: bool,
) -> Iterable[dict]:
    """Yield the paths through each holder, direct grants first.

    group: such as `group:analysts`; empty for direct grants. own: see `_by_pattern`, on the entity of the row. is_only: one of
    them is the only path. elsewhere: the first grants on other entities. total: the number of all of them, as text; empty for a single one.
    """
    by_holder: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for path in paths:
        by_holder[path.principal][path.entity].append(path)
    for principal, by_entity in sorted(by_holder.items(), key=lambda item: (is_group_text(item[0]), item[0])):
        own = by_entity.pop(entity, [])
        count = sum(map(len, by_entity.values()))
        total = f"{quantity(count, 'grant', 'grants')}{'' if is_complete else ' or more'} inside"
        yield {
            "group": principal if is_group_text(principal) else "",
            "own": _by_pattern(own, patterns),
            "is_only": not only.isdisjoint(own),
            "elsewhere": [
                {
                    "held": _by_pattern(grants, patterns),
                    "entity": address_link_to(address, is_linked=is_linked),
                    "is_only": not only.isdisjoint(grants),
                }
                for address, grants in islice(by_entity.items(), MAX_LISTED)
            ],
            "total": total if len(by_entity) > 1 else "",
            "has_more": len(by_entity) > MAX_LISTED or not is_complete,
        }


def _by_pattern(paths: Iterable[Path], patterns: Mapping[Path, str]) -> list[dict]:
    """Return the privileges of paths, such as `READ, ADMIN`, with the pattern that gives them; first those without one."""
    grouped: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        grouped[patterns.get(path, "")].append(path)
    return [
        {"privileges": _privileges(of_pattern), "pattern": pattern}
        for pattern, of_pattern in sorted(grouped.items())
    ]


def _privileges(paths: Iterable[Path]) -> str:
    held = {path.privilege for path in paths}
    return ", ".join(privilege for privilege in Privilege if privilege in held)
