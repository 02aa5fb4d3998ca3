"""Grant and revoke privileges: a change set is applied completely or not at all, in one transaction with its journal lines.

Existing grants and revocations without a grant are skipped: they change nothing and write no journal line.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import Group
from django.utils import timezone

from entities.address import Address, parse_address
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.services import ensure_entities, instance_fault
from entities.vocabulary import Privilege, privilege_by_name
from grants.bulk_rows import chunks, database_time
from grants.changes.authority import administrator_transaction
from grants.changes.outcomes import ChangeItem, ChangeOutcome
from grants.changes.rows import insert_grant_rows
from grants.errors import ChangeRefused, GrantError, StaleBase
from grants.grant_attributes import GrantAttributes
from grants.journal import Author, Change, append_to_journal
from grants.models import GRANT_TABLES, JournalHead, User, permission_ids
from grants.principal_names import format_principal
from grants.principal_rows import principals_by_name

Principal = str | User | Group
GrantSpec = tuple[Principal, Address, Privilege]


def change_grants(*, author: Author, grant: Iterable[GrantSpec] = (), revoke: Iterable[GrantSpec] = (),
                  base_revision: int | None = None, attributes: Mapping[str, Any] | None = None) -> ChangeOutcome:
    """Apply a change set completely or not at all. Register the addresses of grants as planned if they are not registered.

    attributes: values of GrantAttributes for the new grants; the default for `reason` is the author's reason.
    The number of statements does not grow with the number of items, up to `ROWS_PER_STATEMENT`.
    Raise StaleBase if `base_revision` is not the newest revision, ChangeRefused if an item is invalid.
    """
    grant, revoke = list(grant), list(revoke)
    with administrator_transaction(author) as head:
        if base_revision not in (None, head.revision):
            raise StaleBase(base_revision, head.revision)
        return write_changes(head, author, grant=grant, revoke=revoke, attributes=attributes)


def write_changes(head: JournalHead, author: Author, *, grant: Iterable[GrantSpec] = (), revoke: Iterable[GrantSpec] = (),
                  detail: str = "", attributes: Mapping[str, Any] | None = None) -> ChangeOutcome:
    """Apply a change set like `change_grants`, inside an `administrator_transaction` of the caller.

    detail: the detail of the journal lines of the items.
    """
    new_attributes = GrantAttributes(**{"reason": author.reason, **(attributes or {})})
    items, principals = validated_items({"grant": list(grant), "revoke": list(revoke)})
    entities = entities_at(item.address for verb_items in items.values() for item in verb_items)
    existing = _existing_grants([*items["grant"], *items["revoke"]], principals, entities)
    revoked = [item for item in items["revoke"] if item in existing]
    granted = [item for item in items["grant"] if item not in existing]
    _delete_grants(revoked, existing)
    ensured = ensure_entities(states={item.address: State.PLANNED for item in granted})
    new_principals = _mark_as_principals(granted, principals)
    _insert_grants(granted, principals, ensured.rows, author, new_attributes)
    grant_detail = "; ".join(filter(None, (detail, new_attributes.detail)))
    revision = append_to_journal(head, [
        *(_journal_change("revoke", item, detail) for item in revoked),
        *(Change("plan", entity=str(address)) for address in ensured.created),
        *(Change("principal-add", principal=principal) for principal in new_principals),
        *(_journal_change("grant", item, grant_detail, new_attributes.reason) for item in granted),
    ], author=author)
    return ChangeOutcome(
        revision, tuple(granted), tuple(revoked), unchanged=tuple(_unchanged_sentences(items, existing)),
        planned=ensured.created, principals=new_principals, notices=tuple(_notices(items["grant"], entities, principals)))


def validated_items(
    specs_by_verb: Mapping[str, list[GrantSpec]],
) -> tuple[dict[str, list[ChangeItem]], dict[str, User | Group]]:
    """Return the items of each verb, and their principals by written name. Raise ChangeRefused with all invalid items."""
    positions: dict[ChangeItem, tuple[str, int]] = {}
    errors = []
    for verb, specs in specs_by_verb.items():
        for index, spec in enumerate(specs):
            try:
                item = _parse_item(spec)
            except ValueError as error:
                errors.append((index, verb, str(error)))
                continue
            first_verb, first_index = positions.setdefault(item, (verb, index))
            if (first_verb, first_index) != (verb, index):
                errors.append((index, verb, f"{item} repeats {first_verb}[{first_index}]: keep one of the two"))
    principals = principals_by_name({item.principal for item in positions})
    errors += [(index, verb, f"{item.principal} does not exist: add it first, or correct the name")
               for item, (verb, index) in positions.items() if item.principal not in principals]
    if errors:
        # all grants before all revocations, each in the order of the request
        raise ChangeRefused(sorted(errors, key=lambda error: (error[1], error[0])))
    items = {verb: [item for item, position in positions.items() if position[0] == verb] for verb in specs_by_verb}
    return items, principals


def _parse_item(spec: GrantSpec) -> ChangeItem:
    principal, address, privilege = spec
    if isinstance(address, str):
        address = parse_address(address)
    if fault := instance_fault(address):
        raise GrantError(fault)
    return ChangeItem(format_principal(principal), address, privilege_by_name(privilege))


def _existing_grants(items: list[ChangeItem], principals: Mapping[str, User | Group],
                     entities: Mapping[Address, Entity]) -> dict[ChangeItem, int]:
    """Return the primary keys of the grants that exist, by item."""
    permissions, existing = permission_ids(), {}
    for kind, (model, principal_column) in GRANT_TABLES.items():
        registered = [item for item in items if _is_of_type(item, kind) and item.address in entities]
        for chunk in chunks(registered):
            items_by_key = {(principals[item.principal].pk, entities[item.address].pk, permissions[item.privilege]): item
                            for item in chunk}
            rows = model.objects.filter(**{f"{principal_column}__in": {key[0] for key in items_by_key}},
                                        content_object_id__in={key[1] for key in items_by_key})
            for pk, *key in rows.values_list("pk", principal_column, "content_object_id", "permission_id"):
                if item := items_by_key.get(tuple(key)):
                    existing[item] = pk
    return existing


def _is_of_type(item: ChangeItem, kind: str) -> bool:
    return item.principal.startswith(f"{kind}:")


def _delete_grants(items: list[ChangeItem], existing: Mapping[ChangeItem, int]) -> None:
    for kind, (model, _) in GRANT_TABLES.items():
        for chunk in chunks(existing[item] for item in items if _is_of_type(item, kind)):
            model.objects.filter(pk__in=chunk).delete()


def _insert_grants(items: list[ChangeItem], principals: Mapping[str, User | Group], entities: Mapping[Address, Entity],
                   author: Author, attributes: GrantAttributes) -> None:
    permissions, now = permission_ids(), database_time(timezone.now())
    for kind in GRANT_TABLES:
        insert_grant_rows(kind, [
            (principals[item.principal].pk, entities[item.address].pk, permissions[item.privilege], author.user_id, now,
             *attributes) for item in items if _is_of_type(item, kind)
        ])


def _mark_as_principals(granted: list[ChangeItem], principals: Mapping[str, User | Group]) -> tuple[str, ...]:
    """Mark the accounts that receive a grant and are not principals yet as principals. Return their written names."""
    users = {item.principal: principals[item.principal] for item in granted if _is_of_type(item, "user")}
    new_principals = {name: user.pk for name, user in users.items() if not user.is_principal}
    for chunk in chunks(new_principals.values()):
        User.objects.filter(pk__in=chunk).update(is_principal=True)
    return tuple(new_principals)


def _journal_change(action: str, item: ChangeItem, detail: str, reason: str = "") -> Change:
    return Change(action, item.principal, str(item.address), item.privilege.value, detail, reason)


def _unchanged_sentences(items: Mapping[str, list[ChangeItem]], existing: Mapping[ChangeItem, int]) -> Iterable[str]:
    for item in items["grant"]:
        if item in existing:
            yield f"{item.principal} already holds {item.privilege} on {item.address}: nothing changed"
    for item in items["revoke"]:
        if item not in existing:
            yield f"{item.principal} does not hold {item.privilege} on {item.address}: nothing changed"


def _notices(granted: list[ChangeItem], entities: Mapping[Address, Entity],
             principals: Mapping[str, User | Group]) -> Iterable[str]:
    """Yield why a grant has no effect yet: its address is registered already and is not live, or its user is inactive."""
    for address in dict.fromkeys(item.address for item in granted):
        state = entities[address].state if address in entities else State.LIVE
        if state == State.DELETED:
            yield f"{address} was deleted: a grant on it takes effect only if it is recreated"
        elif state == State.PLANNED:
            yield f"{address} is only planned: a grant on it takes effect once it is registered"
    for name in dict.fromkeys(item.principal for item in granted):
        if isinstance(principals[name], User) and not principals[name].is_active:
            yield f"{name} is inactive: its grants have no effect until it is active again"
