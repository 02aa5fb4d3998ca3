"""Granting and revoking: all items or none, in one transaction with their journal lines.

Saying again what is so already changes nothing and writes no line.
"""

from collections.abc import Iterable, Mapping

from django.contrib.auth.models import Group
from django.utils import timezone

from entities.address import Address, parse_address
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.services import ensure_entities, instance_fault
from entities.vocabulary import Privilege, privilege_by_name
from grants.bulk_rows import chunks, database_time
from grants.changes.authority import administrator_transaction
from grants.changes.outcomes import ChangeItem, ChangeOutcome, Outcome
from grants.changes.rows import insert_grant_rows
from grants.errors import ChangeRefused, GrantError, StaleBase
from grants.journal import Author, Change, append_to_journal
from grants.models import GRANT_TABLES, JournalHead, User, permission_ids
from grants.principal_names import format_principal
from grants.principal_rows import principals_by_name

Principal = str | User | Group
Given = tuple[Principal, Address, Privilege]


def grant_add(*, author: Author, principal: Principal, address: Address, privilege: Privilege) -> Outcome:
    """Grant one privilege; an address that is not registered is planned with it. Raises GrantError."""
    outcome = _one(change_grants, author=author, grant=[(principal, address, privilege)])
    if not outcome.has_changed:
        return Outcome(False, outcome.unchanged[0], outcome.revision)
    (item,) = outcome.granted
    planned = "; the address was not registered, so it is planned now" if outcome.planned else ""
    return Outcome(True, f"{item.principal} was granted {item.privilege} on {item.address}{planned}", outcome.revision)


def grant_remove(*, author: Author, principal: Principal, address: Address, privilege: Privilege) -> Outcome:
    """Revoke one privilege. Raises GrantError."""
    outcome = _one(change_grants, author=author, revoke=[(principal, address, privilege)])
    if not outcome.has_changed:
        return Outcome(False, outcome.unchanged[0], outcome.revision)
    (item,) = outcome.revoked
    return Outcome(True, f"{item.privilege} on {item.address} was revoked from {item.principal}", outcome.revision)


def change_grants(*, author: Author, grant: Iterable[Given] = (), revoke: Iterable[Given] = (),
                  base_revision: int | None = None) -> ChangeOutcome:
    """Revoke and grant, all or nothing. The number of statements does not grow with the items, up to `bulk.ROWS_PER_STATEMENT`.

    Raises StaleBase where `base_revision` is not the newest, ChangeRefused where an item is at fault.
    """
    grant, revoke = list(grant), list(revoke)
    with administrator_transaction(author) as head:
        if base_revision not in (None, head.revision):
            raise StaleBase(base_revision, head.revision)
        return write_changes(head, author, grant=grant, revoke=revoke)


def write_changes(head: JournalHead, author: Author, *, grant: Iterable[Given] = (), revoke: Iterable[Given] = (),
                 detail: str = "") -> ChangeOutcome:
    """What `change_grants` does, inside an `administrator_transaction`; `detail` goes on the lines of the items."""
    items, principals = validated_items({"grant": list(grant), "revoke": list(revoke)})
    entities = entities_at(item.address for part in items.values() for item in part)
    held = _held([*items["grant"], *items["revoke"]], principals, entities)
    revoked = [item for item in items["revoke"] if item in held]
    granted = [item for item in items["grant"] if item not in held]
    _delete(revoked, held)
    ensured = ensure_entities(states={item.address: State.PLANNED for item in granted})
    became = _become_principals(granted, principals)
    _insert(granted, principals, ensured.rows, author)
    revision = append_to_journal(head, [
        *(_change("revoke", item, detail) for item in revoked),
        *(Change("plan", entity=str(address)) for address in ensured.created),
        *(Change("principal-add", principal=principal) for principal in became),
        *(_change("grant", item, detail) for item in granted),
    ], author=author)
    return ChangeOutcome(revision, tuple(granted), tuple(revoked), tuple(_unchanged(items, held)), ensured.created, became,
                         tuple(_notices(items["grant"], entities, principals)))


def _one(change, **items) -> ChangeOutcome:
    """A change of one item: its refusal needs no place."""
    try:
        return change(**items)
    except ChangeRefused as refusal:
        ((_, _, message),) = refusal.errors
        raise GrantError(message) from None


def validated_items(given: Mapping[str, list[Given]]) -> tuple[dict[str, list[ChangeItem]], dict[str, User | Group]]:
    """The items of each list, and their principals. Raises ChangeRefused with everything that is wrong."""
    places: dict[ChangeItem, tuple[str, int]] = {}
    errors = []
    for part, raws in given.items():
        for index, raw in enumerate(raws):
            try:
                item = _item(raw)
            except ValueError as error:
                errors.append((index, part, str(error)))
                continue
            first = places.setdefault(item, (part, index))
            if first != (part, index):
                errors.append((index, part, _twice(item, first)))
    principals = principals_by_name({item.principal for item in places})
    errors += [(index, part, f"{item.principal} is not known here: add it first, or correct the name")
               for item, (part, index) in places.items() if item.principal not in principals]
    if errors:
        # grant before revoke, as they are given, and then by place
        raise ChangeRefused(sorted(errors, key=lambda error: (error[1], error[0])))
    return {part: [item for item, place in places.items() if place[0] == part] for part in given}, principals


def _item(raw: Given) -> ChangeItem:
    principal, address, privilege = raw
    if isinstance(address, str):
        address = parse_address(address)
    if fault := instance_fault(address):
        raise GrantError(fault)
    return ChangeItem(format_principal(principal), address, privilege_by_name(privilege))


def _twice(item: ChangeItem, first: tuple[str, int]) -> str:
    part, index = first
    return f"{item} stands already at {part}[{index}]: keep one of the two"


def _held(items: list[ChangeItem], principals: Mapping[str, User | Group],
          entities: Mapping[Address, Entity]) -> dict[ChangeItem, int]:
    """The grant's primary key for each item that is held."""
    permissions, held = permission_ids(), {}
    for kind, (model, column) in GRANT_TABLES.items():
        registered = [item for item in items if _is(item, kind) and item.address in entities]
        for chunk in chunks(registered):
            keys = {(principals[item.principal].pk, entities[item.address].pk, permissions[item.privilege]): item
                    for item in chunk}
            rows = model.objects.filter(**{f"{column}__in": {key[0] for key in keys}},
                                        content_object_id__in={key[1] for key in keys})
            for pk, *key in rows.values_list("pk", column, "content_object_id", "permission_id"):
                if item := keys.get(tuple(key)):
                    held[item] = pk
    return held


def _is(item: ChangeItem, kind: str) -> bool:
    return item.principal.startswith(f"{kind}:")


def _delete(items: list[ChangeItem], held: Mapping[ChangeItem, int]) -> None:
    for kind, (model, _) in GRANT_TABLES.items():
        for chunk in chunks(held[item] for item in items if _is(item, kind)):
            model.objects.filter(pk__in=chunk).delete()


def _insert(items: list[ChangeItem], principals: Mapping[str, User | Group], entities: Mapping[Address, Entity],
            author: Author) -> None:
    permissions, at = permission_ids(), database_time(timezone.now())
    for kind in GRANT_TABLES:
        insert_grant_rows(kind, [
            (principals[item.principal].pk, entities[item.address].pk, permissions[item.privilege], author.user_id, at,
             author.reason) for item in items if _is(item, kind)
        ])


def _become_principals(granted: list[ChangeItem], principals: Mapping[str, User | Group]) -> tuple[str, ...]:
    """Accounts of the console only are principals from their first grant on."""
    named = {item.principal: principals[item.principal] for item in granted if _is(item, "user")}
    became = {name: user.pk for name, user in named.items() if not user.is_principal}
    for chunk in chunks(became.values()):
        User.objects.filter(pk__in=chunk).update(is_principal=True)
    return tuple(became)


def _change(action: str, item: ChangeItem, detail: str) -> Change:
    return Change(action, item.principal, str(item.address), item.privilege.value, detail)


def _unchanged(items: Mapping[str, list[ChangeItem]], held: Mapping[ChangeItem, int]) -> Iterable[str]:
    for item in items["grant"]:
        if item in held:
            yield f"{item.principal} already holds {item.privilege} on {item.address}: nothing changed"
    for item in items["revoke"]:
        if item not in held:
            yield f"{item.principal} does not hold {item.privilege} on {item.address}: nothing changed"


def _notices(granted: list[ChangeItem], entities: Mapping[Address, Entity],
             principals: Mapping[str, User | Group]) -> Iterable[str]:
    """Of addresses that were registered before, and of principals: what stands between the grants and an effect."""
    for address in dict.fromkeys(item.address for item in granted):
        state = entities[address].state if address in entities else State.LIVE
        if state == State.DELETED:
            yield f"{address} was deleted: a grant on it comes to use only where it is recreated"
        elif state == State.PLANNED:
            yield f"{address} is only planned: a grant on it comes to use once it is registered"
    for name in dict.fromkeys(item.principal for item in granted):
        if isinstance(principals[name], User) and not principals[name].is_active:
            yield f"{name} is inactive: what is granted to it counts for nothing until it is active again"
