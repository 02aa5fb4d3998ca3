"""Select the effective grants of a subject: those of a user and of its groups, or those of a group.

INVARIANT: an unknown or inactive subject has no effective grants.
"""

from dataclasses import dataclass, field
from datetime import datetime

from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import QuerySet

from entities.text import is_storable
from grants.bulk_rows import database_time
from grants.models import GroupGrant, Membership, User, UserGrant
from grants.querysets import active_principal_sql
from grants.validity import at_time, in_force, in_force_sql, question_time

MAX_LISTED_GROUPS = 500
MAX_LISTED_IDS = 20


@dataclass(frozen=True, slots=True)
class GrantSource:
    """A table of grants that count for the subjects of one type.

    subject: the path from a grant to its subject. membership: the path to the membership through which it counts;
    empty for grants of the subject itself. holder_type, holder_name: the type of the holder, and the path to its name.
    """

    model: type[UserGrant | GroupGrant]
    subject: str
    holder_type: str
    holder_name: str
    membership: str = ""

    def rows(self, at: datetime | None = None, **where) -> QuerySet:
        """Return the grants that are in force and meet `where`. at: by default the time of the question."""
        through = in_force(self.membership, at) if self.membership else {}
        return self.model.objects.filter(**where, **through, **in_force(at=at))


_OF_USERS = GrantSource(UserGrant, "user", "user", "user__username")
_OF_GROUPS = GrantSource(GroupGrant, "group", "group", "group__name")
_THROUGH_GROUPS = GrantSource(
    GroupGrant, "group__memberships__user", "group", "group__name", "group__memberships__"
)
# By type of the subject. Whoever reads effective grants reads all sources of the type.
GRANT_SOURCES = {"user": (_OF_USERS, _THROUGH_GROUPS), "group": (_OF_GROUPS,)}

# Every search runs this query first. It is SQL because Django takes three times as long to build it as the
# database to run it.
_USER_WITH_GROUPS = f"""
SELECT u.id, m.group_id FROM {User._meta.db_table} u
LEFT JOIN {Membership._meta.db_table} m ON m.user_id = u.id AND {in_force_sql("m", "%s")}
WHERE u.username = %s AND {active_principal_sql("u")}"""


@dataclass(frozen=True, slots=True)
class GrantTable:
    """The effective grants in one table: the rows with one of `ids` in `column` that are in force.

    at: the time, by default that of the current question. Conditions that are evaluated later keep it.
    relation: the name of the reverse relation from an entity to the table.
    """

    model: type[UserGrant | GroupGrant]
    relation: str
    column: str
    ids: tuple[int, ...]
    at: datetime = field(default_factory=question_time)

    @property
    def principal_condition(self) -> dict:
        """The condition that a grant is effective."""
        condition: dict = in_force(at=self.at)
        if self.column == _THROUGH_GROUPS.subject:
            condition |= in_force(_THROUGH_GROUPS.membership, self.at)
        if len(self.ids) <= MAX_LISTED_IDS:
            return condition | {f"{self.column}__in": self.ids}
        # with hundreds of parameters, Django would take as long for each parameter as the database for its
        # row
        return condition | {f"{self.column.removesuffix('_id')}__pk__among": self.ids}

    def rows(self, **where) -> QuerySet:
        """Return the effective grants that also meet `where`."""
        return self.model.objects.filter(**self.principal_condition, **where)

    def entity_conditions(self, **where) -> dict:
        """Return the condition that an entity has such a grant, as keyword arguments for `filter`."""
        return {
            f"{self.relation}__{name}": value for name, value in (self.principal_condition | where).items()
        }


def grant_tables_of_principal(principal: User | Group) -> tuple[GrantTable, ...] | None:
    """Return the tables of a principal; None for a user who is not an active principal. Runs no query."""
    if isinstance(principal, Group):
        return tuple(_table_of_groups([principal.pk]))
    return grant_tables_of_user(principal) if principal.is_active_principal else None


def grant_tables_of_user(user: User) -> tuple[GrantTable, ...]:
    """Return the tables of an active user. Runs no query."""
    with at_time():
        return _table_of_user(user.pk), _table_of_memberships(user.pk)


def grant_tables(subject_type: str, name: str) -> tuple[GrantTable, ...] | None:
    """Return the tables of a subject; None if it is unknown or inactive. Runs one query."""
    if not is_storable(name):
        return None
    if subject_type == "group":
        group_ids = Group.objects.filter(name=name).values_list("pk", flat=True)
        return tuple(_table_of_groups(list(group_ids))) or None
    with at_time() as at:
        with connection.cursor() as cursor:
            cursor.execute(_USER_WITH_GROUPS, [database_time(at), database_time(at), name])
            rows = cursor.fetchall()
        if not rows:
            return None
        user_id, group_ids = rows[0][0], [group_id for _, group_id in rows if group_id is not None]
        if len(group_ids) > MAX_LISTED_GROUPS:
            return _table_of_user(user_id), _table_of_memberships(user_id)
        return _table_of_user(user_id), *_table_of_groups(group_ids)


def has_at_most(limit: int, tables: tuple[GrantTable, ...]) -> bool:
    """Return whether there are at most `limit` effective grants.

    Runs one query; none if the groups are too many to list.
    """
    if any(table.column == _THROUGH_GROUPS.subject for table in tables):
        return False
    selects = [
        f"SELECT 1 FROM {table.model._meta.db_table} g WHERE {table.column} IN ({', '.join(['%s'] * len(table.ids))}) "
        f"AND {in_force_sql('g', '%s')}"
        for table in tables
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT COUNT(*) FROM ({' UNION ALL '.join(selects)} LIMIT {limit + 1}) effective",
            [parameter for table in tables for parameter in (*table.ids, *[database_time(table.at)] * 2)],
        )
        return cursor.fetchone()[0] <= limit


def _table_of_user(user_id: int) -> GrantTable:
    return GrantTable(UserGrant, "user_grants", "user_id", (user_id,))


def _table_of_memberships(user_id: int) -> GrantTable:
    return GrantTable(GroupGrant, "group_grants", _THROUGH_GROUPS.subject, (user_id,))


def _table_of_groups(group_ids: list[int]):
    # the database makes a better query plan for a list of ids than for a join
    if group_ids:
        yield GrantTable(GroupGrant, "group_grants", "group_id", tuple(group_ids))
