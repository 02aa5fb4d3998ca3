"""Import the entities of a tenant document: listed addresses, addresses of grants, and their containers.

Listed entities get the listed state. An address that only has grants becomes planned. A missing container is
registered too, as live if a live entity inside it is listed. Registered addresses that are not listed do not
change.
"""

from collections import Counter

from entities.address import ancestor_kinds, parse_grantable
from entities.models import PATTERN, Entity, State
from entities.vocabulary import CONTAINER_KINDS, KINDS
from grants.bulk_rows import chunks, database_now, insert_rows, reserve_ids, update_rows
from grants.derived import derive_on_entities
from grants.journal import JournalEntry
from grants.tenant.reading import Document
from grants.tenant.report import Counted, ImportRun

ACTIONS: dict[str, str] = {State.LIVE: "register", State.PLANNED: "plan", State.DELETED: "delete"}
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
        states.setdefault(address, PATTERN if parse_grantable(address).is_pattern else State.PLANNED)
    for address in list(states):
        _add_containers(address, states, document.entities)
    return states


def _add_containers(address: str, states: dict[str, str], listed: dict) -> None:
    is_live = states[address] == State.LIVE
    container = parse_grantable(address).parent
    while container is not None:
        container_state = states.get(name := str(container))
        # Another call handles the containers of an address in `states`. A live entity continues up to the
        # first live container.
        if container_state == State.LIVE or (container_state is not None and not is_live):
            return
        if name not in listed:
            states[name] = State.LIVE if is_live else State.PLANNED
        container = container.parent


def write_entities(run: ImportRun) -> dict[str, int]:
    """Register and change the entities of the document. Return the primary key of each of its addresses."""
    states = new_states(run.document)
    by_kind: dict[str, list[str]] = {
        kind: [] for kind in sorted(KINDS, key=lambda kind: len(ancestor_kinds(kind)))
    }
    for address in states:
        by_kind[address.partition(":")[0]].append(address)
    # All look-ups come before the first insert, because PostgreSQL would reuse query plans that it made for
    # the smaller table.
    ids: dict[str, int] = {}
    for kind, addresses in by_kind.items():
        for chunk in chunks(addresses):
            _change_existing(run, _stored_rows(kind, chunk), states, ids)
    for addresses in by_kind.values():
        for new in chunks([address for address in addresses if address not in ids]):
            _insert(run, new, states, ids)
            derive_on_entities([ids[address] for address in new if states[address] != PATTERN])
    run.report.warnings += _warnings(
        {
            ids[address]: address
            for kind in CONTAINER_KINDS
            for address in by_kind[kind]
            if states[address] == State.DELETED
        }
    )
    return ids


def _change_existing(
    run: ImportRun, stored: dict[str, tuple[int, str, str]], states: dict[str, str], ids: dict[str, int]
) -> None:
    """Change registered entities. Add their primary keys to `ids`, and the states that they keep to
    `states`.
    """
    entries, rows, at = [], [], database_now()
    for address, (pk, state, description) in stored.items():
        ids[address] = pk
        line = run.document.entities.get(address)
        # of the containers that are not listed, only planned ones become live; deleted ones stay deleted
        if line is None and not (state == State.PLANNED and states[address] == State.LIVE):
            states[address] = state
        new_state = str(states[address])
        new_description = description if line is None or line.description is None else line.description
        changes = []
        if new_state != state:
            changes.append(JournalEntry(ACTIONS[new_state], entity=address, detail=new_state))
        if new_description != description:
            changes.append(JournalEntry("describe", entity=address, detail=new_description))
        if changes:
            rows.append((new_state, new_description, at, pk))
            run.report.changes[Counted.ENTITIES_CHANGED, f"{new_state} {address.partition(':')[0]}"] += 1
        elif line is not None:
            run.report.unchanged["entities"] += 1
        entries += changes
    update_rows(Entity, ("state", "description", "changed_at"), rows)
    run.record(entries)


def _stored_rows(kind: str, addresses: list[str]) -> dict[str, tuple[int, str, str]]:
    """Return (primary key, state, description) by address."""
    rows = Entity.rows.filter(kind=kind, key__in=[address.partition(":")[2] for address in addresses])
    return {
        f"{kind}:{key}": (pk, state, description)
        for pk, key, state, description in rows.values_list("pk", "key", "state", "description")
    }


def _insert(run: ImportRun, new: list[str], states: dict[str, str], ids: dict[str, int]) -> None:
    at = database_now()
    ids.update(zip(new, reserve_ids(Entity, len(new)), strict=True))
    insert_rows(Entity, COLUMNS, [_row(run.document, address, states[address], ids, at) for address in new])
    registered = [address for address in new if states[address] != PATTERN]
    for address in registered:
        run.report.changes[Counted.ENTITIES_ADDED, f"{states[address]} {address.partition(':')[0]}"] += 1
    run.record(
        [
            JournalEntry(ACTIONS[states[address]], entity=address, detail=str(states[address]))
            for address in registered
        ]
    )


def _row(document: Document, text: str, state: str, ids: dict[str, int], at) -> tuple:
    address, line = parse_grantable(text), document.entities.get(text)
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
