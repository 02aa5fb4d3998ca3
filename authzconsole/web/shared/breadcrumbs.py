"""Breadcrumbs: the ancestors of an entity, each with a link if the account may open it."""

from collections.abc import Mapping

from authzconsole.web.shared.links import entity_url
from entities.address import Address
from entities.models import Entity
from entities.selectors import entities_at
from grants.authority.stewards import stewarded_condition
from grants.evaluation.entity_filters import visibility_condition
from grants.policies.policy import Generation


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
