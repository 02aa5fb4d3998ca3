"""The paths of permitted operations for display: operations that have the same paths share one row."""

from collections.abc import Mapping
from dataclasses import dataclass

from authzconsole.web.shared.links import AddressLink, PrincipalLink, address_link_to, principal_link_from_text
from entities.address import parse_address
from grants.access.paths import Path, Ways

MAX_PATHS = 5


@dataclass(frozen=True, slots=True)
class PathLink:
    """A path. group: None for a direct grant. entity: None for a grant on the entity of the row. is_only: see `Ways.only`."""

    privilege: str
    group: PrincipalLink | None
    entity: AddressLink | None
    is_only: bool


@dataclass(frozen=True, slots=True)
class WayRow:
    """Operations with the same paths. more: how many further paths there are, as text; empty if all are listed."""

    operations: tuple[str, ...]
    paths: tuple[PathLink, ...]
    more: str


def way_rows(ways: Mapping[str, Ways], entity: str, *, linked: bool = True) -> list[WayRow]:
    """Return the rows for the operations on one entity. linked: link the entities of the paths."""
    operations: dict[tuple, list[str]] = {}
    for operation, way in ways.items():
        operations.setdefault((tuple(way.listed), way.only, way.is_complete), []).append(operation)
    return [_row(tuple(names), paths, only, is_complete, entity, linked)
            for (paths, only, is_complete), names in operations.items()]


def _row(operations: tuple[str, ...], paths: tuple[Path, ...], only: frozenset[Path], is_complete: bool, entity: str,
         linked: bool) -> WayRow:
    # paths that are needed come first, then grants on the entity itself
    ordered = sorted(paths, key=lambda path: (path not in only, path.entity != entity, path))
    hidden = len(ordered) - MAX_PATHS
    more = f"{max(hidden, 0):,} more" if is_complete else f"more than {max(hidden, 0):,} others"
    links = tuple(_path_link(path, path in only, entity, linked) for path in ordered[:MAX_PATHS])
    return WayRow(operations, links, more if hidden > 0 or not is_complete else "")


def _path_link(path: Path, is_only: bool, entity: str, linked: bool) -> PathLink:
    return PathLink(path.privilege, principal_link_from_text(path.principal) if path.principal.startswith("group:") else None,
                    None if path.entity == entity else address_link_to(parse_address(path.entity), linked=linked), is_only)
