"""Large tenants with a realistic skew: a few huge namespaces, and a few groups with most of the grants.

They are written with COPY into an empty PostgreSQL database; the same seed gives the same tenant.
"""

import random

from django.contrib.auth.models import Group
from django.db import connection

from benchmarks.size import Size
from entities.models import Entity
from entities.vocabulary import Privilege
from grants.models import GroupGrant, User, UserGrant, permission_ids

WHEN = "2026-01-01T00:00:00Z"
NAMESPACED = (
    "dataset",
    "dataset",
    "dataset",
    "stream",
    "artifact",
    "dataset_module",
    "dataset_type",
    "securekey",
)


def write_tenant(size: Size) -> None:
    """Fill the empty database with a tenant of this size, and collect the statistics of the query planner."""
    rng = random.Random(7)
    _copy(
        Entity,
        (
            "id",
            "kind",
            "key",
            "parent_id",
            "namespace_id",
            "application_id",
            "state",
            "description",
            "created_at",
            "changed_at",
        ),
        ((*row, "live", "", WHEN, WHEN) for row in _entities(rng, size)),
    )
    _copy(
        User,
        (
            "id",
            "password",
            "username",
            "first_name",
            "last_name",
            "email",
            "is_staff",
            "is_superuser",
            "is_active",
            "date_joined",
            "role",
            "is_principal",
        ),
        (
            (n, "!", f"user{n}", "", "", "", False, False, True, WHEN, "ordinary", True)
            for n in range(1, size.users + 1)
        ),
    )
    _copy_into("auth_group", ("id", "name"), ((n, f"group{n}") for n in range(1, size.groups + 1)))
    _copy(User.groups.through, ("user_id", "group_id"), _memberships(rng, size))
    # read before COPY, because a connection in COPY mode accepts no other query
    permissions = list(permission_ids().values())
    for model, column, principal_count, share in (
        (UserGrant, "user_id", size.users, 0.6),
        (GroupGrant, "group_id", size.groups, 0.4),
    ):
        _copy(
            model,
            (column, "content_object_id", "permission_id", "granted_at", "reason"),
            (
                (*row, WHEN, "")
                for row in _grants(rng, size, permissions, principal_count, int(size.grants * share))
            ),
        )
    with connection.cursor() as cursor:
        for model in (UserGrant, GroupGrant):
            cursor.execute(
                f"UPDATE {model._meta.db_table} g "
                f"SET namespace_id = e.namespace_id, application_id = e.application_id, entity_kind = e.kind "
                f"FROM {Entity._meta.db_table} e WHERE e.id = g.content_object_id"
            )
        # VACUUM FULL compacts the tables, but only a plain VACUUM sets the visibility map for index-only
        # scans
        cursor.execute("VACUUM FULL")
        cursor.execute("VACUUM ANALYZE")


def create_user_who_sees_nearly_everything(kind: str) -> User:
    """Create a user in one group that holds READ on all entities of a kind except every twentieth."""
    user, group = User.objects.create(username="watcher"), Group.objects.create(name="watchers")
    user.groups.add(group)
    read = permission_ids()[Privilege.READ]
    rows = Entity.objects.filter(kind=kind).order_by("pk").values_list("pk", "namespace_id", "application_id")
    columns = (
        "group_id",
        "content_object_id",
        "namespace_id",
        "application_id",
        "entity_kind",
        "permission_id",
        "granted_at",
        "reason",
    )
    _copy(
        GroupGrant,
        columns,
        [(group.pk, *row, kind, read, WHEN, "") for index, row in enumerate(rows) if index % 20],
    )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    return user


def skewed_number(rng: random.Random, maximum: int) -> int:
    """Return a number from 1 to `maximum`; small numbers are far more frequent."""
    return min(int(rng.paretovariate(0.6)), maximum) if rng.random() < 0.8 else rng.randint(1, maximum)


def _entities(rng: random.Random, size: Size):
    yield 1, "instance", "cdap", None, None, None
    namespaces = range(2, 2 + size.namespaces)
    for n in namespaces:
        yield n, "namespace", f"ns{n}", 1, n, None
    applications = range(namespaces.stop, namespaces.stop + size.applications)
    namespace_by_application = {}
    for n in applications:
        namespace = namespace_by_application[n] = 1 + skewed_number(rng, size.namespaces)
        yield n, "application", f"ns{namespace}.app{n}", namespace, namespace, n
    for n in range(applications.stop, size.entities + 1):
        if rng.random() < 0.25:
            application = rng.choice(applications)
            namespace = namespace_by_application[application]
            yield (
                n,
                "program",
                f"ns{namespace}.app{application}.workflow.p{n}",
                application,
                namespace,
                application,
            )
        else:
            namespace, kind = 1 + skewed_number(rng, size.namespaces), rng.choice(NAMESPACED)
            yield n, kind, f"ns{namespace}.{kind}{n}", namespace, namespace, None


def _memberships(rng: random.Random, size: Size):
    for user in range(1, size.users + 1):
        for group in {skewed_number(rng, size.groups) for _ in range(rng.randint(0, 6))}:
            yield user, group


def _grants(rng: random.Random, size: Size, permissions: list[int], principals: int, count: int):
    rows = set()
    while len(rows) < count:
        principal = skewed_number(rng, principals) if principals < 1_000 else rng.randint(1, principals)
        row = principal, rng.randint(2, size.entities), rng.choice(permissions)
        if row not in rows:
            rows.add(row)
            yield row


def _copy(model, columns: tuple[str, ...], rows) -> None:
    _copy_into(model._meta.db_table, columns, rows)


def _copy_into(table: str, columns: tuple[str, ...], rows) -> None:
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        cursor.execute(
            "SELECT setval(pg_get_serial_sequence(%s, 'id'), (SELECT MAX(id) FROM " + table + "))", [table]
        )
