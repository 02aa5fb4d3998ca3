"""Insert grant rows, each with the containers and the kind of its entity.

INVARIANT: `namespace` and `application` of a grant equal those of its entity, which never change, and
`entity_kind` its kind. Therefore, one index lookup answers whether a principal holds any grant inside a
container of any size, or on any entity of a kind. `first_misplaced_grant` verifies the invariant.
"""

from collections.abc import Sequence

from django.db.models import F, Q

from entities.models import Entity
from grants.bulk_rows import chunks, insert_rows
from grants.grant_attributes import GrantAttributes
from grants.models import GRANT_TABLES, GroupGrant, UserGrant
from grants.validity import VALIDITY_COLUMNS


def insert_grant_rows(kind: str, rows: Sequence[tuple]) -> None:
    """Insert grants of users or of groups.

    kind: `user` or `group`. rows: (principal key, entity key, permission key, author's user key, time,
        *GrantAttributes, beginning and end of the period in the form of parameters).
    Runs one statement, and one query for every `ROWS_PER_STATEMENT` entities.
    """
    model, principal_column = GRANT_TABLES[kind]
    columns = (
        principal_column,
        "content_object_id",
        "permission_id",
        "granted_by_id",
        "granted_at",
        *GrantAttributes._fields,
        *VALIDITY_COLUMNS,
        "namespace_id",
        "application_id",
        "entity_kind",
    )
    containers_by_entity = {}
    for chunk in chunks({row[1] for row in rows}):
        entities = Entity.objects.filter(pk__in=chunk).values_list(
            "pk", "namespace_id", "application_id", "kind"
        )
        containers_by_entity.update((pk, containers) for pk, *containers in entities)
    insert_rows(model, columns, [(*row, *containers_by_entity[row[1]]) for row in rows])


def first_misplaced_grant() -> UserGrant | GroupGrant | None:
    """Return a grant with other containers or another kind than its entity, or None if there is no such
    grant.
    """
    for model, _ in GRANT_TABLES.values():
        rows = model.objects.select_related("content_object")
        # an earlier version that is still running during an upgrade stores no kind
        wrong_kind = rows.exclude(entity_kind="").exclude(entity_kind=F("content_object__kind")).first()
        if wrong_kind is not None:
            return wrong_kind
        for column in ("namespace_id", "application_id"):
            # In SQL a comparison with NULL is never true, so there is a separate condition for NULL on only
            # one side.
            actual = f"content_object__{column}"
            misplaced = rows.filter(
                ~Q(**{column: F(actual)}, **{f"{column}__isnull": False, f"{actual}__isnull": False})
                & ~Q(**{f"{column}__isnull": True, f"{actual}__isnull": True})
            ).first()
            if misplaced is not None:
                return misplaced
    return None
