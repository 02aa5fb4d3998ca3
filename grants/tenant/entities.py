"""Import the entities of a tenant document: listed addresses, addresses of grants, and their containers.

Listed entities get the listed state. An address that only has grants becomes planned. A missing container is
registered too, as live if a live entity inside it is listed. Registered addresses that are not listed do not
change.
"""

from collections import Counter
from collections.abc import Callable

from entities.address import ancestor_kinds, parse_address
from entities.models import Entity, State
from entities.vocabulary import CONTAINER_KINDS, KINDS
from grants.bulk_rows import chunks, database_now, insert_rows, reserve_ids, update_rows
from grants.journal import JournalEntry
from grants.tenant.lines import EntityLine
from grants.tenant.reading import Document
from grants.tenant.report import ENTITIES_ADDED, ENTITIES_CHANGED, ImportReport

ACTIONS = {State.LIVE: "register", State.PLANNED: "plan", State.DELETED: "delete"}
COLUMNS = (
    "id",
    "kind",
    "key",
    "parent_id",
    "namespace_id",
    "application_id",
    "state",
    "description",
    "created_at",
    "changed_at",
)


def new_states(document: Document) -> dict[str, str]:
    """Return the state that each address of the document gets if it is not registered yet."""
    states = {line.address: line.state for line in document.entities.values()}
    for address in document.grants:
        states.setdefault(address, State.PLANNED)
    for address in list(states):
        _add_containers(address, states, document.entities)
    return states


def _add_containers(address: str, states: dict[str, str], listed: dict) -> None:
    is_live = states[address] == State.LIVE
    container = parse_address(address).parent
    while container is not None:
        container_state = states.get(name := str(container))
        # Another call handles the containers of an address in `states`. A live entity continues up to the
        # first live container.
        if container_state == State.LIVE or (container_state is not None and not is_live):
            return
        if name not in listed:
            states[name] = State.LIVE if is_live else State.PLANNED
        container = container.parent


def write_entities(document: Document, report: ImportReport, record: Callable) -> dict[str, int]:
    """Register and change the entities of the document. Return the primary key of each of its addresses."""
    states = new_states(document)
    by_kind: dict[str, list[str]] = {
        kind: [] for kind in sorted(KINDS, key=lambda kind: len(ancestor_kinds(kind)))
    }
    for address in states:
        by_kind[address.partition(":")[0]].append(address)
    # All look-ups come before the first insert, because PostgreSQL would reuse query plans that it made for
    # the smaller table.
    ids = _change_existing(by_kind, states, document, report, record)
    for addresses in by_kind.values():
        for new in chunks([address for address in addresses if address not in ids]):
            record(_insert(new, states, document, ids, report))
    report.warnings += _warnings(
        {
            ids[address]: address
            for kind in CONTAINER_KINDS
            for address in by_kind[kind]
            if states[address] == State.DELETED
        }
    )
    return ids


def _change_existing(
    by_kind: dict[str, list[str]],
    states: dict[str, str],
    document: Document,
    report: ImportReport,
    record: Callable,
) -> dict[str, int]:
    """Change registered entities and return their primary keys. `states` is updated: an entity that keeps its
    state gets the stored one."""
    ids: dict[str, int] = {}
    for kind, addresses in by_kind.items():
        for chunk in chunks(addresses):
            stored = _stored_rows(kind, chunk)
            ids.update((address, pk) for address, (pk, *_) in stored.items())
            record(
                [*_update(stored, document, report), *_make_containers_live(stored, states, document, report)]
            )
            states.update(
                (address, state)
                for address, (_, state, _) in stored.items()
                if address not in document.entities and not _becomes_live(state, states[address])
            )
    return ids


def _stored_rows(kind: str, addresses: list[str]) -> dict[str, tuple[int, str, str]]:
    """Return (primary key, state, description) by address."""
    rows = Entity.objects.filter(kind=kind, key__in=[address.partition(":")[2] for address in addresses])
    return {
        f"{kind}:{key}": (pk, state, description)
        for pk, key, state, description in rows.values_list("pk", "key", "state", "description")
    }


def _insert(
    new: list[str], states: dict, document: Document, ids: dict[str, int], report: ImportReport
) -> list[JournalEntry]:
    at = database_now()
    ids.update(zip(new, reserve_ids(Entity, len(new)), strict=True))
    insert_rows(Entity, COLUMNS, [_row(address, states[address], document, ids, at) for address in new])
    for address in new:
        report.changes[ENTITIES_ADDED, f"{states[address]} {address.partition(':')[0]}"] += 1
    return [
        JournalEntry(ACTIONS[states[address]], entity=address, detail=str(states[address])) for address in new
    ]


def _row(text: str, state: str, document: Document, ids: dict[str, int], at) -> tuple:
    address, line = parse_address(text), document.entities.get(text)
    container_ids = [
        ids.get(str(container)) for container in (address.parent, address.namespace, address.application)
    ]
    return (
        ids[text],
        address.kind,
        address.key,
        *container_ids,
        str(state),
        line and line.description or "",
        at,
        at,
    )


def _update(
    stored: dict[str, tuple[int, str, str]], document: Document, report: ImportReport
) -> list[JournalEntry]:
    changes, rows, at = [], [], database_now()
    for address, (pk, state, description) in stored.items():
        if (line := document.entities.get(address)) is None:
            continue
        new_description = description if line.description is None else line.description
        entity_changes = _entity_changes(line, state, description, new_description)
        if entity_changes:
            rows.append((line.state, new_description, at, pk))
            report.changes[ENTITIES_CHANGED, f"{line.state} {address.partition(':')[0]}"] += 1
        else:
            report.unchanged["entities"] += 1
        changes += entity_changes
    update_rows(Entity, ("state", "description", "changed_at"), rows)
    return changes


def _becomes_live(state: str, new_state: str) -> bool:
    """Return whether an unlisted container becomes live.

    Only planned containers do; deleted containers stay deleted.
    """
    return state == State.PLANNED and new_state == State.LIVE


def _make_containers_live(
    stored: dict[str, tuple[int, str, str]], states: dict[str, str], document: Document, report: ImportReport
) -> list[JournalEntry]:
    changed = {
        address: pk
        for address, (pk, state, _) in stored.items()
        if address not in document.entities and _becomes_live(state, states[address])
    }
    update_rows(
        Entity, ("state", "changed_at"), [(str(State.LIVE), database_now(), pk) for pk in changed.values()]
    )
    for address in changed:
        report.changes[ENTITIES_CHANGED, f"live {address.partition(':')[0]}"] += 1
    return [JournalEntry(ACTIONS[State.LIVE], entity=address, detail="live") for address in changed]


def _entity_changes(
    line: EntityLine, state: str, description: str, new_description: str
) -> list[JournalEntry]:
    changes = []
    if line.state != state:
        changes.append(JournalEntry(ACTIONS[line.state], entity=line.address, detail=line.state))
    if new_description != description:
        changes.append(JournalEntry("describe", entity=line.address, detail=new_description))
    return changes


def _warnings(deleted: dict[int, str]) -> list[str]:
    """Return a warning for each deleted container of the document that contains live entities."""
    live_children: Counter[str] = Counter()
    for chunk in chunks(deleted):
        parents = Entity.objects.filter(parent_id__in=chunk, state=State.LIVE).values_list(
            "parent_id", flat=True
        )
        live_children.update(deleted[parent] for parent in parents)
    return [
        f"`{address}` is deleted but contains {count:,} live {'entity' if count == 1 else 'entities'}"
        for address, count in sorted(live_children.items())
    ]
