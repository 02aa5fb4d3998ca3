"""Register, delete, recreate and describe entities, and change their grants as the active generation requires.

The row of an address remains when its entity is deleted: deletion changes its state, and removes its grants
only in some generations.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from django.conf import settings
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.utils import timezone

from entities.address import Address, instance_address
from entities.models import Entity, State
from entities.selectors import entity_at
from entities.services import delete_planned_entity, ensure_entities, set_entity_description, set_entity_state
from entities.text import storage_fault
from entities.vocabulary import Privilege, quantity
from grants.authority.four_eyes import check_direct_change
from grants.authority.transactions import administrator_transaction
from grants.change_set import Delete, Grant, Recreate, Register, Revoke
from grants.changes.grants import grant_entry, write_grants
from grants.errors import LifecycleError
from grants.grant_attributes import GrantAttributes
from grants.guardrails.storage import guardrail_at
from grants.journal import LINES_PER_BATCH, Author, JournalEntry, append_to_journal
from grants.lifecycle import LifecycleForecast, grants_on, lifecycle_forecast, live_subtree
from grants.models import JournalHead, User
from grants.outcomes import Outcome
from grants.policies.policy import Generation
from grants.principal_names import MAX_DESCRIPTION_CHARACTERS, parse_principal, principals_by_name


def write_live_state(head: JournalHead, author: Author, change: Register | Recreate) -> Outcome:
    """Make a new or planned entity live, or a deleted one live again. Its creator receives the privileges that
    the active generation grants to creators.

    Raise LifecycleError if its parent is not live, for registering a deleted entity, and for recreating one
    that was never deleted.
    """
    _check_description(change.description)
    address = change.address
    entity = entity_at(address)
    if entity is not None and entity.is_live:
        return Outcome(False, f"{address} is live already: nothing changed", head.revision)
    forecast = lifecycle_forecast(address, change.verb)
    if forecast.refusal:
        raise LifecycleError(forecast.refusal)
    creators = _creators(change.creator)
    append_to_journal(head, _write_live_state(change), author=author)
    granted = _grant_to_creator(head, author, creators, address, forecast.generation)
    return Outcome(True, _live_sentence(forecast, change.creator, granted), head.revision, (change,))


def write_deletion(head: JournalHead, author: Author, change: Delete) -> Outcome:
    """Delete an entity and every live entity inside it. Planned entities inside it stay planned.

    The active generation decides whether the grants on them are removed. A planned entity without grants and
    without entities inside can also be deleted, which removes its row.
    Raise LifecycleError for every other entity that is not live.
    Runs a fixed number of statements, in addition to those of the journal, and streams all rows.
    """
    address = change.address
    forecast = lifecycle_forecast(address, "delete")
    if forecast.refusal:
        raise LifecycleError(forecast.refusal)
    if (entity := entity_at(address)).state == State.PLANNED:
        return _remove_planned_entity(head, author, entity)
    deleted_entities = live_subtree(entity)
    removed_grants = grants_on(deleted_entities) if forecast.generation.deleting_removes_grants else []
    check_direct_change(author, list(_first_removed(removed_grants)))
    # The lines are generated lazily. The journal reads them before the rows change, because the query
    # depends on the states.
    lines = chain(
        _delete_lines(deleted_entities, address),
        *(_revoke_lines(grants, address) for grants in removed_grants),
    )
    append_to_journal(head, lines, author=author)
    for grants in removed_grants:
        grants.delete()
    deleted_entities.update(state=State.DELETED, changed_at=timezone.now())
    return Outcome(True, _deletion_sentence(forecast), head.revision, (change,))


def _remove_planned_entity(head: JournalHead, author: Author, entity: Entity) -> Outcome:
    address = entity.address
    if guardrail := guardrail_at(address):
        raise LifecycleError(f"guardrail {guardrail} names {address}: change or delete the guardrail first")
    revision = append_to_journal(
        head, [JournalEntry("delete", entity=str(address), detail="it was planned")], author=author
    )
    delete_planned_entity(entity=entity)
    return Outcome(True, f"{address} was only planned; it is no longer registered", revision)


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


def _write_live_state(change: Register | Recreate) -> list[JournalEntry]:
    """Make the address live, and the instance with it. Return the journal entries."""
    address, description = change.address, change.description
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
            action = change.verb if entity_address == address else "register"
            lines.append(JournalEntry(action, entity=str(entity_address), detail=detail))
    if description and set_entity_description(entity=rows[address], description=description):
        lines.append(_description_line(address, description))
    return lines


def _creators(creator: str) -> dict[str, User | Group]:
    """Return the creator by written name, if there is one. Raise LifecycleError if it is not a user."""
    if not creator:
        return {}
    if parse_principal(creator)[0] != "user":
        raise LifecycleError(f"{creator} cannot create an entity: name a user")
    if not (creators := principals_by_name([creator])):
        raise LifecycleError(f"{creator} does not exist: add it first, or correct the name")
    return creators


def _grant_to_creator(
    head: JournalHead,
    author: Author,
    creators: Mapping[str, User | Group],
    address: Address,
    rules: Generation,
) -> list[Privilege]:
    """Grant the privileges of a creator, if there is one. Return the new privileges."""
    changes = [Grant(name, address, privilege) for name in creators for privilege in rules.creator_receives]
    if not changes:
        return []
    outcome = write_grants(
        head,
        author,
        changes,
        creators,
        attributes=GrantAttributes(reason=author.reason),
        detail=f"received as its creator ({rules.name})",
    )
    check_direct_change(author, outcome.changes, is_written=True)
    return [grant.privilege for grant in outcome.granted]


def _delete_lines(deleted_entities: QuerySet[Entity], address: Address) -> Iterator[JournalEntry]:
    for kind, key in deleted_entities.values_list("kind", "key").iterator(chunk_size=LINES_PER_BATCH):
        entity = f"{kind}:{key}"
        yield JournalEntry(
            "delete", entity=entity, detail="" if entity == str(address) else f"with {address}"
        )


def _revoke_lines(grants: QuerySet, address: Address) -> Iterator[JournalEntry]:
    rows = grants.order_by("content_object__kind", "content_object__key", "pk")
    return (grant_entry(Revoke(*key), f"went with the deletion of {address}") for key in rows.grant_keys())


def _first_removed(removed_grants: Iterable[QuerySet]) -> Iterator[Revoke]:
    """Yield grants that a deletion removes: all, or enough of them to exceed FOUR_EYES_MAX_ITEMS.

    Yields nothing unless FOUR_EYES is on.
    """
    if not settings.FOUR_EYES:
        return
    for grants in removed_grants:
        yield from (Revoke(*key) for key in grants[: settings.FOUR_EYES_MAX_ITEMS + 1].grant_keys())


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


def _description_line(address: Address, description: str) -> JournalEntry:
    return JournalEntry("describe", entity=str(address), detail=description)


def _check_description(description: str) -> None:
    if fault := storage_fault(description, MAX_DESCRIPTION_CHARACTERS):
        raise LifecycleError(f"the description cannot be stored: {fault}")
