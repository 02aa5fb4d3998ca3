"""People and groups as lists that show what each has: groups, members, grants, counted as far as one reads."""

from collections.abc import Iterable
from functools import reduce
from operator import add

from django.contrib.auth.models import Group
from django.db.models import IntegerField, OuterRef, QuerySet, Subquery, Value

from entities.models import Entity
from grants.evaluation.effective_grants import grant_tables_of_principal
from grants.models import GroupGrant, User, UserGrant

# a count stops one after it: `over 1,000` says as much as a figure, and costs the same for whoever holds everything
MAX_COUNTED = 1_000
_MEMBERSHIP = User.groups.through


class CountedRows(Subquery):
    """How many rows a subquery has; slice it, so that the counting ends."""

    template = "(SELECT COUNT(*) FROM (%(subquery)s) counted)"
    output_field = IntegerField()


def capped_count_subquery(rows: QuerySet, most: int = MAX_COUNTED) -> CountedRows:
    """For an annotation: how many rows there are, `most` + 1 where there are more."""
    return CountedRows(rows.order_by().values("pk")[: most + 1])


def capped_count(rows: QuerySet, most: int = MAX_COUNTED) -> int:
    """How many rows there are, `most` + 1 where there are more. One query."""
    return rows.order_by().values("pk")[: most + 1].count()


def users_with_counts(rows: QuerySet[User]) -> QuerySet[User]:
    """With `total_groups` and `total_grants` (its own), as far as is counted; by name."""
    return rows.annotate(
        total_groups=capped_count_subquery(_MEMBERSHIP.objects.filter(user=OuterRef("pk"))),
        total_grants=capped_count_subquery(UserGrant.objects.filter(user=OuterRef("pk")))).order_by("username")


def groups_with_counts(rows: QuerySet[Group]) -> QuerySet[Group]:
    """With `total_members` and `total_grants`, as far as is counted; by name."""
    return rows.annotate(
        total_members=capped_count_subquery(_MEMBERSHIP.objects.filter(group=OuterRef("pk"))),
        total_grants=capped_count_subquery(GroupGrant.objects.filter(group=OuterRef("pk")))).order_by("name")


def held_entities(principal: User | Group) -> QuerySet[Entity]:
    """The entities of any state on which the principal itself holds something."""
    grants = UserGrant.objects.filter(user=principal) if isinstance(principal, User) else GroupGrant.objects.filter(
        group=principal)
    return Entity.objects.filter(pk__in=grants.order_by().values("content_object_id"))


def grant_counts_inside(principal: User | Group, container: str, ids: Iterable[int]) -> dict[int, int]:
    """How many grants that count for the principal lie on or in each of these containers, as far as is counted. One query.

    container: `namespace` or `application`.
    """
    tables = grant_tables_of_principal(principal) or ()
    counts = [capped_count_subquery(table.rows(**{container: OuterRef("pk")})) for table in tables]
    rows = Entity.objects.filter(pk__in=list(ids)).annotate(inside=reduce(add, counts, Value(0))).order_by()
    return dict(rows.values_list("pk", "inside"))
