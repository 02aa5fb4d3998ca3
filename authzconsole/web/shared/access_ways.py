"""The paths of permitted operations for display: operations with the same paths share a row, and paths of one
holder an item.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from authzconsole.web.shared.links import (
    AddressLink,
    PrincipalLink,
    address_link_to,
    principal_link_from_text,
)
from entities.address import parse_address
from entities.vocabulary import Privilege, quantity
from grants.access.paths import Path, Ways

# Grants on other entities that an item lists; the downloads have all.
MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class GrantItem:
    """The grants of one holder on one entity. privileges: such as `READ, ADMIN`. is_only: one of them is the
    only path.
    """

    privileges: str
    entity: AddressLink
    is_only: bool


@dataclass(frozen=True, slots=True)
class HolderItem:
    """The paths through one holder.

    group: None for direct grants. privileges: those on the entity of the row; empty if there are none.
    elsewhere: the first grants on other entities. total: the number of all of them, as text; empty for a
    single one.
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


def way_rows(ways: Mapping[str, Ways], entity: str, *, is_linked: bool = True) -> list[WayRow]:
    """Return the rows for the operations on one entity. is_linked: whether the entities of the paths are
    links.
    """
    operations: dict[tuple, list[str]] = {}
    for operation, way in ways.items():
        operations.setdefault((tuple(way.listed_paths), way.only, way.is_complete), []).append(operation)
    return [
        WayRow(tuple(names), tuple(_holder_items(paths, only, is_complete, entity, is_linked)))
        for (paths, only, is_complete), names in operations.items()
    ]


def _holder_items(
    paths: Iterable[Path], only: frozenset[Path], is_complete: bool, entity: str, is_linked: bool
) -> Iterable[HolderItem]:
    by_holder: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for path in paths:
        by_holder[path.principal][path.entity].append(path)
    # direct grants first
    for principal, by_entity in sorted(
        by_holder.items(), key=lambda item: (item[0].startswith("group:"), item[0])
    ):
        own = by_entity.pop(entity, [])
        items = [
            GrantItem(
                _privileges(grants),
                address_link_to(parse_address(address), is_linked=is_linked),
                not only.isdisjoint(grants),
            )
            for address, grants in islice(by_entity.items(), MAX_LISTED)
        ]
        count = sum(map(len, by_entity.values()))
        total = f"{quantity(count, 'grant', 'grants')}{'' if is_complete else ' or more'} inside"
        yield HolderItem(
            principal_link_from_text(principal) if principal.startswith("group:") else None,
            _privileges(own),
            not only.isdisjoint(own),
            tuple(items),
            total if len(by_entity) > 1 else "",
            len(by_entity) > MAX_LISTED or not is_complete,
        )


def _privileges(paths: Iterable[Path]) -> str:
    held = {path.privilege for path in paths}
    return ", ".join(privilege for privilege in Privilege if privilege in held)
