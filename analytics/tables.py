"""The columns of every Parquet table that passes between the database, Spark and the pages; pure data."""

from dataclasses import dataclass, replace
from enum import StrEnum


class ColumnType(StrEnum):
    """Named as both Spark's and Arrow's type parsers read them."""

    LONG = "long"
    TEXT = "string"
    FLAG = "boolean"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: ColumnType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """key: the columns that tell rows apart; rows are written sorted by them, bytewise."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def changes_of(rows: Table) -> Table:
    """What tells two versions of a table apart: a row for each key that was added, removed or changed.

    Each further column stands there twice, as it was and as it is; null where there was no such row.
    """
    others = [column for column in rows.columns if column.name not in rows.key]
    versions = [replace(column, name=f"{column.name}_{when}", nullable=True) for column in others for when in ("before", "after")]
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
    (_long("id"), _text("kind"), _text("key"), _long("parent_id", True), _long("namespace_id", True),
     _long("application_id", True), _text("state")),
    ("id",),
)
# active principals only
USERS = Table("users", (_long("id"), _text("name")), ("id",))
GROUPS = Table("groups", (_long("id"), _text("name")), ("id",))
MEMBERSHIPS = Table("memberships", (_long("user_id"), _long("group_id")), ("user_id", "group_id"))
# of every principal, inactive users included; principal_type is `user` or `group`
GRANTS = Table(
    "grants",
    (_text("principal_type"), _long("principal_id"), _long("entity_id"), _text("privilege"), _text("reason")),
    ("principal_type", "principal_id", "entity_id", "privilege"),
)

SNAPSHOT_TABLES = (ENTITIES, USERS, GROUPS, MEMBERSHIPS, GRANTS)

READINESS = Table(
    "rows",
    (_text("namespace"), _text("user"), _long("required"), _long("held"), _long("missing"), _flag("ready")),
    ("namespace", "user"),
)
# users: of the rows of that namespace; fewest_missing and nearest_user are null where the namespace has no row
READINESS_NAMESPACES = Table(
    "namespaces",
    (_text("namespace"), _long("required"), _long("users"), _long("users_ready"), _long("fewest_missing", True),
     _text("nearest_user", True), _flag("nobody_can_delete")),
    ("namespace",),
)
READINESS_DETAIL = Table("detail", (_text("namespace"), _text("user"), _text("entity")), ("namespace", "user", "entity"))

VISIBILITY = Table(
    "rows", (_text("user"), _text("kind"), _text("namespace"), _long("visible")), ("user", "kind", "namespace"),
)
# what lies in no namespace has the empty name
VISIBILITY_NAMESPACES = Table("namespaces", (_text("user"), _text("namespace"), _long("visible")), ("user", "namespace"))
VISIBILITY_DETAIL = Table("detail", (_text("user"), _text("entity")), ("user", "entity"))

IMPACT = Table(
    "rows", (_text("user"), _text("kind"), _text("operation"), _long("gained"), _long("lost")), ("user", "kind", "operation"),
)
# users: who gain or lose it anywhere
IMPACT_OPERATIONS = Table(
    "operations", (_text("kind"), _text("operation"), _long("users"), _long("gained"), _long("lost")), ("kind", "operation"),
)
IMPACT_DETAIL = Table(
    "detail", (_text("user"), _text("entity"), _text("operation"), _flag("before"), _flag("after")),
    ("user", "entity", "operation"),
)

GHOSTS = Table(
    "rows", (_text("principal"), _text("entity"), _text("privilege"), _text("state"), _text("reason")),
    ("principal", "entity", "privilege"),
)
GHOST_KINDS = Table(
    "kinds", (_text("state"), _text("kind"), _long("grants"), _long("entities"), _long("principals")), ("state", "kind"),
)

# admin is empty where nobody holds ADMIN
STRANDED = Table("rows", (_text("entity"), _long("admins"), _text("admin")), ("entity",))
STRANDED_KINDS = Table("kinds", (_text("kind"), _long("live"), _long("nobody"), _long("one")), ("kind",))
