"""Write the derived grants: what follows from the grants on patterns, on each address that they match.

INVARIANT: for each grant on a pattern, and each registered address that the pattern matches, there is one derived grant
with the same holder, privilege, period, author, time and reason; and for each container that the pattern reveals, one
derived grant on the pattern with the columns `namespace` and `application` of the container. The callers hold the lock
of the journal.
"""

from collections.abc import Collection, Iterable, Sequence

from django.db import connection
from django.db.models import Q

from entities.models import PATTERN, Entity
from entities.patterns import matches_sql, pairs_about_sql, reveals_sql
from grants.bulk_rows import chunks
from grants.grant_attributes import GrantAttributes
from grants.models import PRINCIPAL_TYPES, PrincipalType

_ENTITY = Entity._meta.db_table


def derive_from_grants(principal_type: PrincipalType, pks: Iterable[int]) -> None:
    """Write what follows from these grants on patterns, in place of what followed from them before."""
    for chunk in chunks(pks):
        delete_derived(principal_type, chunk)
        _insert(principal_type, f"g.id IN ({_marks(chunk)})", chunk)


def derive_on_entities(pks: Collection[int]) -> None:
    """Write what follows from all grants on patterns on these new addresses. Runs one query for each
    `ROWS_PER_STATEMENT` addresses without a pattern about them.
    """
    for chunk in chunks(pks):
        with connection.cursor() as cursor:
            cursor.execute(pairs_about_sql(f"e.id IN ({_marks(chunk)})"), chunk * 3)
            pairs = cursor.fetchall()
        for part in chunks(pairs):
            values = ", ".join(["(%s, %s)"] * len(part))
            for principal_type in PRINCIPAL_TYPES.values():
                condition = f"(p.id, e.id) IN (VALUES {values})"
                _insert(principal_type, condition, [pk for pair in part for pk in pair])


def delete_derived(principal_type: PrincipalType, pks: Sequence[int]) -> None:
    """Delete what follows from these grants. Call this before the grants are deleted."""
    table, holder = principal_type.grant_model._meta.db_table, principal_type.id_column
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {table} WHERE id IN (SELECT d.id FROM {table} g JOIN {table} d ON "
            f"d.pattern_id = g.content_object_id AND d.{holder} = g.{holder} AND d.permission_id = g.permission_id "
            f"WHERE g.pattern_id IS NULL AND g.id IN ({_marks(pks)}))",
            pks,
        )


def delete_derived_on(entity: Entity) -> None:
    """Delete what follows from patterns on an address, before its row is deleted."""
    for principal_type in PRINCIPAL_TYPES.values():
        principal_type.held_grants.filter(
            Q(content_object=entity) | Q(namespace=entity) | Q(application=entity), pattern__isnull=False
        ).delete()


def first_derived_fault() -> str:
    """Return the first difference of the derived grants from what follows from the grants; empty if there is none."""
    for principal_type in PRINCIPAL_TYPES.values():
        model = principal_type.grant_model
        columns = [
            column
            for column in _columns(principal_type)
            if column not in ("granted_by_id", "granted_at", *GrantAttributes._fields)
        ]
        names = ", ".join(columns)
        derived = f"SELECT {names} FROM {model._meta.db_table} WHERE pattern_id IS NOT NULL"
        expected = _select(principal_type, columns, "g.id IS NOT NULL")
        for one, other in ((expected, derived), (derived, expected)):
            with connection.cursor() as cursor:
                cursor.execute(
                    f"WITH one({names}) AS ({one}), other({names}) AS ({other}) SELECT p.kind, p.key "
                    f"FROM (SELECT * FROM one EXCEPT SELECT * FROM other) d JOIN {_ENTITY} p ON p.id = d.pattern_id "
                    f"LIMIT 1"
                )
                if row := cursor.fetchone():
                    return f"the derived grants are not what follows from the grants on {':'.join(row)}"
    return ""


def _insert(principal_type: PrincipalType, condition: str, parameters: Sequence[int]) -> None:
    """Insert what follows from grants `g` on the addresses or containers `e`."""
    columns = _columns(principal_type)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {principal_type.grant_model._meta.db_table} ({', '.join(columns)}) "
            f"{_select(principal_type, columns, condition)}",
            [*parameters, *parameters],
        )


def _columns(principal_type: PrincipalType) -> list[str]:
    fields = principal_type.grant_model._meta.concrete_fields
    return [str(field.column) for field in fields if not field.primary_key]


def _select(principal_type: PrincipalType, columns: Iterable[str], condition: str) -> str:
    """Return the statement for what follows from grants `g` on addresses or containers `e`. It has the parameters of the
    condition twice.
    """
    of_address = {
        "content_object_id": "e.id",
        "namespace_id": "e.namespace_id",
        "application_id": "e.application_id",
        "pattern_id": "p.id",
    }
    grants = (
        f"FROM {principal_type.grant_model._meta.db_table} g "
        f"JOIN {_ENTITY} p ON p.id = g.content_object_id AND p.state = '{PATTERN}' "
        f"CROSS JOIN {_ENTITY} e WHERE g.pattern_id IS NULL AND e.state <> '{PATTERN}' AND {condition}"
    )
    of_container = of_address | {"content_object_id": "p.id"}
    return (
        f"SELECT {_expressions(columns, of_address)} {grants} AND {matches_sql('p', 'e')} UNION ALL "
        f"SELECT {_expressions(columns, of_container)} {grants} AND {reveals_sql('p', 'e')}"
    )


def _expressions(columns: Iterable[str], expressions: dict[str, str]) -> str:
    return ", ".join(expressions.get(column, f"g.{column}") for column in columns)


def _marks(values: Sequence[int]) -> str:
    return ", ".join(["%s"] * len(values))
