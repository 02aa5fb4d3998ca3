"""Count the entities that changes above the limits strand.

Only runs use this, because it may take minutes.
"""

from collections.abc import Iterator, Sequence
from heapq import nsmallest

from entities.address import Address
from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.effects.changes import EffectChange, StateChange, SubtreeDeletion
from grants.effects.evaluate import admin_loss
from grants.effects.holders import AffectedHolders
from grants.effects.nodes import NODE_COLUMNS, Node, NodeTable, UnlimitedSize
from grants.effects.situations import AffectedUsers, affected_users
from grants.effects.strandings import Stranded, StrandingCandidates, Strandings
from grants.models import GRANT_TABLES, permission_ids
from grants.validity import in_force

# so few that the masks of all users for these entities fit into memory
ENTITIES_PER_CHUNK = 1_000


def strandings_of(changes: Sequence[EffectChange], max_entities: int) -> Strandings:
    """Return the entities that the changes strand at the time of the question, of which only the first are
    listed.

    changes: see `changes_for_run` and `changes_at`. Runs up to five queries for every ENTITIES_PER_CHUNK
    entities on which a user may lose ADMIN.
    """
    affected = affected_users(changes)
    nodes = NodeTable(UnlimitedSize())
    nodes.load_addresses(
        {address for _, address, _ in affected.after.added | affected.after.removed}
        | affected.after.states.keys()
    )
    holders = AffectedHolders(affected, nodes)
    totals, first = [0, 0], []
    for candidates in _candidates(changes, affected, nodes):
        holders.load(node.pk for node in candidates)
        losses = [admin_loss(node, holders, affected) for node in candidates]
        holders.forget(node.pk for node in candidates)
        found = StrandingCandidates([loss for loss in losses if loss], affected.ids("user")).strandings()
        totals = [totals[0] + found.without_admin_count, totals[1] + found.one_admin_count]
        first = nsmallest(max_entities, [*first, *found.entities], key=_order)
    return Strandings(totals[0], totals[1], first)


def _order(row: Stranded) -> tuple[int, str, str]:
    return row.admin_count, row.address.kind, row.address.key


def _candidates(
    changes: Sequence[EffectChange], affected: AffectedUsers, nodes: NodeTable
) -> Iterator[list[Node]]:
    """Yield chunks of the entities that are live afterwards and may have fewer administrators then. No entity
    occurs twice.

    nodes: has the addresses of the changes.
    """
    deleted = {change.address for change in changes if isinstance(change, SubtreeDeletion)}
    changed = {address for _, address, privilege in affected.after.removed if privilege == Privilege.ADMIN}
    changed |= {
        change.address for change in changes if isinstance(change, StateChange) and change.state == State.LIVE
    }
    seen: set[int] = set()
    chunk: list[Node] = []
    for node in (
        *(nodes.by_address[address] for address in changed),
        *_entities_of_changed_principals(affected),
    ):
        if node.pk not in seen and not _is_inside_any(node.address, deleted):
            seen.add(node.pk)
            chunk.append(node)
        if len(chunk) == ENTITIES_PER_CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _is_inside_any(address: Address, containers: set[Address]) -> bool:
    """Return whether the address is one of the containers, or inside one."""
    return bool(containers) and (address in containers or not containers.isdisjoint(address.ancestors))


def _entities_of_changed_principals(affected: AffectedUsers) -> Iterator[Node]:
    """Yield the entities on which a principal holds ADMIN that is activated or deactivated, or of which the
    members change.
    """
    for principal_type, (model, _) in GRANT_TABLES.items():
        principals = [pk for type_, pk in affected.changed if type_ == principal_type]
        if principals:
            admin = {
                f"{principal_type}__pk__among": principals,
                "permission_id": permission_ids()[Privilege.ADMIN],
                **in_force(),
            }
            pks = model.objects.filter(**admin).order_by().values("content_object_id")
            rows = Entity.objects.filter(pk__in=pks).order_by()
            yield from (
                Node(*row) for row in rows.values_list(*NODE_COLUMNS).iterator(chunk_size=ENTITIES_PER_CHUNK)
            )
