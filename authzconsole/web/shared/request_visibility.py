"""The visible entities inside an entity, determined once per request for all sections of a page.

The results are cached in the attribute `visibility_by_entity` of the request.
"""

from django.http import HttpRequest

from entities.models import Entity
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
