"""Grant and revoke privileges: a change set is applied completely or not at all, in one transaction with its
journal lines.

Existing grants and revocations without a grant are skipped: they change nothing and write no journal line. A
grant that exists with another period gets the new period, and the author, time and reason of the change.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from django.contrib.auth.models import Group
from django.utils import timezone

from entities.address import Address, parse_address
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.services import ensure_entities, instance_fault
from entities.vocabulary import Privilege, privilege_by_name
from grants.authority.delegation import BY_DELEGATION
from grants.authority.rights import DelegatedChange, check_delegated_changes
from grants.bulk_rows import chunks, database_time, update_rows
from grants.changes.authority import grant_transaction
from grants.changes.four_eyes import check_direct_change
from grants.changes.outcomes import ChangeItem, ChangeOutcome, GrantKey
from grants.changes.rows import insert_grant_rows
from grants.errors import ChangeRefused, GrantError, StaleBase
from grants.grant_attributes import GrantAttributes
from grants.journal import Author, Change, append_to_journal
from grants.journal_details import period_detail
from grants.models import GRANT_TABLES, JournalHead, User, permission_ids
from grants.principal_names import format_principal
from grants.principal_rows import principals_by_name
from grants.validity import VALIDITY_COLUMNS, Validity, ValidityError, time_in_words

Principal = str | User | Group
# the period of a grant is the last part; without it the grant has no limits
GrantSpec = tuple[Principal, Address, Privilege] | tuple[Principal, Address, Privilege, Validity]


class StoredGrant(NamedTuple):
    """An existing grant. pk: its primary key."""

    pk: int
    reason: str
    validity: Validity


def change_grants(
    *,
    author: Author,
    grant: Iterable[GrantSpec] = (),
    revoke: Iterable[GrantSpec] = (),
    base_revision: int | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> ChangeOutcome:
    """Apply a change set completely or not at all. Register the addresses of grants as planned if they are
    not registered.

    attributes: values of GrantAttributes for the new grants; the default for `reason` is the author's reason.
    The author is an administrator, or a delegate for all addresses (grants.authority.delegation). The number
    of statements does not grow with the number of items, up to `ROWS_PER_STATEMENT`. Raise StaleBase if
    `base_revision` is not the newest revision, ChangeRefused if an item is invalid, ReasonMissing, or
    SecondPersonRequired if one person may not make the change alone.
    """
    grant, revoke = list(grant), list(revoke)
    with grant_transaction(author) as (head, delegate):
        if delegate is not None:
            # before any other check, so that errors reveal nothing about other entities and principals
            check_delegated_changes(delegate, _delegated_changes(grant, revoke))
        if base_revision not in (None, head.revision):
            raise StaleBase(base_revision, head.revision)
        outcome = write_changes(
            head,
            author,
            grant=grant,
            revoke=revoke,
            attributes=attributes,
            detail=BY_DELEGATION if delegate else "",
        )
        check_direct_change(
            author, granted=[*outcome.granted, *outcome.changed], revoked=outcome.revoked, is_written=True
        )
        return outcome


def _delegated_changes(grant: Iterable[GrantSpec], revoke: Iterable[GrantSpec]) -> Iterator[DelegatedChange]:
    """Yield the changes for the check of a delegate. Raise ChangeRefused if an item is invalid."""
    for verb, specs in (("grant", grant), ("revoke", revoke)):
        for index, spec in enumerate(specs):
            try:
                item = _parse_item(spec)
            except ValueError as error:
                raise ChangeRefused([(index, verb, str(error))]) from None
            yield item.principal, item.address, item.privilege, item.validity if verb == "grant" else None


def write_changes(
    head: JournalHead,
    author: Author,
    *,
    grant: Iterable[GrantSpec] = (),
    revoke: Iterable[GrantSpec] = (),
    detail: str = "",
    attributes: Mapping[str, Any] | None = None,
    allows_past_end: bool = False,
) -> ChangeOutcome:
    """Apply a change set like `change_grants`, inside an `administrator_transaction` of the caller.

    detail: the detail of the journal lines of the items. allows_past_end: accept periods that have ended, to
    restore a state.
    """
    new_attributes = GrantAttributes(**{"reason": author.reason, **(attributes or {})})
    items, principals = validated_items(
        {"grant": list(grant), "revoke": list(revoke)}, allows_past_end=allows_past_end
    )
    entities = entities_at(item.address for verb_items in items.values() for item in verb_items)
    existing = _existing_grants([*items["grant"], *items["revoke"]], principals, entities)
    revoked = [item for item in items["revoke"] if item.key in existing]
    granted = [item for item in items["grant"] if item.key not in existing]
    changed = [
        item
        for item in items["grant"]
        if item.key in existing and existing[item.key].validity != item.validity
    ]
    _delete_grants(revoked, existing)
    _update_periods(changed, existing, author, new_attributes)
    ensured = ensure_entities(states={item.address: State.PLANNED for item in granted})
    new_principals = _mark_as_principals(granted, principals)
    _insert_grants(granted, principals, ensured.rows, author, new_attributes)
    grant_detail, reason = "; ".join(filter(None, (detail, new_attributes.detail))), new_attributes.reason
    revision = append_to_journal(
        head,
        [
            *(_journal_change("revoke", item, detail) for item in revoked),
            *(Change("plan", entity=str(address)) for address in ensured.created),
            *(Change("principal-add", principal=principal) for principal in new_principals),
            *(
                _journal_change("grant", item, period_detail(item.validity, grant_detail), reason)
                for item in granted
            ),
            *(
                _journal_change(
                    "grant",
                    item,
                    period_detail(item.validity, grant_detail, before=existing[item.key].validity),
                    reason or existing[item.key].reason,
                )
                for item in changed
            ),
        ],
        author=author,
    )
    return ChangeOutcome(
        revision,
        tuple(granted),
        tuple(revoked),
        tuple(changed),
        {item.key: existing[item.key].validity for item in (*changed, *revoked)},
        unchanged=tuple(_unchanged_sentences(items, existing)),
        planned=ensured.created,
        principals=new_principals,
        notices=tuple(_notices(items["grant"], entities, principals)),
    )


def validated_items(
    specs_by_verb: Mapping[str, list[GrantSpec]],
    *,
    allows_past_end: bool = False,
) -> tuple[dict[str, list[ChangeItem]], dict[str, User | Group]]:
    """Return the items of each verb, and their principals by written name.

    Raise ChangeRefused with all invalid items.
    """
    positions: dict[GrantKey, tuple[str, int]] = {}
    items: dict[str, list[ChangeItem]] = {verb: [] for verb in specs_by_verb}
    errors, now = [], timezone.now()
    for verb, specs in specs_by_verb.items():
        for index, spec in enumerate(specs):
            try:
                item = _parse_item(spec)
                if not allows_past_end:
                    item.validity.check_not_over(now)
            except ValidityError as error:
                errors.append((index, verb, f"`{error.field}`: {error}"))
                continue
            except ValueError as error:
                errors.append((index, verb, str(error)))
                continue
            first_verb, first_index = positions.setdefault(item.key, (verb, index))
            if (first_verb, first_index) == (verb, index):
                items[verb].append(item)
            else:
                errors.append(
                    (index, verb, f"{item} repeats {first_verb}[{first_index}]: keep one of the two")
                )
    principals = principals_by_name({principal for principal, *_ in positions})
    errors += [
        (index, verb, f"{principal} does not exist: add it first, or correct the name")
        for (principal, *_), (verb, index) in positions.items()
        if principal not in principals
    ]
    if errors:
        # all grants before all revocations, each in the order of the request
        raise ChangeRefused(sorted(errors, key=lambda error: (error[1], error[0])))
    return items, principals


def _parse_item(spec: GrantSpec) -> ChangeItem:
    principal, address, privilege, *validity = spec
    if isinstance(address, str):
        address = parse_address(address)
    if fault := instance_fault(address):
        raise GrantError(fault)
    return ChangeItem(format_principal(principal), address, privilege_by_name(privilege), *validity)


def _existing_grants(
    items: list[ChangeItem], principals: Mapping[str, User | Group], entities: Mapping[Address, Entity]
) -> dict[GrantKey, StoredGrant]:
    """Return the grants that exist, by the keys of the items."""
    permissions, existing = permission_ids(), {}
    for kind, (model, principal_column) in GRANT_TABLES.items():
        registered = [item for item in items if _is_of_type(item, kind) and item.address in entities]
        for chunk in chunks(registered):
            items_by_key = {
                (principals[item.principal].pk, entities[item.address].pk, permissions[item.privilege]): item
                for item in chunk
            }
            rows = model.objects.filter(
                **{f"{principal_column}__in": {key[0] for key in items_by_key}},
                content_object_id__in={key[1] for key in items_by_key},
            )
            columns = (
                "pk",
                "reason",
                *VALIDITY_COLUMNS,
                principal_column,
                "content_object_id",
                "permission_id",
            )
            for pk, reason, valid_from, valid_until, *key in rows.values_list(*columns):
                if item := items_by_key.get(tuple(key)):
                    existing[item.key] = StoredGrant(pk, reason, Validity(valid_from, valid_until))
    return existing


def _is_of_type(item: ChangeItem, kind: str) -> bool:
    return item.principal.startswith(f"{kind}:")


def _update_periods(
    items: list[ChangeItem],
    existing: Mapping[GrantKey, StoredGrant],
    author: Author,
    attributes: GrantAttributes,
) -> None:
    """Write the period, author, time and reason of the items to their grants.

    A grant keeps its reason if there is no new one.
    """
    now = database_time(timezone.now())
    for kind, (model, _) in GRANT_TABLES.items():
        update_rows(
            model,
            (*VALIDITY_COLUMNS, "granted_by_id", "granted_at", "reason"),
            [
                (
                    *map(database_time, item.validity),
                    author.user_id,
                    now,
                    attributes.reason or existing[item.key].reason,
                    existing[item.key].pk,
                )
                for item in items
                if _is_of_type(item, kind)
            ],
        )


def _delete_grants(items: list[ChangeItem], existing: Mapping[GrantKey, StoredGrant]) -> None:
    for kind, (model, _) in GRANT_TABLES.items():
        for chunk in chunks(existing[item.key].pk for item in items if _is_of_type(item, kind)):
            model.objects.filter(pk__in=chunk).delete()


def _insert_grants(
    items: list[ChangeItem],
    principals: Mapping[str, User | Group],
    entities: Mapping[Address, Entity],
    author: Author,
    attributes: GrantAttributes,
) -> None:
    permissions, now = permission_ids(), database_time(timezone.now())
    for kind in GRANT_TABLES:
        insert_grant_rows(
            kind,
            [
                (
                    principals[item.principal].pk,
                    entities[item.address].pk,
                    permissions[item.privilege],
                    author.user_id,
                    now,
                    *attributes,
                    *map(database_time, item.validity),
                )
                for item in items
                if _is_of_type(item, kind)
            ],
        )


def _mark_as_principals(granted: list[ChangeItem], principals: Mapping[str, User | Group]) -> tuple[str, ...]:
    """Mark the accounts that receive a grant and are not principals yet as principals.

    Return their written names.
    """
    users = {item.principal: principals[item.principal] for item in granted if _is_of_type(item, "user")}
    new_principals = {name: user.pk for name, user in users.items() if not user.is_principal}
    for chunk in chunks(new_principals.values()):
        User.objects.filter(pk__in=chunk).update(is_principal=True)
    return tuple(new_principals)


def _journal_change(action: str, item: ChangeItem, detail: str, reason: str = "") -> Change:
    return Change(action, item.principal, str(item.address), item.privilege.value, detail, reason)


def _unchanged_sentences(
    items: Mapping[str, list[ChangeItem]], existing: Mapping[GrantKey, StoredGrant]
) -> Iterable[str]:
    for item in items["grant"]:
        if item.key in existing and existing[item.key].validity == item.validity:
            yield f"{item.principal} already holds {item.privilege} on {item.address}: nothing changed"
    for item in items["revoke"]:
        if item.key not in existing:
            yield f"{item.principal} does not hold {item.privilege} on {item.address}: nothing changed"


def _notices(
    granted: list[ChangeItem], entities: Mapping[Address, Entity], principals: Mapping[str, User | Group]
) -> Iterable[str]:
    """Yield why a grant has no effect yet: its address is registered already and is not live, or its user is
    inactive.
    """
    for address in dict.fromkeys(item.address for item in granted):
        state = entities[address].state if address in entities else State.LIVE
        if state == State.DELETED:
            yield f"{address} was deleted: a grant on it takes effect only if it is recreated"
        elif state == State.PLANNED:
            yield f"{address} is only planned: a grant on it takes effect once it is registered"
    for name in dict.fromkeys(item.principal for item in granted):
        if isinstance(principals[name], User) and not principals[name].is_active:
            yield f"{name} is inactive: its grants have no effect until it is active again"
    now = timezone.now()
    for item in granted:
        if item.validity.valid_from is not None and item.validity.valid_from > now:
            yield f"{item} takes effect on {time_in_words(item.validity.valid_from)}"
