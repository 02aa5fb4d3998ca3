"""The definition of every Parquet table: the tables of a snapshot, and the tables of each analysis.

Pure data.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class ColumnType(StrEnum):
    """The values are type names that both Spark and Arrow can parse."""

    LONG = "long"
    TEXT = "string"
    FLAG = "boolean"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name, its type, and whether it may be null."""

    name: str
    type: ColumnType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table that is stored as a folder of Parquet files.

    name: the name of the folder.
    key: the columns that identify a row. Rows are stored in the order of the key, compared byte by byte. All
        key columns of the tables of an analysis are texts or numbers that are never null.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in their order."""
        return tuple(column.name for column in self.columns)


def changes_table(rows: Table) -> Table:
    """Return the table of differences between two versions of `rows`: one row for each key that was added,
    removed or changed.

    Every column outside the key occurs twice: its value before and after. A value is null if that version has
    no such row.
    """
    others = [column for column in rows.columns if column.name not in rows.key]
    versions = [
        replace(column, name=f"{column.name}_{when}", nullable=True)
        for column in others
        for when in ("before", "after")
    ]
    keys = [column for name in rows.key for column in rows.columns if column.name == name]
    return Table("changes", (*keys, _text("change"), *versions), rows.key)


def _long(name: str, nullable: bool = False) -> Column:
    return Column(name, ColumnType.LONG, nullable)


def _text(name: str, nullable: bool = False) -> Column:
    return Column(name, ColumnType.TEXT, nullable)


def _flag(name: str) -> Column:
    return Column(name, ColumnType.FLAG)


ENTITIES = Table(
    "entities",
    (
        _long("id"),
        _text("kind"),
        _text("key"),
        _long("parent_id", True),
        _long("namespace_id", True),
        _long("application_id", True),
        _text("state"),
    ),
    ("id",),
)
# Active principals only.
USERS = Table("users", (_long("id"), _text("name")), ("id",))
# Users that are principals but not active.
INACTIVE_USERS = Table("inactive_users", (_long("id"), _text("name")), ("id",))
GROUPS = Table("groups", (_long("id"), _text("name")), ("id",))
# valid_until: the end of the period as an RFC 3339 time in UTC; null if it does not end.
MEMBERSHIPS = Table(
    "memberships",
    (_long("user_id"), _long("group_id"), _text("valid_until", True)),
    ("user_id", "group_id"),
)
# Grants of all principals, inactive users included. principal_type is `user` or `group`. granted_at: an RFC 3339
# time in UTC. valid_until: as in MEMBERSHIPS.
GRANTS = Table(
    "grants",
    (
        _text("principal_type"),
        _long("principal_id"),
        _long("entity_id"),
        _text("privilege"),
        _text("reason"),
        _text("granted_at"),
        _text("valid_until", True),
    ),
    ("principal_type", "principal_id", "entity_id", "privilege"),
)

# The first and the last day (UTC) on which a user used an entity, as texts such as `2026-02-01`. Only in snapshots
# for analyses that read uses.
USES = Table(
    "uses",
    (_long("user_id"), _long("entity_id"), _text("first_day"), _text("last_day")),
    ("user_id", "entity_id"),
)

SNAPSHOT_TABLES = (ENTITIES, USERS, INACTIVE_USERS, GROUPS, MEMBERSHIPS, GRANTS)

READINESS = Table(
    "rows",
    (_text("namespace"), _text("user"), _long("required"), _long("held"), _long("missing"), _flag("ready")),
    ("namespace", "user"),
)
# users: the number of rows of the namespace in READINESS. fewest_missing and nearest_user are null if there
# is none.
READINESS_NAMESPACES = Table(
    "namespaces",
    (
        _text("namespace"),
        _long("required"),
        _long("users"),
        _long("users_ready"),
        _long("fewest_missing", True),
        _text("nearest_user", True),
        _flag("nobody_can_delete"),
    ),
    ("namespace",),
)
READINESS_DETAIL = Table(
    "detail", (_text("namespace"), _text("user"), _text("entity")), ("namespace", "user", "entity")
)

VISIBILITY = Table(
    "rows",
    (_text("user"), _text("kind"), _text("namespace"), _long("visible")),
    ("user", "kind", "namespace"),
)
# The namespace is empty for entities outside of all namespaces.
VISIBILITY_NAMESPACES = Table(
    "namespaces", (_text("user"), _text("namespace"), _long("visible")), ("user", "namespace")
)
VISIBILITY_DETAIL = Table("detail", (_text("user"), _text("entity")), ("user", "entity"))

IMPACT = Table(
    "rows",
    (_text("user"), _text("kind"), _text("operation"), _long("gained"), _long("lost")),
    ("user", "kind", "operation"),
)
# users: the number of users who gain or lose the operation on any entity.
IMPACT_OPERATIONS = Table(
    "operations",
    (_text("kind"), _text("operation"), _long("users"), _long("gained"), _long("lost")),
    ("kind", "operation"),
)
IMPACT_DETAIL = Table(
    "detail",
    (_text("user"), _text("entity"), _text("operation"), _flag("before"), _flag("after")),
    ("user", "entity", "operation"),
)

GHOSTS = Table(
    "rows",
    (_text("principal"), _text("entity"), _text("privilege"), _text("state"), _text("reason")),
    ("principal", "entity", "privilege"),
)
GHOST_KINDS = Table(
    "kinds",
    (_text("state"), _text("kind"), _long("grants"), _long("entities"), _long("principals")),
    ("state", "kind"),
)

# admin is empty if no active user holds ADMIN.
STRANDED = Table("rows", (_text("entity"), _long("admins"), _text("admin")), ("entity",))
STRANDED_KINDS = Table("kinds", (_text("kind"), _long("live"), _long("nobody"), _long("one")), ("kind",))

# entities: live ones on which the user holds the privilege, directly or through a group.
BLAST_RADIUS = Table(
    "rows",
    (_text("user"), _text("kind"), _text("privilege"), _long("entities")),
    ("user", "kind", "privilege"),
)
# entities: live ones on which the user holds any privilege. changeable: those on which it is not only READ.
# The namespace is empty for entities outside of all namespaces.
BLAST_RADIUS_NAMESPACES = Table(
    "namespaces",
    (_text("user"), _text("namespace"), _long("entities"), _long("changeable")),
    ("user", "namespace"),
)
# read to admin: live entities on which the user holds the privilege.
BLAST_RADIUS_PEOPLE = Table(
    "people",
    (
        _text("user"),
        _long("entities"),
        _long("changeable"),
        _long("namespaces"),
        _long("read"),
        _long("write"),
        _long("execute"),
        _long("admin"),
    ),
    ("user",),
)
BLAST_RADIUS_DETAIL = Table(
    "detail", (_text("user"), _text("entity"), _text("privilege")), ("user", "entity", "privilege")
)

# through: the first group that gives the privilege too, for the whole period of the direct grant.
REDUNDANT = Table(
    "rows",
    (_text("principal"), _text("entity"), _text("privilege"), _text("through")),
    ("principal", "entity", "privilege"),
)
# Memberships of active users. through: another group of the user that gives everything that the group gives, and
# for as long; empty if the group gives nothing.
REDUNDANT_MEMBERSHIPS = Table(
    "memberships", (_text("user"), _text("group"), _text("through")), ("user", "group")
)
REDUNDANT_INACTIVE = Table(
    "inactive",
    (_text("principal"), _text("entity"), _text("privilege"), _text("state")),
    ("principal", "entity", "privilege"),
)
REDUNDANT_GROUPS = Table("groups", (_text("through"), _long("grants"), _long("users")), ("through",))

# through: the principal that holds the grant. last_use: the last day (UTC) on which the user used the entity; empty if no
# use is recorded.
UNUSED = Table(
    "rows",
    (
        _text("user"),
        _text("entity"),
        _text("privilege"),
        _text("through"),
        _text("granted_at"),
        _text("last_use"),
    ),
    ("user", "entity", "privilege", "through"),
)
# Grants on live entities that no active holder used in the window. users: active holders.
UNUSED_GRANTS = Table(
    "grants",
    (
        _text("principal"),
        _text("entity"),
        _text("privilege"),
        _text("granted_at"),
        _long("users"),
        _text("last_use"),
    ),
    ("principal", "entity", "privilege"),
)
# What the records cover: one row. recorded_since: the first day with a recorded use; empty if there is none.
# window_since: the first day of the window; empty if there is none. days: since the first day. window: in days.
UNUSED_COVERAGE = Table(
    "coverage",
    (_text("recorded_since"), _text("window_since"), _long("days"), _long("window")),
    ("recorded_since",),
)
UNUSED_PEOPLE = Table("people", (_text("user"), _long("entities"), _long("privileges")), ("user",))

# holders: active members of the group who hold the privilege on the entity. members: active members of the group.
OUTLIERS = Table(
    "rows",
    (
        _text("user"),
        _text("group"),
        _text("entity"),
        _text("privilege"),
        _long("holders"),
        _long("members"),
    ),
    ("user", "group", "entity", "privilege"),
)
OUTLIERS_GROUPS = Table(
    "groups", (_text("group"), _long("members"), _long("users"), _long("privileges")), ("group",)
)
OUTLIERS_PEOPLE = Table(
    "people", (_text("user"), _long("groups"), _long("entities"), _long("privileges")), ("user",)
)

# Roles have numbers from 1; the first one covers the most direct grants. assignments: the number of direct grants that the role
# covers, some of which other roles may cover too. group: a group with exactly these users as active
# members; the first by name, if there are several.
ROLES = Table(
    "rows",
    (_long("role"), _long("users"), _long("permissions"), _long("assignments"), _text("group")),
    ("role",),
)
ROLE_MEMBERS = Table("members", (_long("role"), _text("user")), ("role", "user"))
ROLE_PERMISSIONS = Table(
    "permissions", (_long("role"), _text("entity"), _text("privilege")), ("role", "entity", "privilege")
)
ROLE_DETAIL = Table(
    "detail",
    (_long("role"), _text("user"), _text("entity"), _text("privilege")),
    ("role", "user", "entity", "privilege"),
)
