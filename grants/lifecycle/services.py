"""Registering, deleting and recreating entities, with what each does to grants in a generation of rules.

An address outlives its entity: deleting moves its state, and only a generation that says so removes the grants on it.
"""

from collections.abc import Iterator
from itertools import chain

from django.db.models import QuerySet
from django.utils import timezone

from entities.address import Address, instance_address
from entities.models import Entity, State
from entities.selectors import entity_at
from entities.services import delete_planned_entity, ensure_entities, set_entity_description, set_entity_state
from entities.text import storage_fault
from entities.vocabulary import Privilege, quantity
from grants.changes.authority import administrator_transaction
from grants.changes.outcomes import Outcome
from grants.changes.services import write_changes
from grants.errors import LifecycleError
from grants.journal import LINES_PER_BATCH, Author, Change, append_to_journal
from grants.lifecycle.forecast import LifecycleForecast, grants_on, lifecycle_forecast, live_subtree, resolve_generation
from grants.models import NAME_COLUMNS, JournalHead, User, UserGrant, privilege_of
from grants.policies.policy import Generation
from grants.principal_names import MAX_DESCRIPTION_CHARACTERS, format_principal, parse_principal
from grants.principal_rows import principals_by_name

__all__ = ["LifecycleForecast", "delete_entity", "describe_entity", "lifecycle_forecast", "recreate_entity", "register_entity"]


def register_entity(*, author: Author, address: Address, description: str = "", creator: str | User | None = None,
                    generation: Generation | str | None = None) -> Outcome:
    """Make an entity live that is new or planned. Raises LifecycleError where its parent is not live or it was deleted.

    creator: the user who receives what the generation gives to creators. generation: the active one unless it is given.
    """
    return _live("register", author, address, description, creator, generation)


def recreate_entity(*, author: Author, address: Address, description: str = "", creator: str | User | None = None,
                    generation: Generation | str | None = None) -> Outcome:
    """Make a deleted entity live again; the grants that stayed on it apply. Raises LifecycleError as registering does."""
    return _live("recreate", author, address, description, creator, generation)


def delete_entity(*, author: Author, address: Address, generation: Generation | str | None = None) -> Outcome:
    """Delete an entity and every live one in it; planned ones stay planned. Raises LifecycleError where it is not live.

    A planned one for which nothing stands, neither a grant nor anything in it, is not registered afterwards.

    A fixed number of statements besides those of the journal; nothing is loaded whole.
    """
    with administrator_transaction(author) as head:
        forecast = lifecycle_forecast(address, "delete", generation)
        if forecast.refusal:
            raise LifecycleError(forecast.refusal)
        if (entity := entity_at(address)).state == State.PLANNED:
            return _forgotten(head, author, entity)
        doomed = live_subtree(entity)
        removed = grants_on(doomed) if forecast.generation.deleting_removes_grants else []
        # read before anything is written: which entities these are follows from their state
        lines = chain(_delete_lines(doomed, address), *(_revoke_lines(grants, address) for grants in removed))
        revision = append_to_journal(head, lines, author=author)
        for grants in removed:
            grants.delete()
        doomed.update(state=State.DELETED, changed_at=timezone.now())
    return Outcome(True, _deleted(forecast), revision)


def describe_entity(*, author: Author, address: Address, description: str) -> Outcome:
    """Raises LifecycleError where the address is not registered."""
    _check_description(description)
    with administrator_transaction(author) as head:
        entity = entity_at(address)
        if entity is None:
            raise LifecycleError(f"{address} is not registered: register it first")
        if not set_entity_description(entity=entity, description=description):
            return Outcome(False, f"{address} is described so already: nothing changed", head.revision)
        revision = append_to_journal(head, [_description_line(address, description)], author=author)
    return Outcome(True, f"{address} is described anew", revision)


def _forgotten(head: JournalHead, author: Author, entity: Entity) -> Outcome:
    address = entity.address
    revision = append_to_journal(head, [Change("delete", entity=str(address), detail="it was planned")], author=author)
    delete_planned_entity(entity=entity)
    return Outcome(True, f"{address} was only planned; it is not registered any longer", revision)


def _live(verb: str, author: Author, address: Address, description: str, creator: str | User | None,
          generation: Generation | str | None) -> Outcome:
    _check_description(description)
    with administrator_transaction(author) as head:
        rules, entity = resolve_generation(generation), entity_at(address)
        if entity is not None and entity.is_live:
            return Outcome(False, f"{address} is live already: nothing changed", head.revision)
        forecast = lifecycle_forecast(address, verb, rules)
        if forecast.refusal:
            raise LifecycleError(forecast.refusal)
        principal = _creator(creator)
        append_to_journal(head, _made_live(verb, address, description), author=author)
        received = _received(head, author, principal, address, rules)
        return Outcome(True, _made(forecast, principal, received), head.revision)


def _made_live(verb: str, address: Address, description: str) -> list[Change]:
    """Make the address live, and the instance with it; returns the lines that say so."""
    before = {place: row.state for place in (instance_address(), address) if (row := entity_at(place)) is not None}
    rows = ensure_entities(states={address: State.LIVE}).rows
    lines = []
    for place in dict.fromkeys((instance_address(), address)):
        if before.get(place) != State.LIVE:
            set_entity_state(entity=rows[place], state=State.LIVE)
            detail = f"it was {before[place]}" if place in before else ""
            lines.append(Change(verb if place == address else "register", entity=str(place), detail=detail))
    if description and set_entity_description(entity=rows[address], description=description):
        lines.append(_description_line(address, description))
    return lines


def _creator(creator: str | User | None) -> str:
    """The creator as it is written; empty where none is named."""
    if creator is None:
        return ""
    principal = format_principal(creator)
    if parse_principal(principal)[0] != "user":
        raise LifecycleError(f"{principal} cannot create an entity: name a user")
    if principal not in principals_by_name([principal]):
        raise LifecycleError(f"{principal} is not known here: add it first, or correct the name")
    return principal


def _received(head: JournalHead, author: Author, principal: str, address: Address, rules: Generation) -> list[Privilege]:
    if not principal:
        return []
    items = [(principal, address, privilege) for privilege in rules.creator_receives]
    outcome = write_changes(head, author, grant=items, detail=f"received as its creator ({rules.name})")
    return [item.privilege for item in outcome.granted]


def _delete_lines(doomed: QuerySet[Entity], address: Address) -> Iterator[Change]:
    for kind, key in doomed.values_list("kind", "key").iterator(chunk_size=LINES_PER_BATCH):
        entity = f"{kind}:{key}"
        yield Change("delete", entity=entity, detail="" if entity == str(address) else f"with {address}")


def _revoke_lines(grants: QuerySet, address: Address) -> Iterator[Change]:
    kind = "user" if grants.model is UserGrant else "group"
    rows = grants.order_by("content_object__kind", "content_object__key", "pk")
    columns = (NAME_COLUMNS[kind], "permission_id", "content_object__kind", "content_object__key")
    for holder, permission, *place in rows.values_list(*columns).iterator(chunk_size=LINES_PER_BATCH):
        yield Change("revoke", f"{kind}:{holder}", ":".join(place), privilege_of(permission).value,
                     f"went with the deletion of {address}")


def _deleted(forecast: LifecycleForecast) -> str:
    inside = forecast.entities_total - 1
    what = f"{forecast.address} was deleted" + (f" with {quantity(inside, 'entity', 'entities')} in it" if inside else "")
    if forecast.grants_removed:
        return f"{what}; {quantity(forecast.grants_removed, 'grant', 'grants')} went with it"
    if forecast.grants_kept:
        return f"{what}; {quantity(forecast.grants_kept, 'grant', 'grants')} stayed, and will apply where an entity is recreated"
    return what


def _made(forecast: LifecycleForecast, creator: str, received: list[Privilege]) -> str:
    parts = [f"{forecast.address} is live now"]
    if forecast.applying:
        parts.append(f"{quantity(forecast.grants_applying, 'grant', 'grants')} on it from before will apply")
    if received:
        parts.append(f"{creator} received {', '.join(received)} on it as its creator")
    elif creator and not forecast.creator_receives:
        parts.append(f"in the `{forecast.generation.name}` generation a creator receives nothing")
    return "; ".join(parts)


def _description_line(address: Address, description: str) -> Change:
    return Change("describe", entity=str(address), detail=description)


def _check_description(description: str) -> None:
    if fault := storage_fault(description, MAX_DESCRIPTION_CHARACTERS):
        raise LifecycleError(f"the description cannot be stored: {fault}")
