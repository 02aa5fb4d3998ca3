"""What the account of a request sees in an entity, looked up once for all parts of its page."""

from django.http import HttpRequest

from entities.models import Entity
from grants.evaluation.visibility import VISIBILITY_OPERATIONS, Visibility, is_same_visibility, visibility_of
from grants.policies.policy import Generation

LIST = ("list",)


def visibility_inside(request: HttpRequest, entity: Entity, generation: Generation) -> Visibility:
    """What `list` or `get` shows. At most four queries, and one for its counts."""
    kept = request.__dict__.setdefault("visibility_inside", {})
    key = entity.pk, generation.name
    if key not in kept:
        kept[key] = visibility_of(request.user, generation, inside=entity)
    return kept[key]


def list_visibility_inside(request: HttpRequest, entity: Entity, generation: Generation) -> Visibility:
    """What `list` alone shows; the same where the generation makes no difference."""
    if is_same_visibility(generation, LIST, VISIBILITY_OPERATIONS):
        return visibility_inside(request, entity, generation)
    return visibility_of(request.user, generation, inside=entity, operations=LIST)
