"""Where a page is: the containers of an entity, each a link where this account may look."""

from authzconsole.web.places import entity_url
from entities.models import Entity
from entities.selectors import entities_at
from grants.listing import visible_to
from grants.policies.policy import Generation


def trail_of(entity: Entity, user, generation: Generation) -> list[dict]:
    """From the instance down to the parent. At most two queries."""
    containers = entities_at(entity.address.ancestors)
    shown = {row.pk for row in containers.values()}
    if not user.may_see_all:
        seen = visible_to(user, generation, kinds={address.kind for address in containers}, row_by_row=True)
        shown = set(Entity.objects.filter(seen, pk__in=shown).values_list("pk", flat=True))
    return [
        {"title": address.name, "url": entity_url(address) if address in containers and containers[address].pk in shown else ""}
        for address in entity.address.ancestors
    ]
