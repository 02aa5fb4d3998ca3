"""Register, delete, recreate and describe entities, and change their grants as the generation requires.

The row of an address remains when its entity is deleted: deletion changes its state, and removes its grants
only in some generations.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from entities.address import Address, instance_address
from entities.models import Entity, State
from entities.selectors import entity_at
from entities.services import delete_planned_entity, ensure_entities, set_entity_description, set_entity_state
from entities.text import storage_fault
from entities.vocabulary import Privilege, quantity
from grants.changes.authority import administrator_transaction
from grants.changes.four_eyes import check_direct_change
from grants.changes.outcomes import ChangeItem, Outcome
from grants.changes.services import write_changes
from grants.errors import LifecycleError
from grants.journal import LINES_PER_BATCH, Author, Change, append_to_journal
from grants.lifecycle.forecast import (
    LifecycleForecast,
    grants_on,
    lifecycle_forecast,
    live_subtree,
    resolve_generation,
)
from grants.models import NAME_COLUMNS, JournalHead, User, UserGrant, privilege_of
from grants.policies.policy import Generation
from grants.principal_names import MAX_DESCRIPTION_CHARACTERS, format_principal, parse_principal
from grants.principal_rows import principals_by_name

__all__ = [
    "LifecycleForecast",
    "delete_entity",
    "describe_entity",
    "lifecycle_forecast",
    "recreate_entity",
    "register_entity",
]


def register_entity(
    *,
    author: Author,
    address: Address,
    description: str = "",
    creator: str | User | None = None,
    generation: Generation | str | None = None,
) -> Outcome:
    """Make a new or planned entity live. Raise LifecycleError if its parent is not live or the entity was
    deleted.

    creator: the user who receives the privileges that the generation grants to creators. generation: the
    active generation by default.
    """
    return _make_live("register", author, address, description, creator, generation)


def recreate_entity(
    *,
    author: Author,
    address: Address,
    description: str = "",
    creator: str | User | None = None,
    generation: Generation | str | None = None,
) -> Outcome:
    """Make a deleted entity live again, so that its remaining grants apply again.

    Raise LifecycleError if its parent is not live or the entity was never deleted. The parameters are those
    of `register_entity`.
    """
    return _make_live("recreate", author, address, description, creator, generation)


def delete_entity(*, author: Author, address: Address, generation: Generation | str | None = None) -> Outcome:
    """Delete an entity and every live entity inside it. Planned entities inside it stay planned.

    A planned entity without grants and without entities inside can also be deleted, which removes its row.
    Raise LifecycleError for every other entity that is not live.
    Runs a fixed number of statements, in addition to those of the journal, and streams all rows.
    """
    with administrator_transaction(author) as head:
        forecast = lifecycle_forecast(address, "delete", generation)
        if forecast.refusal:
            raise LifecycleError(forecast.refusal)
        if (entity := entity_at(address)).state == State.PLANNED:
            return _remove_planned_entity(head, author, entity)
        deleted_entities = live_subtree(entity)
        removed_grants = grants_on(deleted_entities) if forecast.generation.deleting_removes_grants else []
        check_direct_change(author, revoked=list(_first_removed(removed_grants)))
        # The lines are generated lazily. The journal reads them before the rows change, because the query
        # depends on the states.
        lines = chain(
            _delete_lines(deleted_entities, address),
            *(_revoke_lines(grants, address) for grants in removed_grants),
        )
        revision = append_to_journal(head, lines, author=author)
        for grants in removed_grants:
            grants.delete()
        deleted_entities.update(state=State.DELETED, changed_at=timezone.now())
    return Outcome(True, _deletion_sentence(forecast), revision)


def describe_entity(*, author: Author, address: Address, description: str) -> Outcome:
    """Change the description of an entity. Raise LifecycleError if the address is not registered."""
    _check_description(description)
    with administrator_transaction(author) as head:
        entity = entity_at(address)
        if entity is None:
            raise LifecycleError(f"{address} is not registered: register it first")
        if not set_entity_description(entity=entity, description=description):
            return Outcome(False, f"{address} has this description already: nothing changed", head.revision)
        revision = append_to_journal(head, [_description_line(address, description)], author=author)
    return Outcome(True, f"the description of {address} was changed", revision)


def _remove_planned_entity(head: JournalHead, author: Author, entity: Entity) -> Outcome:
    address = entity.address
    revision = append_to_journal(
        head, [Change("delete", entity=str(address), detail="it was planned")], author=author
    )
    delete_planned_entity(entity=entity)
    return Outcome(True, f"{address} was only planned; it is no longer registered", revision)


def _make_live(
    verb: str,
    author: Author,
    address: Address,
    description: str,
    creator: str | User | None,
    generation: Generation | str | None,
) -> Outcome:
    _check_description(description)
    with administrator_transaction(author) as head:
        rules, entity = resolve_generation(generation), entity_at(address)
        if entity is not None and entity.is_live:
            return Outcome(False, f"{address} is live already: nothing changed", head.revision)
        forecast = lifecycle_forecast(address, verb, rules)
        if forecast.refusal:
            raise LifecycleError(forecast.refusal)
        principal = _creator(creator)
        append_to_journal(head, _write_live_state(verb, address, description), author=author)
        granted = _grant_to_creator(head, author, principal, address, rules)
        return Outcome(True, _live_sentence(forecast, principal, granted), head.revision)


def _write_live_state(verb: str, address: Address, description: str) -> list[Change]:
    """Make the address live, and the instance with it. Return the journal changes."""
    changed = tuple(dict.fromkeys((instance_address(), address)))
    states_before = {
        entity_address: row.state
        for entity_address in changed
        if (row := entity_at(entity_address)) is not None
    }
    rows = ensure_entities(states={address: State.LIVE}).rows
    lines = []
    for entity_address in changed:
        if states_before.get(entity_address) != State.LIVE:
            set_entity_state(entity=rows[entity_address], state=State.LIVE)
            detail = f"it was {states_before[entity_address]}" if entity_address in states_before else ""
            action = verb if entity_address == address else "register"
            lines.append(Change(action, entity=str(entity_address), detail=detail))
    if description and set_entity_description(entity=rows[address], description=description):
        lines.append(_description_line(address, description))
    return lines


def _creator(creator: str | User | None) -> str:
    """Return the written form of the creator; empty if there is none."""
    if creator is None:
        return ""
    principal = format_principal(creator)
    if parse_principal(principal)[0] != "user":
        raise LifecycleError(f"{principal} cannot create an entity: name a user")
    if principal not in principals_by_name([principal]):
        raise LifecycleError(f"{principal} does not exist: add it first, or correct the name")
    return principal


def _grant_to_creator(
    head: JournalHead, author: Author, principal: str, address: Address, rules: Generation
) -> list[Privilege]:
    """Grant the privileges of a creator to the principal, if there is one. Return the new privileges."""
    if not principal:
        return []
    items = [(principal, address, privilege) for privilege in rules.creator_receives]
    outcome = write_changes(head, author, grant=items, detail=f"received as its creator ({rules.name})")
    check_direct_change(author, granted=[*outcome.granted, *outcome.changed], is_written=True)
    return [item.privilege for item in outcome.granted]


def _delete_lines(deleted_entities: QuerySet[Entity], address: Address) -> Iterator[Change]:
    for kind, key in deleted_entities.values_list("kind", "key").iterator(chunk_size=LINES_PER_BATCH):
        entity = f"{kind}:{key}"
        yield Change("delete", entity=entity, detail="" if entity == str(address) else f"with {address}")


def _revoke_lines(grants: QuerySet, address: Address) -> Iterator[Change]:
    kind = "user" if grants.model is UserGrant else "group"
    rows = grants.order_by("content_object__kind", "content_object__key", "pk")
    columns = (NAME_COLUMNS[kind], "permission_id", "content_object__kind", "content_object__key")
    for holder, permission, *kind_and_key in rows.values_list(*columns).iterator(chunk_size=LINES_PER_BATCH):
        yield Change(
            "revoke",
            f"{kind}:{holder}",
            ":".join(kind_and_key),
            privilege_of(permission).value,
            f"went with the deletion of {address}",
        )


def _first_removed(removed_grants: Iterable[QuerySet]) -> Iterator[ChangeItem]:
    """Yield grants that a deletion removes: all, or enough of them to exceed FOUR_EYES_MAX_ITEMS.

    Yields nothing unless FOUR_EYES is on.
    """
    if not settings.FOUR_EYES:
        return
    for grants in removed_grants:
        kind = "user" if grants.model is UserGrant else "group"
        columns = (NAME_COLUMNS[kind], "content_object__kind", "content_object__key", "permission_id")
        for name, *address, permission in grants.values_list(*columns)[: settings.FOUR_EYES_MAX_ITEMS + 1]:
            yield ChangeItem(f"{kind}:{name}", Address(*address), privilege_of(permission))


def _deletion_sentence(forecast: LifecycleForecast) -> str:
    inside = forecast.entities_total - 1
    deletion = f"{forecast.address} was deleted" + (
        f" with {quantity(inside, 'entity', 'entities')} in it" if inside else ""
    )
    if forecast.grants_removed:
        return f"{deletion}; revoked {quantity(forecast.grants_removed, 'grant', 'grants')} on it"
    if forecast.grants_kept:
        kept = quantity(forecast.grants_kept, "grant", "grants")
        return f"{deletion}; kept {kept}, which will apply if the entity is recreated"
    return deletion


def _live_sentence(forecast: LifecycleForecast, creator: str, granted: list[Privilege]) -> str:
    parts = [f"{forecast.address} is live now"]
    if forecast.applying:
        parts.append(f"{quantity(forecast.applying_grant_count, 'grant', 'grants')} on it will now apply")
    if granted:
        parts.append(f"{creator} received {', '.join(granted)} on it as its creator")
    elif creator and not forecast.creator_receives:
        parts.append(f"in the `{forecast.generation.name}` generation a creator receives no privileges")
    return "; ".join(parts)


def _description_line(address: Address, description: str) -> Change:
    return Change("describe", entity=str(address), detail=description)


def _check_description(description: str) -> None:
    if fault := storage_fault(description, MAX_DESCRIPTION_CHARACTERS):
        raise LifecycleError(f"the description cannot be stored: {fault}")
