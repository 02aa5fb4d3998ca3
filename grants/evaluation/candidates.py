"""Find the entities on which an operation can be permitted, starting from the grants of its subject.

A list of queries covers a requirement if every permitted entity is in the result of at least one query. A
requirement that can be met without any grant, such as `Always`, cannot be covered: every entity must then be
checked.
"""

from django.db.models import Q, QuerySet

from entities.address import ancestor_kinds
from entities.models import Entity
from entities.vocabulary import ANY, CONTAINER_KINDS, KINDS
from grants.evaluation.effective_grants import GrantTable
from grants.evaluation.entity_filters import (
    ALL,
    SCOPE_COLUMNS,
    FilterContext,
    has_parameter,
    requirement_condition,
    with_privileges,
)
from grants.policies.grammar import (
    AllOf,
    Always,
    AnyOf,
    Expression,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    Scope,
    UnknownExpression,
)


def candidate_queries(requirement: Expression, context: FilterContext) -> list[QuerySet] | None:
    """Return queries for the keys of all permitted entities of one kind. A key can appear more than once.

    None if the requirement cannot be covered.
    """
    kind = context.kinds[0]
    if isinstance(requirement, HasAtOrBelow) and kind in CONTAINER_KINDS:
        return _containers_of_grants(kind, context)
    cover = _cover(requirement, context)
    if cover is None:
        return None
    condition = ALL if _is_exact(requirement) else requirement_condition(requirement, context)
    rows = Entity.objects.filter(condition, kind=kind).order_by()
    return [rows.filter(part).values_list("key", flat=True) for part in cover]


def _is_exact(expression: Expression) -> bool:
    """Return whether every entity in the result of the covering queries is permitted."""
    match expression:
        case Has() | HasAtOrBelow():
            return True
        case AnyOf(parts):
            return all(map(_is_exact, parts))
        case AllOf() | Given() | HasOnAllLive() | Always():
            return False
        case _:
            raise UnknownExpression(expression)


def _containers_of_grants(kind: str, context: FilterContext) -> list[QuerySet] | None:
    """Return queries for the keys of all containers of `kind` that have a grant on or inside them; None for
    the instance.
    """
    if kind == "instance":
        return None
    inside = [name for name in KINDS if kind == name or kind in ancestor_kinds(name)]
    # in a namespace are nearly all kinds
    is_by_kind = context.by_kind and kind == "application"
    return [
        table.rows(**{f"{kind}__isnull": False}, **(context.on_kinds(inside) if is_by_kind else {}))
        .order_by(*_order_by_kind(table) if is_by_kind else ())
        .values_list(f"{kind}__key", flat=True)
        for table in context.tables
    ]


def _order_by_kind(table: GrantTable) -> tuple[str, ...]:
    """Return the order of the index by kind, so that PostgreSQL does not prefer another one to find the first
    row.

    The rows of several principals are not in this order in the index.
    """
    return (table.column, "entity_kind") if len(table.ids) == 1 and "__" not in table.column else ()


def _cover(expression: Expression, context: FilterContext) -> list[Q] | None:
    """Return conditions such that every permitted entity meets at least one of them; None if there are none."""
    match expression:
        case Has(privileges, scope):
            if scope not in SCOPE_COLUMNS:
                return None
            return [
                _has_grant_at(scope, context, table, with_privileges(privileges)) for table in context.tables
            ]
        case HasAtOrBelow():
            if (kind := context.kinds[0]) in CONTAINER_KINDS:
                return (
                    None if kind == "instance" else [_contains_grant(kind, table) for table in context.tables]
                )
            return [
                _has_grant_at(Scope.SELF, context, table, with_privileges(ANY)) for table in context.tables
            ]
        case AllOf(parts):
            covers = [_cover(part, context) for part in parts]
            return next((cover for cover in covers if cover is not None), None)
        case AnyOf(parts):
            covers = [_cover(part, context) for part in parts]
            return None if None in covers else [condition for cover in covers for condition in cover]
        case Given(parameter, then):
            return _cover(then, context) if has_parameter(parameter, context.question) else None
        case HasOnAllLive() | Always():
            return None
        case _:
            raise UnknownExpression(expression)


def _contains_grant(kind: str, table: GrantTable) -> Q:
    """Return the condition that a container of `kind` has a grant in `table` on it or inside it."""
    return Q(pk__in=table.rows(**{f"{kind}__isnull": False}).values(f"{kind}_id"))


def _has_grant_at(scope: Scope, context: FilterContext, table: GrantTable, where: dict) -> Q:
    """Return the condition that an entity, or its container at `scope`, has a grant in `table` that meets
    `where`.
    """
    if scope == Scope.SELF:
        return Q(**table.entity_conditions(**where, **context.on_kinds(context.kinds[:1])))
    container = KINDS[context.kinds[0]].parent if scope == Scope.PARENT else scope.value
    grants = table.rows(content_object__kind=container, **where, **context.on_kinds([container]))
    return Q(**{f"{SCOPE_COLUMNS[scope]}__in": grants.values("content_object_id")})
