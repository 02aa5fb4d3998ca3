"""Select the effective grants of a subject: its own, and those of the groups of a user or the roles of a group.

INVARIANT: an unknown or inactive subject has no effective grants.
"""

from dataclasses import field
from datetime import datetime
from functools import cache

from django.contrib.auth.models import Group
from django.db.models import QuerySet

from entities.frozen import frozen
from entities.text import is_storable
from grants.bulk_rows import database_time
from grants.evaluation.raw_statement import fetch_rows
from grants.models import (
    GRANT_SOURCES,
    GROUP,
    PRINCIPAL_TYPES,
    GrantSource,
    GroupGrant,
    User,
    UserGrant,
    type_of,
)
from grants.validity import at_time, in_force_sql, question_time

MAX_LISTED_GROUPS = 500
MAX_LISTED_IDS = 20


@cache
def _subject_with_groups(subject_type: str) -> str:
    """Return the statement for the primary key of a subject with those of its groups or roles.

    Every search runs it first. It is SQL because Django takes three times as long to build it as the database to run it.
    """
    subjects, (_, through) = PRINCIPAL_TYPES[subject_type], GRANT_SOURCES[subject_type]
    is_known = " AND ".join(
        [f"s.{subjects.name_column} = %s", *(f"s.{column}" for column in subjects.active)]
    )
    return (
        f"SELECT s.id, m.{through.group_column} FROM {subjects.model._meta.db_table} s "
        f"LEFT JOIN {through.memberships.model._meta.db_table} m "
        f"ON m.{through.member_column} = s.id AND {in_force_sql('m', '%s')} WHERE {is_known}"
    )


@frozen
class GrantTable:
    """The effective grants from one source: those that count for the subjects with these primary keys.

    The subjects of the grants to groups are the groups of a user or the roles of a group, if they can be listed.
    at: the time, by default that of the current question. Conditions that are evaluated later keep it.
    """

    source: GrantSource
    ids: tuple[int, ...]
    at: datetime = field(default_factory=question_time)

    @property
    def model(self) -> type[UserGrant | GroupGrant]:
        return self.source.holder.grant_model

    @property
    def principal_condition(self) -> dict:
        """The condition that a grant is effective."""
        condition: dict = self.source.in_force(self.at)
        if len(self.ids) <= MAX_LISTED_IDS:
            return condition | {f"{self.source.subject}__in": self.ids}
        # with hundreds of parameters, Django would take as long for each parameter as the database for its
        # row
        return condition | {f"{self.source.subject}__pk__among": self.ids}

    def rows(self, **where) -> QuerySet:
        """Return the effective grants that also meet `where`."""
        return self.model.held.filter(**self.principal_condition, **where)

    def entity_conditions(self, **where) -> dict:
        """Return the condition that an entity has such a grant, as keyword arguments for `filter`."""
        relation = f"{self.source.holder.name}_grants"
        return {f"{relation}__{name}": value for name, value in (self.principal_condition | where).items()}


def grant_tables_of_principal(principal: User | Group) -> tuple[GrantTable, ...] | None:
    """Return the tables of a principal; None for one that is not active. Runs no query."""
    if isinstance(principal, User) and not principal.is_active_principal:
        return None
    with at_time():
        return tuple(GrantTable(source, (principal.pk,)) for source in GRANT_SOURCES[type_of(principal).name])


def grant_tables(subject_type: str, name: str) -> tuple[GrantTable, ...] | None:
    """Return the tables of a subject; None if it is unknown or inactive. Runs one query."""
    if not is_storable(name):
        return None
    with at_time() as at:
        rows = fetch_rows(_subject_with_groups(subject_type), [database_time(at), database_time(at), name])
        if not rows:
            return None
        own, through_groups = GRANT_SOURCES[subject_type]
        subject_id, group_ids = rows[0][0], list({group_id for _, group_id in rows if group_id is not None})
        if len(group_ids) > MAX_LISTED_GROUPS:
            return GrantTable(own, (subject_id,)), GrantTable(through_groups, (subject_id,))
        # the database makes a better query plan for a list of ids than for a join
        of_groups = [GrantTable(GRANT_SOURCES[GROUP.name][0], tuple(group_ids))] if group_ids else []
        return GrantTable(own, (subject_id,)), *of_groups


def has_at_most(limit: int, tables: tuple[GrantTable, ...]) -> bool:
    """Return whether there are at most `limit` effective grants.

    Runs one query; none if the groups are too many to list.
    """
    if any(table.source.membership for table in tables):
        return False
    selects = [
        f"SELECT 1 FROM {table.model._meta.db_table} g WHERE {table.source.holder.id_column} IN "
        f"({', '.join(['%s'] * len(table.ids))}) AND {in_force_sql('g', '%s')}"
        for table in tables
    ]
    rows = fetch_rows(
        f"SELECT COUNT(*) FROM ({' UNION ALL '.join(selects)} LIMIT {limit + 1}) effective",
        [parameter for table in tables for parameter in (*table.ids, *[database_time(table.at)] * 2)],
    )
    return rows[0][0] <= limit
