"""Write the derived grants: what follows from the grants on patterns, on each address that they match.

INVARIANT: for each grant on a pattern, and each registered address that the pattern matches, there is one derived grant
with the same holder, privilege, period, author, time and reason; and for each container that the pattern reveals, one
derived grant on the pattern with the columns `namespace` and `application` of the container. The callers hold the lock
of the journal.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from django.db import connection
from django.db.models import Q

from entities.models import PATTERN, Entity
from entities.patterns import entities_matching, matches_sql, pairs_about_sql, reveals_sql
from grants.bulk_rows import chunks
from grants.change_set import Change, Grant, Revoke
from grants.grant_attributes import GrantAttributes
from grants.models import PRINCIPAL_TYPES, PrincipalType
from grants.progress import report_progress

_ENTITY = Entity._meta.db_table
# so many derived grants take less than a second
_ROWS_PER_STEP = 10_000
_AFTER_LAST = 2**63 - 1


def matched_count(changes: Iterable[Change], most: int | None = None) -> int:
    """Return how many registered addresses the patterns of grants and revocations match. An address counts for each of them.

    most: larger counts are not exact. Runs one query for each pattern.
    """
    patterns = Counter(
        change.address
        for change in changes
        if isinstance(change, Grant | Revoke) and change.address.is_pattern
    )
    return sum(entities_matching(pattern)[:most].count() * count for pattern, count in patterns.items())


def derive_from_grants(principal_type: PrincipalType, pks: Iterable[int]) -> None:
    """Write what follows from these grants on patterns, in place of what followed from them before, in steps."""
    for chunk in chunks(pks):
        delete_derived(principal_type, chunk)
        condition = f"g.id IN ({_marks(chunk)})"
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT e.id {_pairs(principal_type, condition)} AND {matches_sql('p', 'e')} ORDER BY e.id",
                chunk,
            )
            matched = [pk for (pk,) in cursor.fetchall()]
        steps = [0, *matched[_ROWS_PER_STEP::_ROWS_PER_STEP], _AFTER_LAST]
        for first, end in pairwise(steps):
            _insert(principal_type, f"{condition} AND e.id >= %s AND e.id < %s", [*chunk, first, end])
            report_progress(min(_ROWS_PER_STEP, len(matched)))


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
        deleted = cursor.rowcount
    report_progress(deleted)


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
    pairs = _pairs(principal_type, condition)
    of_address = {
        "content_object_id": "e.id",
        "namespace_id": "e.namespace_id",
        "application_id": "e.application_id",
        "pattern_id": "p.id",
    }
    of_container = of_address | {"content_object_id": "p.id"}
    return (
        f"SELECT {_expressions(columns, of_address)} {pairs} AND {matches_sql('p', 'e')} UNION ALL "
        f"SELECT {_expressions(columns, of_container)} {pairs} AND {reveals_sql('p', 'e')}"
    )


def _pairs(principal_type: PrincipalType, condition: str) -> str:
    """Return the clauses FROM and WHERE for all pairs of a grant `g` on a pattern `p` and an address or container `e`."""
    return (
        f"FROM {principal_type.grant_model._meta.db_table} g "
        f"JOIN {_ENTITY} p ON p.id = g.content_object_id AND p.state = '{PATTERN}' "
        f"CROSS JOIN {_ENTITY} e WHERE g.pattern_id IS NULL AND e.state <> '{PATTERN}' AND {condition}"
    )


def _expressions(columns: Iterable[str], expressions: dict[str, str]) -> str:
    return ", ".join(expressions.get(column, f"g.{column}") for column in columns)


def _marks(values: Sequence[int]) -> str:
    return ", ".join(["%s"] * len(values))
