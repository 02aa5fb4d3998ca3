"""Register, delete, recreate and describe entities, and change their grants as the active generation requires.

The row of an address remains when its entity is deleted: deletion changes its state, and removes its grants
only in some generations.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import cast

from django.conf import settings
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.utils import timezone

from entities.address import Address, instance_address
from entities.models import Entity, State
from entities.selectors import entities_at, entity_at
from entities.services import delete_planned_entity, ensure_entities, set_entity_description
from entities.text import storage_fault
from entities.vocabulary import CONTAINER_KINDS, Privilege, quantity
from grants.active_generation import active_generation
from grants.authority.four_eyes import check_direct_change
from grants.authority.transactions import administrator_transaction
from grants.bulk_rows import chunks, refresh_statistics
from grants.change_set import Delete, Grant, Recreate, Register, Revoke
from grants.changes.grants import grant_entry, write_grants
from grants.derived import delete_derived_on, derive_on_entities
from grants.errors import LifecycleError
from grants.grant_attributes import GrantAttributes
from grants.guardrails.storage import guardrail_at
from grants.journal import LINES_PER_BATCH, Author, JournalEntry, append_to_journal
from grants.lifecycle import LifecycleForecast, grants_on, lifecycle_forecast, live_refusal, live_subtree
from grants.models import JournalHead, User
from grants.outcomes import Outcome
from grants.policies.policy import Generation
from grants.principal_names import MAX_DESCRIPTION_CHARACTERS, parse_principal, principals_by_name

CHANGES_PER_BATCH = 5_000


def write_live_states(head: JournalHead, author: Author, changes: Sequence[Register | Recreate]) -> Outcome:
    """Make new or planned entities live, or deleted ones live again. Their creators receive the privileges that
    the active generation grants to creators. Containers come before what is inside them.

    Raise LifecycleError if a parent is not live, for registering a deleted entity, and for recreating one
    that was never deleted. Without creators and descriptions, runs a fixed number of statements for every
    `CHANGES_PER_BATCH` changes.
    """
    made: list[Register | Recreate] = []
    analyzed = 0
    sentences = []
    for batch in chunks(changes, CHANGES_PER_BATCH):
        addresses = {part for change in batch for part in (*change.address.ancestors, change.address)}
        states = {
            address: row.state for address, row in entities_at(addresses | {instance_address()}).items()
        }
        before = dict(states)
        new = []
        for change in batch:
            _check_description(change.description)
            if states.get(change.address) == State.LIVE:
                sentences.append(f"{change.address} is live already: nothing changed")
                continue
            if refusal := live_refusal(change.verb, change.address, states.get):
                raise LifecycleError(refusal)
            states[change.address] = State.LIVE
            new.append(change)
        sentences += _write_live_batch(head, author, new, before)
        made += new
        # without statistics, the queries of the next batches read all rows of a kind
        if len(made) >= max(CHANGES_PER_BATCH, 2 * analyzed):
            analyzed = len(made)
            refresh_statistics(Entity)
    if len(made) > 1:
        sentences = [f"{len(made):,} entities are live now"]
    return Outcome(bool(made), "; ".join(sentences), head.revision, tuple(made))


def _write_live_batch(
    head: JournalHead,
    author: Author,
    changes: Sequence[Register | Recreate],
    before: Mapping[Address, str],
) -> list[str]:
    """Make the addresses of valid changes live. Return a sentence for each change with a creator, or for the only one."""
    if not changes:
        return []
    rules = active_generation()
    creators = _creators({change.creator for change in changes if change.creator})
    described = [change for change in changes if change.creator or len(changes) == 1]
    forecasts = [lifecycle_forecast(change.address, change.verb, rules) for change in described]
    append_to_journal(head, _make_live(changes, before), author=author)
    return [
        _live_sentence(
            forecast,
            change.creator,
            _grant_to_creator(head, author, creators.get(change.creator), change.address, rules),
        )
        for change, forecast in zip(described, forecasts, strict=True)
    ]


def write_states(
    head: JournalHead, author: Author, changes: Iterable[Register | Recreate | Delete]
) -> list[Outcome]:
    """Make entities live and delete them, in order. Those in a row that become live, and those in a row that are deleted
    and contain nothing, are written together.
    """
    outcomes = []
    for is_container, group in groupby(changes, _deletes_container):
        if is_container is None:
            outcomes.append(write_live_states(head, author, cast("list[Register | Recreate]", list(group))))
            continue
        for batch in chunks(cast("Iterator[Delete]", group), CHANGES_PER_BATCH):
            rows = {} if is_container else entities_at(change.address for change in batch)
            if len(batch) > 1 and len(rows) == len(batch) and all(row.is_live for row in rows.values()):
                _delete_live(head, author, Entity.objects.filter(pk__among=[row.pk for row in rows.values()]))
                outcomes.append(
                    Outcome(True, f"{len(batch):,} entities were deleted", head.revision, tuple(batch))
                )
            else:
                outcomes += [write_deletion(head, author, change) for change in batch]
    return outcomes


def _deletes_container(change: Register | Recreate | Delete) -> bool | None:
    """Return whether a deletion can include the contents of the entity; None for other changes."""
    return change.address.kind in CONTAINER_KINDS if isinstance(change, Delete) else None


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
    _delete_live(head, author, live_subtree(entity), address)
    return Outcome(True, _deletion_sentence(forecast), head.revision, (change,))


def _delete_live(
    head: JournalHead, author: Author, entities: QuerySet[Entity], container: Address | None = None
) -> None:
    """Delete live entities, with their grants if the active generation removes them. container: with which they go."""
    removed_grants = grants_on(entities) if active_generation().deleting_removes_grants else []
    check_direct_change(author, list(_first_removed(removed_grants)))
    # The lines are generated lazily. The journal reads them before the rows change, because the query
    # depends on the states.
    lines = chain(
        _delete_lines(entities, container), *(_revoke_lines(grants, container) for grants in removed_grants)
    )
    append_to_journal(head, lines, author=author)
    for grants in removed_grants:
        grants.delete()
    entities.update(state=State.DELETED, changed_at=timezone.now())


def _remove_planned_entity(head: JournalHead, author: Author, entity: Entity) -> Outcome:
    address = entity.address
    if guardrail := guardrail_at(address):
        raise LifecycleError(f"guardrail {guardrail} names {address}: change or delete the guardrail first")
    revision = append_to_journal(
        head, [JournalEntry("delete", entity=str(address), detail="it was planned")], author=author
    )
    delete_derived_on(entity)
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


def _make_live(changes: Sequence[Register | Recreate], before: Mapping[Address, str]) -> list[JournalEntry]:
    """Make the addresses live, and the instance with them. Return the journal entries. before: the states."""
    actions = {instance_address(): "register"} | {change.address: change.verb for change in changes}
    changed = [address for address in actions if before.get(address) != State.LIVE]
    ensured = ensure_entities(states=dict.fromkeys(actions, State.LIVE))
    rows = ensured.rows
    derive_on_entities([rows[address].pk for address in ensured.created])
    existing = [rows[address].pk for address in changed if address in before]
    Entity.objects.filter(pk__among=existing).update(state=State.LIVE, changed_at=timezone.now())
    entries = [
        JournalEntry(
            actions[address],
            entity=str(address),
            detail=f"it was {before[address]}" if address in before else "",
        )
        for address in changed
    ]
    return entries + [
        _description_line(change.address, change.description)
        for change in changes
        if change.description
        and set_entity_description(entity=rows[change.address], description=change.description)
    ]


def _creators(names: Collection[str]) -> dict[str, User | Group]:
    """Return the creators by written name. Raise LifecycleError if one is not a user."""
    creators = principals_by_name(names)
    for name in names:
        if parse_principal(name)[0] != "user":
            raise LifecycleError(f"{name} cannot create an entity: name a user")
        if name not in creators:
            raise LifecycleError(f"{name} does not exist: add it first, or correct the name")
    return creators


def _grant_to_creator(
    head: JournalHead,
    author: Author,
    creator: User | Group | None,
    address: Address,
    rules: Generation,
) -> list[Privilege]:
    """Grant the privileges of a creator, if there is one. Return the new privileges."""
    if creator is None or not rules.creator_receives:
        return []
    outcome = write_grants(
        head,
        author,
        [Grant(str(creator), address, privilege) for privilege in rules.creator_receives],
        {str(creator): creator},
        attributes=GrantAttributes(reason=author.reason),
        detail=f"received as its creator ({rules.name})",
    )
    check_direct_change(author, outcome.changes, is_written=True)
    return [grant.privilege for grant in outcome.granted]


def _delete_lines(deleted_entities: QuerySet[Entity], address: Address | None) -> Iterator[JournalEntry]:
    for kind, key in deleted_entities.values_list("kind", "key").iterator(chunk_size=LINES_PER_BATCH):
        entity = f"{kind}:{key}"
        yield JournalEntry(
            "delete", entity=entity, detail=f"with {address}" if address and entity != str(address) else ""
        )


def _revoke_lines(grants: QuerySet, address: Address | None) -> Iterator[JournalEntry]:
    rows = grants.order_by("content_object__kind", "content_object__key", "pk")
    return (
        grant_entry(Revoke(*key), f"went with the deletion of {address or key[1]}")
        for key in rows.grant_keys()
    )


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
