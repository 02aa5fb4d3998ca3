"""Writing rows of grants, each with the containers of its entity.

INVARIANT: a grant's `namespace` and `application` are its entity's, which never change; that makes "holds anything inside
this container" one look into an index, however much lies in it. `first_misplaced_grant` proves it.
"""

from collections.abc import Sequence

from django.db.models import F, Q

from entities.models import Entity
from grants.bulk_rows import chunks, insert_rows
from grants.models import GRANT_TABLES, GroupGrant, UserGrant


def insert_grant_rows(kind: str, rows: Sequence[tuple]) -> None:
    """Insert grants of users or of groups: (principal, entity, permission, granted by, granted at, reason), keys and values.

    One statement, and one for every `bulk.ROWS_PER_STATEMENT` entities.
    """
    model, principal_column = GRANT_TABLES[kind]
    columns = (principal_column, "content_object_id", "permission_id", "granted_by_id", "granted_at", "reason",
               "namespace_id", "application_id")
    containers = {}
    for chunk in chunks({row[1] for row in rows}):
        found = Entity.objects.filter(pk__in=chunk).values_list("pk", "namespace_id", "application_id")
        containers.update((pk, inside) for pk, *inside in found)
    insert_rows(model, columns, [(*row, *containers[row[1]]) for row in rows])


def first_misplaced_grant() -> UserGrant | GroupGrant | None:
    """A grant whose containers are not its entity's; None where all are in place."""
    for model, _ in GRANT_TABLES.values():
        rows = model.objects.select_related("content_object")
        for column in ("namespace_id", "application_id"):
            # SQL compares nothing with NULL, so a container on one side only is asked for by itself
            actual = f"content_object__{column}"
            misplaced = rows.filter(
                ~Q(**{column: F(actual)}, **{f"{column}__isnull": False, f"{actual}__isnull": False})
                & ~Q(**{f"{column}__isnull": True, f"{actual}__isnull": True})
            ).first()
            if misplaced is not None:
                return misplaced
    return None
