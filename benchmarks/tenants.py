"""Large tenants, skewed like real ones: a few huge namespaces, a few groups with most of the grants.

Written with COPY straight into an empty PostgreSQL database; the same seed gives the same tenant.
"""

import random

from django.contrib.auth.models import Group
from django.db import connection

from benchmarks.size import Size
from entities.models import Entity
from entities.vocabulary import Privilege
from grants.models import GroupGrant, User, UserGrant, permission_ids

WHEN = "2026-01-01T00:00:00Z"
NAMESPACED = ("dataset", "dataset", "dataset", "stream", "artifact", "dataset_module", "dataset_type", "securekey")


def tenant_write(size: Size, *, seed: int = 7) -> None:
    """Fill the empty database with a tenant of that size and gather the planner's statistics."""
    dice = random.Random(seed)
    _copy(Entity, ("id", "kind", "key", "parent_id", "namespace_id", "application_id", "state", "description", "created_at",
                   "changed_at"), ((*row, "live", "", WHEN, WHEN) for row in _entities(dice, size)))
    _copy(User, ("id", "password", "username", "first_name", "last_name", "email", "is_staff", "is_superuser", "is_active",
                 "date_joined", "role", "is_principal"),
          ((n, "!", f"user{n}", "", "", "", False, False, True, WHEN, "ordinary", True) for n in range(1, size.users + 1)))
    _copy_into("auth_group", ("id", "name"), ((n, f"group{n}") for n in range(1, size.groups + 1)))
    _copy(User.groups.through, ("user_id", "group_id"), _memberships(dice, size))
    # asked before: a connection that copies answers nothing else
    permissions = list(permission_ids().values())
    for model, column, most, share in ((UserGrant, "user_id", size.users, 0.6), (GroupGrant, "group_id", size.groups, 0.4)):
        _copy(model, (column, "content_object_id", "permission_id", "granted_at", "reason"),
              ((*row, WHEN, "") for row in _grants(dice, size, permissions, most, int(size.grants * share))))
    with connection.cursor() as cursor:
        for model in (UserGrant, GroupGrant):
            cursor.execute(f"UPDATE {model._meta.db_table} g "
                           f"SET namespace_id = e.namespace_id, application_id = e.application_id "
                           f"FROM {Entity._meta.db_table} e WHERE e.id = g.content_object_id")
        # twice: the full one packs the tables, but only a plain one tells an index that it may answer by itself
        cursor.execute("VACUUM FULL")
        cursor.execute("VACUUM ANALYZE")


def sees_nearly_everything_write(kind: str) -> User:
    """Adds a user whose one group holds READ on all entities of a kind but every twentieth."""
    user, group = User.objects.create(username="watcher"), Group.objects.create(name="watchers")
    user.groups.add(group)
    read = permission_ids()[Privilege.READ]
    rows = Entity.objects.filter(kind=kind).order_by("pk").values_list("pk", "namespace_id", "application_id")
    columns = "group_id", "content_object_id", "namespace_id", "application_id", "permission_id", "granted_at", "reason"
    _copy(GroupGrant, columns, [(group.pk, *row, read, WHEN, "") for place, row in enumerate(rows) if place % 20])
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    return user


def skewed(dice: random.Random, most: int) -> int:
    """A number from 1 to `most`, the small ones far more often."""
    return min(int(dice.paretovariate(0.6)), most) if dice.random() < 0.8 else dice.randint(1, most)


def _entities(dice: random.Random, size: Size):
    yield 1, "instance", "cdap", None, None, None
    namespaces = range(2, 2 + size.namespaces)
    for n in namespaces:
        yield n, "namespace", f"ns{n}", 1, n, None
    applications = range(namespaces.stop, namespaces.stop + size.applications)
    place = {}
    for n in applications:
        namespace = place[n] = 1 + skewed(dice, size.namespaces)
        yield n, "application", f"ns{namespace}.app{n}", namespace, namespace, n
    for n in range(applications.stop, size.entities + 1):
        if dice.random() < 0.25:
            application = dice.choice(applications)
            namespace = place[application]
            yield n, "program", f"ns{namespace}.app{application}.workflow.p{n}", application, namespace, application
        else:
            namespace, kind = 1 + skewed(dice, size.namespaces), dice.choice(NAMESPACED)
            yield n, kind, f"ns{namespace}.{kind}{n}", namespace, namespace, None


def _memberships(dice: random.Random, size: Size):
    for user in range(1, size.users + 1):
        for group in {skewed(dice, size.groups) for _ in range(dice.randint(0, 6))}:
            yield user, group


def _grants(dice: random.Random, size: Size, permissions: list[int], principals: int, count: int):
    seen = set()
    while len(seen) < count:
        principal = skewed(dice, principals) if principals < 1_000 else dice.randint(1, principals)
        row = principal, dice.randint(2, size.entities), dice.choice(permissions)
        if row not in seen:
            seen.add(row)
            yield row


def _copy(model, columns: tuple[str, ...], rows) -> None:
    _copy_into(model._meta.db_table, columns, rows)


def _copy_into(table: str, columns: tuple[str, ...], rows) -> None:
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), (SELECT MAX(id) FROM " + table + "))", [table])
