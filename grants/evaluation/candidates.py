"""Where to look for what an operation is permitted on: from the grants of its subject, and not from all entities.

A requirement is covered by searches of which each permitted entity is found by at least one. `Always` and what holds of
nothing cannot be covered: then there is no such list.
"""

from django.db.models import Q, QuerySet

from entities.models import Entity
from entities.vocabulary import ANY, CONTAINER_KINDS, KINDS
from grants.evaluation.entity_filters import (
    ALL,
    SCOPE_COLUMNS,
    FilterContext,
    has_parameter,
    requirement_condition,
    with_privileges,
)
from grants.policies.grammar import AllOf, AnyOf, Expression, Given, Has, HasAtOrBelow, Scope


def candidate_queries(requires: Expression, listed: FilterContext) -> list[QuerySet] | None:
    """Querysets of the keys of all permitted entities of one kind, some of them more than once; None where all must be
    looked at."""
    kind = listed.kinds[0]
    if isinstance(requires, HasAtOrBelow) and kind in CONTAINER_KINDS:
        return _holding_inside(kind, listed)
    cover = _cover(requires, listed)
    if cover is None:
        return None
    rows = Entity.objects.filter(ALL if _is_exact(requires) else requirement_condition(requires, listed), kind=kind).order_by()
    return [rows.filter(search).values_list("key", flat=True) for search in cover]


def _is_exact(expression: Expression) -> bool:
    """Whether all that its cover finds is permitted."""
    match expression:
        case Has() | HasAtOrBelow():
            return True
        case AnyOf(parts):
            return all(map(_is_exact, parts))
        case _:
            return False


def _holding_inside(kind: str, listed: FilterContext) -> list[QuerySet] | None:
    if kind == "instance":
        return None
    return [table.rows(**{f"{kind}__isnull": False}).order_by().values_list(f"{kind}__key", flat=True) for table in listed.tables]


def _cover(expression: Expression, listed: FilterContext) -> list[Q] | None:
    match expression:
        case Has(privileges, scope) if scope in SCOPE_COLUMNS:
            return [_at(scope, listed, table, with_privileges(privileges)) for table in listed.tables]
        case HasAtOrBelow() if listed.kinds[0] not in CONTAINER_KINDS:
            return [_at(Scope.SELF, listed, table, with_privileges(ANY)) for table in listed.tables]
        case AllOf(parts):
            covers = [cover for part in parts if (cover := _cover(part, listed)) is not None]
            return covers[0] if covers else None
        case AnyOf(parts):
            covers = [_cover(part, listed) for part in parts]
            return None if None in covers else [search for cover in covers for search in cover]
        case Given(parameter, then):
            return _cover(then, listed) if has_parameter(parameter, listed.question) else None
        case _:
            return None


def _at(scope: Scope, listed: FilterContext, table, where: dict) -> Q:
    if scope == Scope.SELF:
        return Q(**table.joined(**where))
    container = KINDS[listed.kinds[0]].parent if scope == Scope.PARENT else scope.value
    held = table.rows(content_object__kind=container, **where)
    return Q(**{f"{SCOPE_COLUMNS[scope]}__in": held.values("content_object_id")})
