"""The entities that an account sees: inside an entity, and the ancestors of an entity in its breadcrumbs.

The visibility inside an entity is determined once per request for all sections of a page, and cached in the attribute
`visibility_by_entity` of the request.
"""

from collections.abc import Mapping

from django.http import HttpRequest

from authzconsole.web.shared.links import entity_url
from entities.address import Address
from entities.models import Entity
from entities.selectors import entities_at
from grants.authority.stewards import stewarded_condition
from grants.evaluation.entity_filters import visibility_condition
from grants.evaluation.visibility import VISIBILITY_OPERATIONS, Visibility, is_same_visibility, visibility_of
from grants.policies.policy import Generation

LIST = ("list",)


def visibility_inside(request: HttpRequest, entity: Entity, generation: Generation) -> Visibility:
    """Return the visibility through `list` or `get`.

    Runs at most four queries, and a fifth for the counts.
    """
    cache = request.__dict__.setdefault("visibility_by_entity", {})
    key = entity.pk, generation.name
    if key not in cache:
        cache[key] = visibility_of(request.user, generation, inside=entity)
    return cache[key]


def list_visibility_inside(request: HttpRequest, entity: Entity, generation: Generation) -> Visibility:
    """Return the visibility through `list` alone; the cached `visibility_inside` if both are the same in this
    generation.
    """
    if is_same_visibility(generation, LIST, VISIBILITY_OPERATIONS):
        return visibility_inside(request, entity, generation)
    return visibility_of(request.user, generation, inside=entity, operations=LIST)


def breadcrumbs_of(entity: Entity, user, generation: Generation) -> list[dict]:
    """Return the ancestors from the instance down to the parent. Runs at most two queries."""
    visible = visible_addresses(entities_at(entity.address.ancestors), user, generation)
    return [
        {"title": address.name, "url": entity_url(address) if address in visible else ""}
        for address in entity.address.ancestors
    ]


def visible_addresses(entities: Mapping[Address, Entity], user, generation: Generation) -> set[Address]:
    """Return the addresses of the entities that the user can see. Runs at most one query."""
    if user.can_see_all:
        return set(entities)
    is_visible = visibility_condition(
        user, generation, kinds={address.kind for address in entities}, row_by_row=True
    )
    is_visible |= stewarded_condition(user)
    ids = [entity.pk for entity in entities.values()]
    return {entity.address for entity in Entity.objects.filter(is_visible, pk__in=ids)}
