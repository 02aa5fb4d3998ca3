"""Whose grants count for a subject: a user's own and those of its groups; a group's own."""

from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import QuerySet

from entities.text import is_storable
from grants.models import GroupGrant, User, UserGrant
from grants.querysets import active_principal_sql

MAX_LISTED_GROUPS = 500
FEW_IDS = 20
_OF_MEMBERSHIPS = "group__user"

# written out, as every search begins with it: Django takes three times as long to word it as a database to answer it
_USER_WITH_GROUPS = f"""
SELECT u.id, m.group_id FROM {User._meta.db_table} u LEFT JOIN {User.groups.through._meta.db_table} m ON m.user_id = u.id
WHERE u.username = %s AND {active_principal_sql("u")}"""


@dataclass(frozen=True, slots=True)
class GrantTable:
    """The rows of one table of grants that count: those in which `column` is one of `ids`.

    relation: what an entity calls the table.
    """

    model: type[UserGrant | GroupGrant]
    relation: str
    column: str
    ids: tuple[int, ...]

    @property
    def principal_condition(self) -> dict:
        """The condition on a row."""
        if len(self.ids) <= FEW_IDS:
            return {f"{self.column}__in": self.ids}
        # of each of hundreds of parameters Django takes as long as the database of its row
        return {f"{self.column.removesuffix('_id')}__pk__among": self.ids}

    def rows(self, **where) -> QuerySet:
        return self.model.objects.filter(**self.principal_condition, **where)

    def entity_conditions(self, **where) -> dict:
        """The same, as the keywords of one `filter` of entities."""
        return {f"{self.relation}__{name}": value for name, value in (self.principal_condition | where).items()}


def grant_tables_of_principal(principal: User | Group) -> tuple[GrantTable, ...] | None:
    """None for a user whose grants count for nothing. No query."""
    if isinstance(principal, Group):
        return tuple(_table_of_groups([principal.pk]))
    return grant_tables_of_user(principal) if principal.is_active_principal else None


def grant_tables_of_user(user: User) -> tuple[GrantTable, ...]:
    """For an active user. No query."""
    return _table_of_user(user.pk), _table_of_memberships(user.pk)


def grant_tables(subject_type: str, name: str) -> tuple[GrantTable, ...] | None:
    """None for an unknown or inactive subject. One query."""
    if not is_storable(name):
        return None
    if subject_type == "group":
        group_ids = Group.objects.filter(name=name).values_list("pk", flat=True)
        return tuple(_table_of_groups(list(group_ids))) or None
    with connection.cursor() as cursor:
        cursor.execute(_USER_WITH_GROUPS, [name])
        rows = cursor.fetchall()
    if not rows:
        return None
    user_id, group_ids = rows[0][0], [group_id for _, group_id in rows if group_id is not None]
    if len(group_ids) > MAX_LISTED_GROUPS:
        return _table_of_user(user_id), _table_of_memberships(user_id)
    return _table_of_user(user_id), *_table_of_groups(group_ids)


def hold_at_most(most: int, tables: tuple[GrantTable, ...]) -> bool:
    """Whether these are so few grants. One query, or none where the memberships are too many to list."""
    if any(table.column == _OF_MEMBERSHIPS for table in tables):
        return False
    selects = [f"SELECT 1 FROM {table.model._meta.db_table} WHERE {table.column} IN ({', '.join(['%s'] * len(table.ids))})"
               for table in tables]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM ({' UNION ALL '.join(selects)} LIMIT {most + 1}) held",
                       [principal_id for table in tables for principal_id in table.ids])
        return cursor.fetchone()[0] <= most


def _table_of_user(user_id: int) -> GrantTable:
    return GrantTable(UserGrant, "user_grants", "user_id", (user_id,))


def _table_of_memberships(user_id: int) -> GrantTable:
    return GrantTable(GroupGrant, "group_grants", _OF_MEMBERSHIPS, (user_id,))


def _table_of_groups(group_ids: list[int]):
    # the database plans better for numbers than for a join
    if group_ids:
        yield GrantTable(GroupGrant, "group_grants", "group_id", tuple(group_ids))
