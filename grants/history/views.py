"""Write the temporary views that put the periods at one revision in place of the tables.

Each view has the name and all columns of its table. Columns that the history does not know are constants. The
views are plain selections from one table, so the database merges them into the statements and uses the
indexes of the periods.
"""

from collections.abc import Iterator, Mapping

from django.contrib.auth.models import Group
from django.db import connection, models

from entities.models import Entity
from grants.models import ActiveGeneration, GroupGrant, User, UserGrant
from grants.models.history import (
    EntityPeriod,
    GenerationPeriod,
    GroupGrantPeriod,
    GroupPeriod,
    MembershipPeriod,
    UserGrantPeriod,
    UserPeriod,
)

_GRANT_COLUMNS = {
    "id": "id",
    "content_object_id": "entity",
    "permission_id": "permission",
    "namespace_id": "namespace",
    "application_id": "application",
    "granted_by_id": "granted_by",
    "granted_at": "since",
    "reason": "reason",
    "valid_from": "valid_from",
    "valid_until": "valid_until",
}
_CONTAINERS = {"parent_id": "parent", "namespace_id": "namespace", "application_id": "application"}
# Table, periods, and the column of the periods for each column of the table. A number is a constant.
_SOURCES: tuple[tuple[type[models.Model], type[models.Model], Mapping[str, str]], ...] = (
    (
        User,
        UserPeriod,
        {
            "id": "user",
            "username": "name",
            "is_active": "is_active",
            "is_principal": "is_principal",
            "role": "role",
            "is_service": "is_service",
            "date_joined": "since",
        },
    ),
    (Group, GroupPeriod, {"id": "group", "name": "name"}),
    (
        User.groups.through,
        MembershipPeriod,
        {
            "id": "id",
            "user_id": "user",
            "group_id": "group",
            "valid_from": "valid_from",
            "valid_until": "valid_until",
        },
    ),
    (UserGrant, UserGrantPeriod, {**_GRANT_COLUMNS, "user_id": "user"}),
    (GroupGrant, GroupGrantPeriod, {**_GRANT_COLUMNS, "group_id": "group"}),
    (
        Entity,
        EntityPeriod,
        {
            "id": "entity",
            "kind": "kind",
            "key": "key",
            "state": "state",
            **_CONTAINERS,
            "created_at": "since",
            "changed_at": "since",
        },
    ),
    (ActiveGeneration, GenerationPeriod, {"id": "1", "name": "name"}),
)
SHADOWED_TABLES = tuple(table._meta.db_table for table, _, _ in _SOURCES)


def view_statements(revision: int) -> Iterator[str]:
    """Yield the statements that create the views of the state after the journal line `revision`."""
    quote = connection.ops.quote_name
    for table, periods, columns in _SOURCES:
        selected = ", ".join(
            f"{_expression(field, columns.get(field.column))} AS {quote(field.column)}"
            for field in table._meta.concrete_fields
        )
        yield (
            f"CREATE TEMPORARY VIEW {quote(table._meta.db_table)} AS SELECT {selected} "
            f"FROM {quote(periods._meta.db_table)} WHERE from_revision <= {int(revision)} "
            f"AND (until_revision IS NULL OR until_revision > {int(revision)})"
        )


def _expression(field: models.Field, source: str | None) -> str:
    if source is not None:
        return source if source.isdecimal() else connection.ops.quote_name(source)
    return f"CAST({_constant(field)} AS {field.db_type(connection)})"


def _constant(field: models.Field) -> str:
    """Return the literal for a column that the history does not know: null, or an empty value."""
    if field.null:
        return "NULL"
    if isinstance(field, models.BooleanField):
        return "FALSE"
    if isinstance(field, models.CharField | models.TextField):
        return "''"
    raise TypeError(f"the column {field} has no constant for the past: add it to the periods")
