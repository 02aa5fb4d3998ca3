"""Assign separate ids to principals and addresses, which stay the same when a row is deleted or a principal
is renamed.

The caller holds the lock of the history (grants.history.periods).
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from django.db.models import Max

from entities.address import Address, AddressError, parse_address
from grants.bulk_rows import insert_rows
from grants.history.keyed_rows import rows_of_keys
from grants.models.history import FIRST_ID, HistoryAddress, HistoryPrincipal
from grants.policies.principals import principal_text, type_and_name

_ADDRESS_COLUMNS = ("id", "kind", "key", "parent", "namespace", "application")


class Place(NamedTuple):
    """The ids of an address and of its containers."""

    id: int
    parent: int | None
    namespace: int | None
    application: int | None


def principal_ids(names: Collection[str], *, known_only: Collection[str] = ()) -> dict[str, int]:
    """Return the ids of principals by written name.

    Create ids for the unknown `names`, but not for those of `known_only`.
    """
    wanted = {type_and_name(name) for name in (*names, *known_only)}
    ids = {
        principal_text(kind, name): pk
        for kind, name, pk in rows_of_keys(HistoryPrincipal, ("type", "name"), wanted, ("id",))
    }
    new = sorted(set(names) - ids.keys())
    new_ids = dict(zip(new, _next_ids(HistoryPrincipal, len(new)), strict=True))
    insert_rows(
        HistoryPrincipal,
        ("id", "type", "name"),
        [(pk, *type_and_name(name)) for name, pk in new_ids.items()],
    )
    return ids | new_ids


def rename_principal(old: str, new: str) -> int:
    """Give the principal `old` the name `new`, both in written form. Return its id.

    A removed principal that had the name `new` keeps its periods, but can no longer be found by this name.
    """
    pk = principal_ids([old])[old]
    kind, name = type_and_name(new)
    HistoryPrincipal.objects.filter(type=kind, name=name).exclude(pk=pk).update(name=None)
    HistoryPrincipal.objects.filter(pk=pk).update(name=name)
    return pk


def places(texts: Iterable[str]) -> dict[str, Place]:
    """Return the places of addresses in written form.

    Create ids for unknown addresses and for their containers.
    """
    addresses = {text: _split_address(text) for text in texts}
    ids = _stored_places(addresses.values())
    missing = {address for address in addresses.values() if address not in ids}
    if missing:
        containers = {container for address in missing for container in _ancestors(address)}
        ids |= _stored_places(containers - ids.keys())
        _insert_addresses((missing | containers) - ids.keys(), ids)
    return {text: ids[address] for text, address in addresses.items()}


def _stored_places(addresses: Iterable[Address]) -> dict[Address, Place]:
    keys = [(address.kind, address.key) for address in set(addresses)]
    rows = rows_of_keys(HistoryAddress, ("kind", "key"), keys, ("id", "parent", "namespace", "application"))
    return {Address(kind, key): Place(*place) for kind, key, *place in rows}


def _insert_addresses(new: set[Address], ids: dict[Address, Place]) -> None:
    ordered = sorted(new, key=lambda address: (len(_ancestors(address)), address.kind, address.key))
    new_ids = dict(zip(ordered, _next_ids(HistoryAddress, len(ordered)), strict=True))
    for address, pk in new_ids.items():
        containers = (
            (address.parent, address.namespace, address.application)
            if _is_well_formed(address)
            else (None,) * 3
        )
        ids[address] = Place(pk, *(_id_of(container, new_ids, ids) for container in containers))
    insert_rows(
        HistoryAddress,
        _ADDRESS_COLUMNS,
        [
            (place.id, address.kind, address.key, *place[1:])
            for address, place in ((a, ids[a]) for a in ordered)
        ],
    )


def _id_of(container: Address | None, new_ids: dict[Address, int], ids: dict[Address, Place]) -> int | None:
    if container is None:
        return None
    return new_ids[container] if container in new_ids else ids[container].id


def _next_ids(model: type[HistoryPrincipal | HistoryAddress], count: int) -> range:
    if not count:
        return range(0)
    first = (model.objects.aggregate(last=Max("pk"))["last"] or FIRST_ID - 1) + 1
    return range(first, first + count)


def _split_address(text: str) -> Address:
    kind, _, key = text.partition(":")
    return Address(kind, key)


def _is_well_formed(address: Address) -> bool:
    """Return whether the address can be parsed.

    An address of a kind that is no longer registered has no known containers.
    """
    try:
        parse_address(str(address))
    except AddressError:
        return False
    return True


def _ancestors(address: Address) -> list[Address]:
    return address.ancestors if _is_well_formed(address) else []
