"""Query users and groups with the numbers of their groups, members and grants.

Each number is counted up to a limit, so that a principal with very many grants costs no more than others.
"""

from collections.abc import Iterable
from functools import reduce
from operator import add

from django.contrib.auth.models import Group
from django.db.models import IntegerField, OuterRef, QuerySet, Subquery, Value

from entities.models import Entity
from grants.evaluation.effective_grants import grant_tables_of_principal
from grants.models import GroupGrant, RoleGroup, User, UserGrant, type_of

# Counts above this limit are reported as the limit plus one.
MAX_COUNTED = 1_000
_MEMBERSHIP = User.groups.through


class CountedRows(Subquery):
    """Count the rows of a subquery, which the caller slices to limit the work."""

    template = "(SELECT COUNT(*) FROM (%(subquery)s) counted)"
    output_field = IntegerField()


def capped_count_subquery(rows: QuerySet, max_count: int = MAX_COUNTED) -> CountedRows:
    """Return an annotation with the number of rows, or `max_count` + 1 if there are more."""
    return CountedRows(rows.order_by().values("pk")[: max_count + 1])


def capped_count(rows: QuerySet, max_count: int = MAX_COUNTED) -> int:
    """Return the number of rows, or `max_count` + 1 if there are more. Runs one query."""
    return rows.order_by().values("pk")[: max_count + 1].count()


def users_with_counts(rows: QuerySet[User]) -> QuerySet[User]:
    """Annotate the users with `total_groups` and `total_grants` (direct grants), counted up to the limit;
    sort by name.
    """
    return rows.annotate(
        total_groups=capped_count_subquery(_MEMBERSHIP.objects.filter(user=OuterRef("pk"))),
        total_grants=capped_count_subquery(UserGrant.objects.filter(user=OuterRef("pk"))),
    ).order_by("username")


def groups_with_counts(rows: QuerySet[Group]) -> QuerySet[Group]:
    """Annotate the groups with `total_members` (those of a role are users and groups) and `total_grants`, counted up to
    the limit; sort by name.
    """
    return rows.annotate(
        total_members=capped_count_subquery(_MEMBERSHIP.objects.filter(group=OuterRef("pk")))
        + capped_count_subquery(RoleGroup.objects.filter(role=OuterRef("pk"))),
        total_grants=capped_count_subquery(GroupGrant.objects.filter(group=OuterRef("pk"))),
    ).order_by("name")


def directly_granted_entities(principal: User | Group) -> QuerySet[Entity]:
    """Return the entities of any state, and the patterns, on which the principal has a direct grant."""
    grants = type_of(principal).grants_to(principal)
    return Entity.rows.filter(pk__in=grants.order_by().values("content_object_id"))


def grant_counts_inside(principal: User | Group, container_kind: str, ids: Iterable[int]) -> dict[int, int]:
    """Return how many effective grants the principal has on or inside each container. Runs one query.

    container_kind: `namespace` or `application`. ids: primary keys of containers of that kind. The counts of
    direct grants and of grants through groups are limited separately.
    """
    tables = grant_tables_of_principal(principal) or ()
    counts = [capped_count_subquery(table.rows(**{container_kind: OuterRef("pk")})) for table in tables]
    rows = (
        Entity.objects.filter(pk__in=list(ids))
        .annotate(total_grants=reduce(add, counts, Value(0)))
        .order_by()
    )
    return dict(rows.values_list("pk", "total_grants"))
