"""Grant and revoke: write the grants of a change set and their journal lines.

INVARIANT: `namespace` and `application` of a grant equal those of its entity, which never change, and
`entity_kind` its kind. Therefore, one index lookup answers whether a principal holds any grant inside a
container of any size, or on any entity of a kind. `first_misplaced_grant` verifies the invariant.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from django.contrib.auth.models import Group
from django.db.models import F, Q
from django.utils import timezone

from entities.address import Address
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.services import ensure_entities
from grants.bulk_rows import chunks, database_time, insert_rows, update_rows
from grants.change_set import Exclude, Grant, Key, Leave, MembershipChange, Revoke
from grants.derived import delete_derived, derive_from_grants, derive_on_entities
from grants.grant_attributes import GrantAttributes
from grants.journal import Author, JournalEntry, append_to_journal
from grants.journal_details import period_detail
from grants.models import (
    PRINCIPAL_TYPES,
    GroupGrant,
    JournalHead,
    PrincipalType,
    User,
    UserGrant,
    all_grants,
    permission_ids,
)
from grants.outcomes import Outcome
from grants.policies.principals import type_and_name
from grants.principal_names import principals_by_name
from grants.validity import VALIDITY_COLUMNS, Validity, time_in_words

Principals = Mapping[str, User | Group]


class StoredRow(NamedTuple):
    """An existing grant or membership. pk: its primary key. reason: of a grant."""

    pk: int
    validity: Validity
    reason: str = ""


def write_grants(
    head: JournalHead,
    author: Author,
    changes: Sequence[Grant | Revoke],
    principals: Principals,
    *,
    attributes: GrantAttributes,
    detail: str,
) -> Outcome:
    """Write valid grants and revocations. Register the addresses of grants as planned if they are not
    registered.

    principals: those of the changes, by written name. attributes: of the new grants. detail: of the journal
    lines. The number of statements does not grow with the number of changes, up to `ROWS_PER_STATEMENT`.
    """
    grants = [change for change in changes if isinstance(change, Grant)]
    entities = entities_at(change.address for change in changes)
    existing = existing_grants(changes, principals, entities)
    granted, changed, revoked = changes_with_effect(changes, existing)
    _delete_grants(revoked, existing)
    _update_periods(changed, existing, author, attributes)
    ensured = ensure_entities(states={change.address: State.PLANNED for change in granted})
    new_principals = mark_as_principals([change.principal for change in granted], principals)
    _insert_grants(granted, principals, ensured.rows, author, attributes)
    derive_on_entities([ensured.rows[address].pk for address in ensured.created])
    on_patterns = [change for change in (*granted, *changed) if change.address.is_pattern]
    _derive_from_grants(on_patterns, principals, entities | ensured.rows)
    grant_detail, reason = "; ".join(filter(None, (detail, attributes.detail))), attributes.reason
    append_to_journal(
        head,
        [
            *(grant_entry(change, detail) for change in revoked),
            *(JournalEntry("plan", entity=str(address)) for address in ensured.created),
            *(JournalEntry("principal-add", principal=principal) for principal in new_principals),
            *(
                grant_entry(change, period_detail(change.validity, grant_detail), reason)
                for change in granted
            ),
            *(
                grant_entry(
                    change,
                    period_detail(change.validity, grant_detail, before=existing[change.key].validity),
                    reason or existing[change.key].reason,
                )
                for change in changed
            ),
        ],
        author=author,
    )
    outcome = Outcome(
        bool(granted or revoked or changed),
        "",
        head.revision,
        (*granted, *changed, *revoked),
        {change.key: existing[change.key].validity for change in (*changed, *revoked)},
        unchanged=tuple(_unchanged_sentences(changes, existing)),
        planned=ensured.created,
        principals=new_principals,
        notices=tuple(_notices(grants, entities, principals)),
    )
    return outcome.with_summary()


def existing_grants(
    changes: Collection[Grant | Revoke],
    principals: Principals | None = None,
    entities: Mapping[Address, Entity] | None = None,
) -> dict[Key, StoredRow]:
    """Return the grants that exist, by the keys of the changes. principals, entities: of the changes, if they were read already."""
    if principals is None:
        principals = principals_by_name({change.principal for change in changes})
    if entities is None:
        entities = entities_at(change.address for change in changes)
    permissions = permission_ids()
    existing: dict[Key, StoredRow] = {}
    for principal_type in PRINCIPAL_TYPES.values():
        registered = [
            change
            for change in changes
            if _is_of_type(change, principal_type)
            and change.principal in principals
            and change.address in entities
        ]
        for chunk in chunks(registered):
            changes_by_key = {
                (
                    principals[change.principal].pk,
                    entities[change.address].pk,
                    permissions[change.privilege],
                ): change
                for change in chunk
            }
            rows = principal_type.grants.filter(
                **{f"{principal_type.id_column}__in": {key[0] for key in changes_by_key}},
                content_object_id__in={key[1] for key in changes_by_key},
            )
            columns = (
                "pk",
                "reason",
                *VALIDITY_COLUMNS,
                principal_type.id_column,
                "content_object_id",
                "permission_id",
            )
            for pk, reason, valid_from, valid_until, *key in rows.values_list(*columns):
                if change := changes_by_key.get(tuple(key)):
                    existing[change.key] = StoredRow(pk, Validity(valid_from, valid_until), reason)
    return existing


def _is_of_type(change: Grant | Revoke, principal_type: PrincipalType) -> bool:
    return type_and_name(change.principal)[0] == principal_type.name


def _update_periods(
    changes: Iterable[Grant],
    existing: Mapping[Key, StoredRow],
    author: Author,
    attributes: GrantAttributes,
) -> None:
    """Write the period, author, time and reason of the changes to their grants.

    A grant keeps its reason if there is no new one.
    """
    now = database_time(timezone.now())
    for principal_type in PRINCIPAL_TYPES.values():
        update_rows(
            principal_type.grant_model,
            (*VALIDITY_COLUMNS, "granted_by_id", "granted_at", "reason"),
            [
                (
                    *map(database_time, change.validity),
                    author.user_id,
                    now,
                    attributes.reason or existing[change.key].reason,
                    existing[change.key].pk,
                )
                for change in changes
                if _is_of_type(change, principal_type)
            ],
        )


def _delete_grants(changes: Iterable[Revoke], existing: Mapping[Key, StoredRow]) -> None:
    for principal_type in PRINCIPAL_TYPES.values():
        of_type = [change for change in changes if _is_of_type(change, principal_type)]
        for chunk in chunks(existing[change.key].pk for change in of_type if change.address.is_pattern):
            delete_derived(principal_type, chunk)
        for chunk in chunks(existing[change.key].pk for change in of_type):
            principal_type.grants.filter(pk__in=chunk).delete()


def _derive_from_grants(
    changes: Collection[Grant], principals: Principals, entities: Mapping[Address, Entity]
) -> None:
    """Write what follows from these grants on patterns, which are written already."""
    if changes:
        stored = existing_grants(changes, principals, entities)
        for principal_type in PRINCIPAL_TYPES.values():
            of_type = [change for change in changes if _is_of_type(change, principal_type)]
            derive_from_grants(principal_type, [stored[change.key].pk for change in of_type])


def _insert_grants(
    changes: Iterable[Grant],
    principals: Principals,
    entities: Mapping[Address, Entity],
    author: Author,
    attributes: GrantAttributes,
) -> None:
    permissions, now = permission_ids(), database_time(timezone.now())
    for principal_type in PRINCIPAL_TYPES.values():
        insert_grant_rows(
            principal_type,
            [
                (
                    principals[change.principal].pk,
                    entities[change.address].pk,
                    permissions[change.privilege],
                    author.user_id,
                    now,
                    *attributes,
                    *map(database_time, change.validity),
                )
                for change in changes
                if _is_of_type(change, principal_type)
            ],
        )


def changes_with_effect(
    changes: Iterable[Grant | Revoke | MembershipChange], existing: Mapping[Key, StoredRow]
) -> tuple[list, list, list]:
    """Return the changes that add, change the period of, and remove a grant or a membership."""
    added, changed, removed = [], [], []
    for change in changes:
        stored = existing.get(change.key)
        if isinstance(change, Revoke | Leave | Exclude):
            removed += [change] if stored else []
        elif stored is None:
            added.append(change)
        elif stored.validity != change.validity:
            changed.append(change)
    return added, changed, removed


def mark_as_principals(names: Iterable[str], principals: Principals) -> tuple[str, ...]:
    """Mark the accounts among these names that are not principals yet as principals.

    Return their written names.
    """
    new_principals = {
        name: user.pk
        for name in names
        if isinstance(user := principals[name], User) and not user.is_principal
    }
    for chunk in chunks(new_principals.values()):
        User.objects.filter(pk__in=chunk).update(is_principal=True)
    return tuple(new_principals)


def grant_entry(change: Grant | Revoke, detail: str = "", reason: str = "") -> JournalEntry:
    """Return the content of the journal line of a change."""
    return JournalEntry(
        change.verb, change.principal, str(change.address), change.privilege.value, detail, reason
    )


def _unchanged_sentences(
    changes: Iterable[Grant | Revoke], existing: Mapping[Key, StoredRow]
) -> Iterable[str]:
    for change in changes:
        who, what = change.principal, f"{change.privilege} on {change.address}"
        if isinstance(change, Revoke) and change.key not in existing:
            yield f"{who} does not hold {what}: nothing changed"
        elif (
            isinstance(change, Grant)
            and change.key in existing
            and existing[change.key].validity == change.validity
        ):
            yield f"{who} already holds {what}: nothing changed"


def _notices(
    grants: Collection[Grant], entities: Mapping[Address, Entity], principals: Principals
) -> Iterable[str]:
    """Yield why a grant has no effect yet: its address is registered already and is not live, or its user is
    inactive.
    """
    for address in dict.fromkeys(grant.address for grant in grants if not grant.address.is_pattern):
        state = entities[address].state if address in entities else State.LIVE
        if state == State.DELETED:
            yield f"{address} was deleted: a grant on it takes effect only if it is recreated"
        elif state == State.PLANNED:
            yield f"{address} is only planned: a grant on it takes effect once it is registered"
    for name in dict.fromkeys(grant.principal for grant in grants):
        user = principals[name]
        if isinstance(user, User) and not user.is_active:
            yield f"{name} is inactive: its grants have no effect until it is active again"
    now = timezone.now()
    for grant in grants:
        if grant.validity.valid_from is not None and grant.validity.valid_from > now:
            yield f"{grant} takes effect on {time_in_words(grant.validity.valid_from)}"


def insert_grant_rows(principal_type: PrincipalType, rows: Sequence[tuple]) -> None:
    """Insert grants to principals of one type.

    rows: (principal key, entity key, permission key, author's user key, time,
        *GrantAttributes, beginning and end of the period in the form of parameters).
    Runs one statement, and one query for every `ROWS_PER_STATEMENT` entities.
    """
    columns = (
        principal_type.id_column,
        "content_object_id",
        "permission_id",
        "granted_by_id",
        "granted_at",
        *GrantAttributes._fields,
        *VALIDITY_COLUMNS,
        "namespace_id",
        "application_id",
        "entity_kind",
    )
    containers_by_entity = {}
    for chunk in chunks({row[1] for row in rows}):
        entities = Entity.rows.filter(pk__in=chunk).values_list(
            "pk", "namespace_id", "application_id", "kind"
        )
        containers_by_entity.update((pk, containers) for pk, *containers in entities)
    insert_rows(principal_type.grant_model, columns, [(*row, *containers_by_entity[row[1]]) for row in rows])


def first_misplaced_grant() -> UserGrant | GroupGrant | None:
    """Return a grant with other containers or another kind than its entity, or None if there is no such
    grant.
    """
    for grants in all_grants():
        rows = grants.select_related("content_object")
        # an earlier version that is still running during an upgrade stores no kind
        wrong_kind = rows.exclude(entity_kind="").exclude(entity_kind=F("content_object__kind")).first()
        if wrong_kind is not None:
            return wrong_kind
        for column in ("namespace_id", "application_id"):
            # In SQL a comparison with NULL is never true, so there is a separate condition for NULL on only
            # one side.
            actual = f"content_object__{column}"
            misplaced = rows.filter(
                ~Q(**{column: F(actual)}, **{f"{column}__isnull": False, f"{actual}__isnull": False})
                & ~Q(**{f"{column}__isnull": True, f"{actual}__isnull": True})
            ).first()
            if misplaced is not None:
                return misplaced
    return None
