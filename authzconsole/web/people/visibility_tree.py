"""The entities that a user sees, or that a group makes visible to its members, as a tree that opens level by level.

Each row names the grant that makes the entity visible.
"""

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

ROWS_PER_PAGE = 20
# by kind of container: the kind of its children that are containers too
CHILD_CONTAINERS = {"instance": "namespace", "namespace": "application"}


@dataclass(frozen=True, slots=True)
class VisibilityReason:
    """The grant that makes an entity visible.

    is_only: no other grant makes it visible. group: the group that holds the grant, if it is not a direct one.
    is_on_it: the grant is on the entity itself.
    """

    privilege: str = ""
    address_link: AddressLink | None = None
    group: str = ""
    is_only: bool = False
    is_on_it: bool = False


def visibility_section(request: HttpRequest, principal: User | Group, generation: Generation) -> dict:
    """Return one level of the tree: the visible children of the entity in the URL parameter `in`."""
    container = _container(request, principal, generation)
    children = _visible_children(container, principal, generation)
    page = paginate_entities(request, children, max_rows=ROWS_PER_PAGE, total_rows=0, prefix="sight-")
    page = replace(page, position=f"{len(page.rows):,} on this page")
    return {"page": page, "rows": _rows(request, principal, generation, container, page.rows),
            "trail": _trail(request, container), "root_url": _url_in(request, ""),
            "is_root": container is not None and container.kind == "instance"}


def _visible_children(container: Entity | None, principal: User | Group, generation: Generation) -> QuerySet[Entity]:
    if container is None:
        return Entity.objects.none()
    visibility = visibility_of(principal, generation, inside=container)
    # The first visible namespaces of the instance are found quickly. In a namespace, thousands of invisible entities of
    # other kinds may sort first.
    return children_of(container).filter(visibility.first_rows if container.namespace_id is None else visibility.all_rows)


def _container(request: HttpRequest, principal: User | Group, generation: Generation) -> Entity | None:
    """Return the entity in the URL. Return None if the principal cannot see it, whether it exists or not."""
    try:
        address = parse_address(text_parameter(request, "in") or str(instance_address()))
    except AddressError:
        return None
    entity = entity_at(address)
    is_visible = entity is not None and (entity.kind == "instance" or can_see(principal, entity, generation))
    return entity if is_visible else None


def _trail(request: HttpRequest, container: Entity | None) -> list[tuple[str, str]]:
    """Return (name, URL) of each container from the instance down."""
    if container is None:
        return []
    addresses = (*container.address.ancestors, container.address)
    return [(address.name, _url_in(request, "" if address.kind == "instance" else str(address))) for address in addresses]


def _url_in(request: HttpRequest, address: str) -> str:
    return url_with(request, **{"in": address, "sight-after": None, "sight-before": None})


def _rows(request, principal: User | Group, generation: Generation, container: Entity | None,
          entities: list[Entity]) -> list[dict]:
    if not entities:
        return []
    held = held_privileges(principal, [entity.pk for entity in entities])
    inner_kind = CHILD_CONTAINERS.get(container.kind)
    inner_ids = [entity.pk for entity in entities if entity.kind == inner_kind]
    grant_counts = grant_counts_inside(principal, inner_kind, inner_ids) if inner_kind else {}
    questions = [_question(principal, entity, operation, generation)
                 for entity in entities for operation in VISIBILITY_OPERATIONS]
    # one decision for each of the two operations in VISIBILITY_OPERATIONS, in the order of the entities
    decisions = iter(check_many(questions))
    return [{
        "address_link": address_link_to(entity), "entity": entity, "cells": privilege_cells(held[entity.pk], entity.state),
        "inside": grant_counts.get(entity.pk), "reason": _reason(pair, principal, grant_counts.get(entity.pk)),
        "open_url": _url_in(request, str(entity)) if child_kinds(entity.kind) else "",
    } for entity, pair in zip(entities, zip(decisions, decisions, strict=True), strict=True)]


def _question(principal: User | Group, entity: Entity, operation: str, generation: Generation) -> Question:
    type_, name = ("user", principal.username) if isinstance(principal, User) else ("group", principal.name)
    return Question(type_, name, operation, entity.address, generation.name)


def _reason(decisions: Iterable[Decision], principal: User | Group, grants_inside_it: int | None) -> VisibilityReason:
    decision = next(decision for decision in decisions if decision.is_permitted)
    met = next((attempt for attempt in decision.attempts if attempt.is_met and attempt.grants), None)
    if met is None:
        return VisibilityReason()
    grant = met.grants[0]
    group = "" if grant.principal == principal_link(principal).address else grant.principal
    is_only = len(decision.attempts) == 1 and met.requirement == "at or below" and grants_inside_it == 1
    return VisibilityReason(str(grant.privilege), address_link_to(grant.entity, linked=False), group, is_only,
                            grant.entity == decision.question.target)
