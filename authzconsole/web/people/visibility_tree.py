"""What a user sees, or a group gives its members to see: a tree that opens level by level, with the grant that shows each."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest

from authzconsole.web.shared.links import AddressLink, address_link_to, principal_link
from authzconsole.web.shared.paging import paginate_entities, url_with
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.privilege_cells import held_privileges, privilege_cells
from entities.address import AddressError, instance_address, parse_address
from entities.models import Entity
from entities.selectors import children_of, entity_at
from entities.vocabulary import child_kinds
from grants.evaluation.engine import check_many
from grants.evaluation.entity_filters import VISIBILITY_OPERATIONS, can_see
from grants.evaluation.visibility import visibility_of
from grants.models import User
from grants.policies.explain import Decision
from grants.policies.policy import Generation
from grants.policies.question import Question
from grants.principals.principal_lists import grant_counts_inside

ROWS_A_PAGE = 20
# what lies in a container and contains again
CONTAINED = {"instance": "namespace", "namespace": "application"}


@dataclass(frozen=True, slots=True)
class VisibilityReason:
    """The grant by which an entity is shown. is_only: nothing else that is held shows it. group: of a user, it came through."""

    privilege: str = ""
    address_link: AddressLink | None = None
    group: str = ""
    is_only: bool = False
    is_on_it: bool = False


def sight_section(request: HttpRequest, principal: User | Group, generation: Generation) -> dict:
    """One level of the tree: what lies in the entity that the URL names as `in`, and is shown to the principal."""
    container = _container(request, principal, generation)
    shown = _shown_in(container, principal, generation)
    page = paginate_entities(request, shown, max_rows=ROWS_A_PAGE, total_rows=0, prefix="sight-")
    page = replace(page, words=f"{len(page.rows):,} on this page")
    return {"page": page, "rows": _rows(request, principal, generation, container, page.rows),
            "trail": _trail(request, container), "root_url": _url_in(request, ""),
            "is_root": container is not None and container.kind == "instance"}


def _shown_in(container: Entity | None, principal: User | Group, generation: Generation) -> QuerySet[Entity]:
    if container is None:
        return Entity.objects.none()
    seen = visibility_of(principal, generation, inside=container)
    # of the instance the first namespaces are soon met; in one, kinds of which nothing is shown may stand first by the thousand
    return children_of(container).filter(seen.first_rows if container.namespace_id is None else seen.all_rows)


def _container(request: HttpRequest, principal: User | Group, generation: Generation) -> Entity | None:
    """None where the principal does not see it, be it there or not."""
    try:
        address = parse_address(text_parameter(request, "in") or str(instance_address()))
    except AddressError:
        return None
    entity = entity_at(address)
    is_open = entity is not None and (entity.kind == "instance" or can_see(principal, entity, generation))
    return entity if is_open else None


def _trail(request: HttpRequest, container: Entity | None) -> list[tuple[str, str]]:
    if container is None:
        return []
    places = (*container.address.ancestors, container.address)
    return [(place.name, _url_in(request, "" if place.kind == "instance" else str(place))) for place in places]


def _url_in(request: HttpRequest, address: str) -> str:
    return url_with(request, **{"in": address, "sight-after": None, "sight-before": None})


def _rows(request, principal: User | Group, generation: Generation, container: Entity | None,
          entities: list[Entity]) -> list[dict]:
    if not entities:
        return []
    held, kind = held_privileges(principal, [entity.pk for entity in entities]), CONTAINED.get(container.kind)
    inside = grant_counts_inside(principal, kind, [e.pk for e in entities if e.kind == kind]) if kind else {}
    asked = [_asked(principal, entity, operation, generation) for entity in entities for operation in VISIBILITY_OPERATIONS]
    decisions = iter(check_many(asked))
    return [{
        "address_link": address_link_to(entity), "entity": entity, "cells": privilege_cells(held[entity.pk], entity.state),
        "inside": inside.get(entity.pk), "because": _because(pair, principal, inside.get(entity.pk)),
        "open_url": _url_in(request, str(entity)) if child_kinds(entity.kind) else "",
    } for entity, pair in zip(entities, zip(decisions, decisions, strict=True), strict=True)]


def _asked(principal: User | Group, entity: Entity, operation: str, generation: Generation) -> Question:
    type_, name = ("user", principal.username) if isinstance(principal, User) else ("group", principal.name)
    return Question(type_, name, operation, entity.address, generation.name)


def _because(decisions: Iterable[Decision], principal: User | Group, inside: int | None) -> VisibilityReason:
    decision = next(decision for decision in decisions if decision.allowed)
    met = next((attempt for attempt in decision.attempts if attempt.met and attempt.grants), None)
    if met is None:
        return VisibilityReason()
    held = met.grants[0]
    group = "" if held.principal == principal_link(principal).address else held.principal
    is_only = len(decision.attempts) == 1 and met.requirement == "at or below" and inside == 1
    return VisibilityReason(str(held.privilege), address_link_to(held.entity, linked=False), group, is_only,
                   held.entity == decision.question.target)
