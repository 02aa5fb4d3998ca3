"""Read users and groups by their written names."""

from collections.abc import Iterable

from django.contrib.auth.models import Group

from grants.bulk_rows import chunks
from grants.models import User
from grants.principal_names import parse_principal

PRINCIPAL_TABLES = {"user": (User, "username"), "group": (Group, "name")}


def principals_by_name(written_names: Iterable[str]) -> dict[str, User | Group]:
    """Return the users and groups that exist, by written name. Runs two queries for every
    `ROWS_PER_STATEMENT` names.

    written_names: such as `user:alice`. Raise PrincipalError if one is not a principal.
    """
    names: dict[str, list[str]] = {kind: [] for kind in PRINCIPAL_TABLES}
    for kind, name in map(parse_principal, written_names):
        names[kind].append(name)
    principals = {}
    for kind, (model, column) in PRINCIPAL_TABLES.items():
        for chunk in chunks(names[kind]):
            rows = model.objects.filter(**{f"{column}__in": chunk})
            principals.update((f"{kind}:{getattr(row, column)}", row) for row in rows)
    return principals
