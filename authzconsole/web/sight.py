"""What a user sees, as a tree that opens level by level, and by which grant each of it is shown."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.http import HttpRequest

from authzconsole.web.cells import held_by, held_cells
from authzconsole.web.paging import page_of_entities, url_with
from authzconsole.web.parameters import text_of
from authzconsole.web.places import Place, place_of
from entities.address import AddressError, instance_address, parse_address
from entities.models import Entity
from entities.selectors import children_of, entity_at
from entities.vocabulary import child_kinds
from grants.engine import check_many
from grants.listing import may_see, visible_to
from grants.models import User
from grants.people import grants_inside
from grants.policies.explain import Decision
from grants.policies.policy import Generation
from grants.policies.question import Question

ROWS_A_PAGE = 20
# the operations of which one shows an entity
SHOWING = ("list", "get")
# what lies in a container and contains again
CONTAINED = {"instance": "namespace", "namespace": "application"}


@dataclass(frozen=True, slots=True)
class Because:
    """The grant by which an entity is shown. is_only: nothing else that the user holds shows it. group: it came through."""

    privilege: str = ""
    place: Place | None = None
    group: str = ""
    is_only: bool = False
    is_on_it: bool = False


def sight_section(request: HttpRequest, user: User, generation: Generation) -> dict:
    """One level of the tree: what lies in the entity that the URL names as `in`, and is shown to the user."""
    container = _container(request, user, generation)
    rows = children_of(container).filter(visible_to(user, generation)) if container else Entity.objects.none()
    page = page_of_entities(request, rows, most_rows=ROWS_A_PAGE, total_rows=0, prefix="sight-")
    page = replace(page, words=f"{len(page.rows):,} on this page")
    return {"page": page, "rows": _rows(request, user, generation, container, page.rows), "trail": _trail(request, container),
            "is_root": container is not None and container.kind == "instance", "root_url": _url_in(request, "")}


def _container(request: HttpRequest, user: User, generation: Generation) -> Entity | None:
    """None where the user does not see it, be it there or not."""
    try:
        address = parse_address(text_of(request, "in") or str(instance_address()))
    except AddressError:
        return None
    entity = entity_at(address)
    is_open = entity is not None and (entity.kind == "instance" or may_see(user, entity, generation))
    return entity if is_open else None


def _trail(request: HttpRequest, container: Entity | None) -> list[tuple[str, str]]:
    if container is None:
        return []
    places = (*container.address.ancestors, container.address)
    return [(place.name, _url_in(request, "" if place.kind == "instance" else str(place))) for place in places]


def _url_in(request: HttpRequest, address: str) -> str:
    return url_with(request, **{"in": address, "sight-after": None, "sight-before": None})


def _rows(request, user: User, generation: Generation, container: Entity | None, entities: list[Entity]) -> list[dict]:
    if not entities:
        return []
    held, kind = held_by(user, [entity.pk for entity in entities]), CONTAINED.get(container.kind)
    inside = grants_inside(user, kind, [e.pk for e in entities if e.kind == kind]) if kind else {}
    decisions = iter(check_many([_asked(user, entity, operation, generation) for entity in entities for operation in SHOWING]))
    return [{
        "place": place_of(entity), "entity": entity, "cells": held_cells(held[entity.pk], entity.state),
        "inside": inside.get(entity.pk), "because": _because(pair, user, inside.get(entity.pk)),
        "open_url": _url_in(request, str(entity)) if child_kinds(entity.kind) else "",
    } for entity, pair in zip(entities, zip(decisions, decisions, strict=True), strict=True)]


def _asked(user: User, entity: Entity, operation: str, generation: Generation) -> Question:
    return Question("user", user.username, operation, entity.address, generation.name)


def _because(decisions: Iterable[Decision], user: User, inside: int | None) -> Because:
    decision = next(decision for decision in decisions if decision.allowed)
    met = next((attempt for attempt in decision.attempts if attempt.met and attempt.grants), None)
    if met is None:
        return Because()
    held = met.grants[0]
    group = "" if held.principal == f"user:{user.username}" else held.principal
    is_only = len(decision.attempts) == 1 and met.requirement == "at or below" and inside == 1
    return Because(str(held.privilege), place_of(held.entity, linked=False), group, is_only,
                   held.entity == decision.question.target)
