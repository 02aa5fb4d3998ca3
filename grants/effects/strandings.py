"""Find the entities that changes leave with fewer than two active ADMIN holders.

The same function serves effects of any size and plans: it reads the entities in chunks.
"""

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import chain

from entities.address import Address
from entities.models import Entity, State
from entities.vocabulary import MIN_ADMINISTRATORS, Privilege
from grants.administrators import Stranded, Strandings, admin_sources
from grants.effects.changes import EffectChange
from grants.effects.holders import NUMBERS, AffectedHolders
from grants.effects.nodes import NODE_COLUMNS, Node, NodeTable, UnlimitedSize, is_live
from grants.effects.situations import AffectedUsers, affected_users
from grants.models import grants_by_type, permission_ids
from grants.validity import in_force

# so few that the masks of all users for these entities fit into memory
ENTITIES_PER_CHUNK = 1_000


def strandings_of(
    changes: Sequence[EffectChange],
    max_entities: int | None = None,
    affected: AffectedUsers | None = None,
) -> Strandings:
    """Return the entities that the changes strand at the time of the question, before they are made.

    changes: see `changes_at`. max_entities: how many entities are listed; by default, all. affected: the
    result of `affected_users`, if it is known. Runs the queries of `stranded_entities`.
    """
    counts: dict[int, int] = {}

    def counted() -> Iterator[Stranded]:
        for row in stranded_entities(changes, affected):
            counts[row.admin_count] = counts.get(row.admin_count, 0) + 1
            yield row

    rows = (
        sorted(counted(), key=_order)
        if max_entities is None
        else nsmallest(max_entities, counted(), key=_order)
    )
    return Strandings(counts.get(0, 0), sum(counts.values()) - counts.get(0, 0), rows)


def stranded_entities(
    changes: Sequence[EffectChange],
    affected: AffectedUsers | None = None,
) -> Iterator[Stranded]:
    """Yield the live entities that have fewer than MIN_ADMINISTRATORS administrators after the changes, and fewer than
    before them or than a new entity needs.

    changes, affected: see `strandings_of`. Runs up to seven queries for every ENTITIES_PER_CHUNK entities on
    which a user may lose ADMIN, and three for the affected users.
    """
    affected = affected or affected_users(changes)
    nodes = NodeTable(UnlimitedSize())
    changed = _addresses_that_can_be_stranded(affected)
    if not changed and not affected.changed:
        return
    granted = {address for _, address, privilege in affected.after.added if privilege == Privilege.ADMIN}
    nodes.load_addresses(changed | granted)
    holders = AffectedHolders(affected, nodes)
    for candidates in _candidates(affected, [nodes.by_address[address] for address in changed]):
        holders.load(node.pk for node in candidates)
        losses = {node: count for node in candidates if (count := _loss(node, holders, affected)) is not None}
        holders.forget(node.pk for node in candidates)
        others = admin_sources(
            [node.pk for node in losses], MIN_ADMINISTRATORS, except_users=affected.ids("user")
        )
        for node, count in losses.items():
            count += len({source.user for source in others[node.pk]})
            if count < MIN_ADMINISTRATORS:
                yield Stranded(node.address, count)


def _order(row: Stranded) -> tuple[int, str, str]:
    return row.admin_count, row.address.kind, row.address.key


def _loss(node: Node, holders: AffectedHolders, affected: AffectedUsers) -> int | None:
    """Return how many of the affected users are administrators afterwards; None if the changes cannot strand
    the entity.
    """
    is_live_before, is_live_after = (is_live(node, situation.states) for situation in affected.situations[:2])
    if not is_live_after:
        return None
    before, after = (
        (held[NUMBERS[Privilege.ADMIN]] & situation.known).bit_count()
        for held, situation in zip(holders.holders_on(node.pk), affected.situations[:2], strict=False)
    )
    return after if after < MIN_ADMINISTRATORS and (after < before or not is_live_before) else None


def _addresses_that_can_be_stranded(affected: AffectedUsers) -> set[Address]:
    """Return the addresses that become live, or on which ADMIN is revoked, and that are live afterwards."""
    states = affected.after.states
    revoked = {address for _, address, privilege in affected.after.removed if privilege == Privilege.ADMIN}
    live = {address for address, state in states.items() if state == State.LIVE}
    return {address for address in revoked if address not in states} | live


def _candidates(affected: AffectedUsers, changed: Sequence[Node]) -> Iterator[list[Node]]:
    """Yield chunks of the entities that are live afterwards and may have fewer administrators then: the
    changed ones, and those of changed principals. No entity occurs twice.
    """
    seen: set[int] = set()
    chunk: list[Node] = []
    for node in chain(changed, _entities_of_changed_principals(affected)):
        if node.pk not in seen:
            seen.add(node.pk)
            chunk.append(node)
        if len(chunk) == ENTITIES_PER_CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _entities_of_changed_principals(affected: AffectedUsers) -> Iterator[Node]:
    """Yield the entities on which a principal holds ADMIN that is activated or deactivated, or of which the
    members change.
    """
    for _, grants in grants_by_type(affected.changed):
        admin = grants.filter(permission_id=permission_ids()[Privilege.ADMIN], **in_force()).order_by()
        rows = Entity.objects.filter(pk__in=admin.values("content_object_id")).order_by()
        for row in rows.values_list(*NODE_COLUMNS).iterator(chunk_size=ENTITIES_PER_CHUNK):
            yield Node(*row)
