"""Where a page is: the containers of an entity, each a link where this account may look."""

from collections.abc import Mapping

from authzconsole.web.shared.links import entity_url
from entities.address import Address
from entities.models import Entity
from entities.selectors import entities_at
from grants.evaluation.entity_filters import visibility_condition
from grants.policies.policy import Generation


def breadcrumbs_of(entity: Entity, user, generation: Generation) -> list[dict]:
    """From the instance down to the parent. At most two queries."""
    shown = visible_addresses(entities_at(entity.address.ancestors), user, generation)
    return [{"title": address.name, "url": entity_url(address) if address in shown else ""}
            for address in entity.address.ancestors]


def visible_addresses(rows: Mapping[Address, Entity], user, generation: Generation) -> set[Address]:
    """Of these registered addresses those at which this account may look. At most one query."""
    if user.can_see_all:
        return set(rows)
    seen = visibility_condition(user, generation, kinds={address.kind for address in rows}, row_by_row=True)
    return {row.address for row in Entity.objects.filter(seen, pk__in=[row.pk for row in rows.values()])}
