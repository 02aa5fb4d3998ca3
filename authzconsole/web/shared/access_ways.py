"""The paths of permitted operations for display: operations with the same paths share a row, and paths of one holder an item."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from authzconsole.web.shared.links import AddressLink, PrincipalLink, address_link_to, principal_link_from_text
from entities.address import parse_address
from entities.vocabulary import Privilege, quantity
from grants.access.paths import Path, Ways

# Grants on other entities that an item lists; the downloads have all.
MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class GrantItem:
    """The grants of one holder on one entity. privileges: such as `READ, ADMIN`. is_only: one of them is the only path."""

    privileges: str
    entity: AddressLink
    is_only: bool


@dataclass(frozen=True, slots=True)
class HolderItem:
    """The paths through one holder.

    group: None for direct grants. privileges: held on the entity of the row itself; empty if there are none there.
    elsewhere: the grants on other entities. total: their number, as text; empty if they are all in `elsewhere` and there is one.
    """

    group: PrincipalLink | None
    privileges: str
    is_only: bool
    elsewhere: tuple[GrantItem, ...]
    total: str
    has_more: bool


@dataclass(frozen=True, slots=True)
class WayRow:
    """Operations with the same paths."""

    operations: tuple[str, ...]
    holders: tuple[HolderItem, ...]


def way_rows(ways: Mapping[str, Ways], entity: str, *, linked: bool = True) -> list[WayRow]:
    """Return the rows for the operations on one entity. linked: link the entities of the paths."""
    operations: dict[tuple, list[str]] = {}
    for operation, way in ways.items():
        operations.setdefault((tuple(way.listed), way.only, way.is_complete), []).append(operation)
    return [WayRow(tuple(names), tuple(_holder_items(paths, only, is_complete, entity, linked)))
            for (paths, only, is_complete), names in operations.items()]


def _holder_items(paths: Iterable[Path], only: frozenset[Path], is_complete: bool, entity: str,
                  linked: bool) -> Iterable[HolderItem]:
    by_holder: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for path in paths:
        by_holder[path.principal][path.entity].append(path)
    # direct grants first
    for principal, by_entity in sorted(by_holder.items(), key=lambda item: (item[0].startswith("group:"), item[0])):
        own = by_entity.pop(entity, [])
        items = [GrantItem(_privileges(grants), address_link_to(parse_address(address), linked=linked),
                           not only.isdisjoint(grants)) for address, grants in by_entity.items()]
        count = sum(map(len, by_entity.values()))
        total = f"{quantity(count, 'grant', 'grants')}{'' if is_complete else ' or more'} inside"
        yield HolderItem(principal_link_from_text(principal) if principal.startswith("group:") else None, _privileges(own),
                         not only.isdisjoint(own), tuple(items[:MAX_LISTED]), total if len(items) > 1 else "",
                         len(items) > MAX_LISTED or not is_complete)


def _privileges(paths: Iterable[Path]) -> str:
    held = {path.privilege for path in paths}
    return ", ".join(privilege for privilege in Privilege if privilege in held)
