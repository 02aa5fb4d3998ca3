"""The entities that a user sees, or that a group makes visible to its members, as a tree with one level per
request.

Each row names the grant that makes the entity visible.
"""

from collections.abc import Iterable

from django.db.models import QuerySet
from django.http import HttpRequest

from authzconsole.web.people.profile import Profile
from authzconsole.web.shared.paging import ADDRESS_ORDER, keyset_page
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.privilege_cells import privilege_cells
from entities.address import address_or_none, instance_address
from entities.models import Entity
from entities.selectors import children_of, entity_at
from entities.vocabulary import child_kinds
from grants.evaluation.engine import check_many
from grants.evaluation.entity_filters import VISIBILITY_OPERATIONS, can_see
from grants.evaluation.visibility import visibility_of
from grants.policies.explain import Decision
from grants.policies.question import Question
from grants.principal_names import parse_principal
from grants.principals.principal_lists import grant_counts_inside

ROWS_PER_PAGE = 20
# by kind of container: the kind of its children that are containers too
CHILD_CONTAINERS = {"instance": "namespace", "namespace": "application"}


def visibility_section(request: HttpRequest, profile: Profile) -> dict:
    """Return one level of the tree: the visible children of the entity that the URL parameter `in` names."""
    container = _container(request, profile)
    children = Entity.objects.none() if container is None else _visible_children(container, profile)
    page = keyset_page(request, children, *ADDRESS_ORDER, max_rows=ROWS_PER_PAGE, prefix="sight-")
    return {
        "page": page,
        "rows": _rows(profile, container, page.rows) if page.rows else [],
        "trail": [] if container is None else [*container.address.ancestors, container.address],
        "is_root": container is not None and container.kind == "instance",
    }


def _visible_children(container: Entity, profile: Profile) -> QuerySet[Entity]:
    visibility = visibility_of(profile.principal, profile.generation, inside=container)
    # `first_rows` is fast if a visible entity sorts early, as among namespaces. In a namespace, thousands of
    # invisible entities of other kinds may sort before the first visible one.
    return children_of(container).filter(
        visibility.first_rows if container.namespace_id is None else visibility.all_rows
    )


def _container(request: HttpRequest, profile: Profile) -> Entity | None:
    """Return the entity that the URL names; None if the principal cannot see it or it does not exist."""
    address = address_or_none(text_parameter(request, "in") or str(instance_address()))
    entity = entity_at(address) if address else None
    is_visible = entity is not None and (
        entity.kind == "instance" or can_see(profile.principal, entity, profile.generation)
    )
    return entity if is_visible else None


def _rows(profile: Profile, container: Entity, entities: list[Entity]) -> list[dict]:
    cells = privilege_cells(profile.principal, entities)
    inner_kind = CHILD_CONTAINERS.get(container.kind)
    inner_ids = [entity.pk for entity in entities if entity.kind == inner_kind]
    grant_counts = grant_counts_inside(profile.principal, inner_kind, inner_ids) if inner_kind else {}
    questions = [
        Question(*parse_principal(profile.address), operation, entity.address, profile.generation.name)
        for entity in entities
        for operation in VISIBILITY_OPERATIONS
    ]
    decisions = iter(check_many(questions))
    rows = []
    for entity in entities:
        entity_decisions = [next(decisions) for _ in VISIBILITY_OPERATIONS]
        grants_inside = grant_counts.get(entity.pk)
        rows.append(
            {
                "entity": entity,
                "cells": cells[entity.pk],
                "grants_inside": grants_inside,
                "reason": _reason(entity_decisions, profile, grants_inside),
                "has_children": bool(child_kinds(entity.kind)),
            }
        )
    return rows


def _reason(decisions: Iterable[Decision], profile: Profile, grants_inside: int | None) -> dict | None:
    """Return the grant that makes an entity visible; None if every active principal sees it.

    is_only: no other grant makes it visible. group: the group that holds the grant; empty for a direct grant.
    is_on_entity: the grant is on the entity itself, and not on something inside or above it.
    """
    decision = next(decision for decision in decisions if decision.is_permitted)
    met_attempt = next((attempt for attempt in decision.attempts if attempt.is_met and attempt.grants), None)
    if met_attempt is None:
        return None
    grant = met_attempt.grants[0]
    is_only = len(decision.attempts) == 1 and met_attempt.requirement == "at or below" and grants_inside == 1
    return {
        "privilege": grant.privilege,
        "entity": grant.entity,
        "group": "" if grant.principal == profile.address else grant.principal,
        "is_only": is_only,
        "is_on_entity": grant.entity == decision.question.target,
    }
