"""The definition of every Parquet table: the tables of a snapshot, and the tables of each analysis.

Pure data.
"""

from dataclasses import field, replace
from enum import StrEnum

from entities.frozen import frozen


class ColumnType(StrEnum):
    """The values are type names that both Spark and Arrow can parse."""

    LONG = "long"
    TEXT = "string"
    FLAG = "boolean"


@frozen
class Column:
    """A column of a table: its name, its type, whether it may be null, and what its values mean."""

    name: str
    type: ColumnType
    nullable: bool = False
    meaning: str = field(default="", compare=False, repr=False)


@frozen
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
        replace(column, name=f"{column.name}_{when}", nullable=True, meaning=f"{column.meaning}, {report}")
        for column in others
        for when, report in (("before", "in the previous report"), ("after", "in this report"))
    ]
    keys = [column for name in rows.key for column in rows.columns if column.name == name]
    return Table("changes", (*keys, _text("change"), *versions), rows.key)


# What the values of a column mean, unless its table says something else.
_MEANINGS = {
    "action": "what the journal line records",
    "admin": "the only active user who holds ADMIN on it; empty if there is not exactly one",
    "admins": "the number of active users who hold ADMIN on it, directly or through a group",
    "after": "whether the generation to compare with permits the operation",
    "application_id": "the id of the application that contains the entity",
    "assignments": "the number of direct grants that the role covers; other roles may cover some of them too",
    "at_least": "how many active users must hold the privilege; 0 for other forms",
    "author": "the author of the journal line",
    "before": "whether the generation permits the operation",
    "change": "added, removed or changed",
    "changeable": "the number of live entities on which the user holds another privilege than READ",
    "days": "the number of days since the first recorded use",
    "entities": "the number of entities",
    "entity": "the address of the entity",
    "entity_id": "the id of the entity",
    "execute": "the number of live entities on which the user holds EXECUTE",
    "fewest_missing": "the smallest number of missing grants of one user; null without users",
    "first_day": "the first day (UTC) on which the user used the entity, such as 2026-02-01",
    "form": "forbid, forbid_both, require or expect",
    "gained": "the number of live entities on which the operation is gained",
    "granted_at": "the time of the grant, as RFC 3339 in UTC",
    "grants": "the number of grants",
    "group": "the name of the group",
    "group_id": "the id of the group",
    "groups": "the number of groups",
    "guardrail": "the name of the guardrail",
    "role_id": "the id of the role",
    "held": "on how many of the required entities the user holds ADMIN",
    "holders": "the number of active members of the group who hold the privilege on the entity",
    "id": "the number of the row in the database of the console",
    "is_active": "whether the user was an active user of the platform",
    "key": "the address of the entity without its kind",
    "kind": "the kind of the entity",
    "last_day": "the last day (UTC) on which the user used the entity",
    "last_use": "the last day (UTC) on which the entity was used; empty if no use is recorded",
    "level": "block or warn",
    "live": "the number of live entities of the kind",
    "lost": "the number of live entities on which the operation is lost",
    "members": "the number of active members of the group",
    "missing": "on how many of the required entities the user does not hold ADMIN",
    "name": "the name",
    "namespace": "the name of the namespace; empty for entities outside of all namespaces",
    "namespace_id": "the id of the namespace that contains the entity",
    "namespaces": "the number of namespaces",
    "nearest_user": "the user who lacks the fewest grants, the first by name; null without users",
    "nobody": "how many of them have no user who administers them",
    "nobody_can_delete": "whether no active user can delete the namespace",
    "one": "how many of them only one active user administers",
    "operation": "the operation",
    "pattern": "the pattern that the grant is on",
    "pattern_id": "the id of the pattern",
    "parent_id": "the id of the entity that contains it directly",
    "permissions": "the number of pairs of entity and privilege that the role gives",
    "principal": "who holds the grant: user:NAME or group:NAME",
    "principal_id": "the id of the user or group",
    "principal_type": "user or group",
    "principals": "the number of users and groups with such grants",
    "privilege": "READ, WRITE, EXECUTE or ADMIN",
    "privileges": "the number of pairs of entity and privilege",
    "read": "the number of live entities on which the user holds READ",
    "ready": "whether nothing is missing",
    "reason": "the reason that was given for the grant",
    "recorded_since": "the first day (UTC) with a recorded use; empty if there is none",
    "required": "the number of entities on which the deletion of the namespace needs ADMIN",
    "reveals_all": "whether the pattern reveals every namespace",
    "revision": "the number of the journal line",
    "role": "the number of the role, from 1; the first one covers the most direct grants",
    "set": "the identifier of the set: the same users have the same one in every result",
    "side": "0, or for two privileges together 0 or 1",
    "state": "planned, live or deleted",
    "through": "the first group that gives the privilege too, for the whole period of the direct grant",
    "user": "the name of the user",
    "user_id": "the id of the user",
    "users": "the number of users",
    "users_ready": "the number of users who can delete the namespace",
    "valid_until": "the end of the period, as RFC 3339 in UTC; null if it does not end",
    "violations": "the number of violations",
    "visible": "the number of live entities that the user sees in lists",
    "window": "the number of days of the window",
    "window_since": "the first day (UTC) of the window; empty if there is none",
    "write": "the number of live entities on which the user holds WRITE",
}


def _long(name: str, nullable: bool = False, meaning: str = "") -> Column:
    return Column(name, ColumnType.LONG, nullable, meaning or _MEANINGS[name])


def _text(name: str, nullable: bool = False, meaning: str = "") -> Column:
    return Column(name, ColumnType.TEXT, nullable, meaning or _MEANINGS[name])


def _flag(name: str) -> Column:
    return Column(name, ColumnType.FLAG, meaning=_MEANINGS[name])


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
MEMBERSHIPS = Table(
    "memberships",
    (_long("user_id"), _long("group_id"), _text("valid_until", True)),
    ("user_id", "group_id"),
)
# Grants of all principals, inactive users included, with what follows from grants on patterns.
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
        _text(
            "pattern", meaning="the pattern from which the grant follows; empty for a grant on the address"
        ),
    ),
    ("principal_type", "principal_id", "entity_id", "privilege"),
)

# The containers that patterns reveal to their holders.
REVEALED = Table(
    "revealed",
    (
        _text("principal_type"),
        _long("principal_id"),
        _long("entity_id", meaning="the id of the container"),
        _text("privilege"),
    ),
    ("principal_type", "principal_id", "entity_id", "privilege"),
)

# The clauses of guardrails, one row for each privilege. Like the next table, only in snapshots for analyses that read it.
GUARDRAILS = Table(
    "guardrails",
    (
        _text("guardrail"),
        _text("form"),
        _text("level"),
        _long("side"),
        _text("privilege", meaning="READ, WRITE, EXECUTE or ADMIN; empty for an expected decision"),
        _text("kind", meaning="the kind of the place"),
        _text("key", meaning="the address of the place without its kind; empty for all entities of the kind"),
        _long("group_id", True, "the id of the group whose members it is about; null for all users"),
        _long("at_least"),
    ),
    ("guardrail", "side", "privilege"),
)
# The expected decisions of guardrails that were not made, in the active generation.
UNEXPECTED = Table(
    "unexpected",
    (
        _text("guardrail"),
        _text("principal", meaning="who it is about: user:NAME or group:NAME"),
        _text("entity"),
        _text("operation"),
    ),
    ("guardrail",),
)

# Only in snapshots for analyses that read it.
USES = Table(
    "uses",
    (_long("user_id"), _long("entity_id"), _text("first_day"), _text("last_day")),
    ("user_id", "entity_id"),
)


# Grants on patterns, and the addresses that the patterns match, in snapshots for analyses that read them.
PATTERNS = Table(
    "patterns",
    (
        _text("principal_type"),
        _long("principal_id"),
        _long("pattern_id"),
        _text("pattern"),
        _text("privilege"),
        _text("granted_at"),
    ),
    ("principal_type", "principal_id", "pattern_id", "privilege"),
)
MATCHES = Table(
    "matches",
    (
        _long("pattern_id"),
        _long("entity_id"),
        _text("registered_at", meaning="the time at which the address was registered, as RFC 3339 in UTC"),
    ),
    ("pattern_id", "entity_id"),
)


def _period(*columns: Column) -> tuple[Column, ...]:
    """Return the columns of a table of the history: a fact that began with a journal line and ended with another."""
    return (
        *columns,
        _long("from_revision", meaning="the journal line with which it began"),
        _long("until_revision", True, "the journal line with which it ended; null if it lasts"),
    )


def _limited_period(*columns: Column) -> tuple[Column, ...]:
    """Return the columns of a fact of the history with a period in which it is in force."""
    return _period(
        *columns,
        _text("valid_from", True, "the beginning of its period (UTC); null without one"),
        _text("valid_until", True, "the end of its period (UTC); null without one"),
    )


# The history, only in snapshots for analyses that read it. Its ids are not those of the other tables.
PAST_ADDRESSES = Table("past_addresses", (_long("entity_id"), _text("kind"), _text("key")), ("entity_id",))
PAST_USERS = Table(
    "past_users", _period(_long("user_id"), _text("user"), _flag("is_active")), ("user_id", "from_revision")
)
PAST_GROUPS = Table(
    "past_groups",
    _period(_long("group_id"), _text("group", meaning="the name of the group")),
    ("group_id", "from_revision"),
)
PAST_MEMBERSHIPS = Table(
    "past_memberships",
    _limited_period(_long("user_id"), _long("group_id")),
    ("user_id", "group_id", "from_revision"),
)
PAST_GRANTS = Table(
    "past_grants",
    _limited_period(_text("principal_type"), _long("principal_id"), _long("entity_id"), _text("privilege")),
    ("principal_type", "principal_id", "entity_id", "privilege", "from_revision"),
)
JOURNAL = Table(
    "journal",
    (
        _long("revision"),
        _text("at", meaning="the time (UTC) of the journal line"),
        _text("action"),
        _text("author"),
    ),
    ("revision",),
)

# The groups in roles. The memberships of their members in the roles are in MEMBERSHIPS.
ROLE_GROUPS = Table("role_groups", (_long("role_id"), _long("group_id")), ("role_id", "group_id"))

SNAPSHOT_TABLES = (ENTITIES, USERS, INACTIVE_USERS, GROUPS, MEMBERSHIPS, GRANTS, REVEALED)
GUARDRAIL_TABLES = (GUARDRAILS, UNEXPECTED)
HISTORY_TABLES = (PAST_ADDRESSES, PAST_USERS, PAST_GROUPS, PAST_MEMBERSHIPS, PAST_GRANTS, JOURNAL)
# Tables that a snapshot contains if its reader asks for them.
EXTRA_TABLES = (USES, ROLE_GROUPS, PATTERNS, MATCHES, *GUARDRAIL_TABLES, *HISTORY_TABLES)

READINESS = Table(
    "rows",
    (_text("namespace"), _text("user"), _long("required"), _long("held"), _long("missing"), _flag("ready")),
    ("namespace", "user"),
)
READINESS_NAMESPACES = Table(
    "namespaces",
    (
        _text("namespace"),
        _long("required"),
        _long("users", meaning="the number of users who hold ADMIN on the namespace or on an address in it"),
        _long("users_ready"),
        _long("fewest_missing", True),
        _text("nearest_user", True),
        _flag("nobody_can_delete"),
    ),
    ("namespace",),
)
READINESS_DETAIL = Table(
    "detail",
    (
        _text("namespace"),
        _text("user"),
        _text("entity", meaning="the address of a required entity on which the user does not hold ADMIN"),
    ),
    ("namespace", "user", "entity"),
)

VISIBILITY = Table(
    "rows",
    (_text("user"), _text("kind"), _text("namespace"), _long("visible")),
    ("user", "kind", "namespace"),
)
VISIBILITY_NAMESPACES = Table(
    "namespaces", (_text("user"), _text("namespace"), _long("visible")), ("user", "namespace")
)
VISIBILITY_DETAIL = Table("detail", (_text("user"), _text("entity")), ("user", "entity"))

# The set form of VISIBILITY_DETAIL; see `analytics.spark.set_form`.
SET_PRINCIPALS = Table(
    "principals",
    (_text("principal", meaning="who sees every entity of the set: user:NAME"), _text("set")),
    ("principal", "set"),
)
SET_ENTITIES = Table("entities", (_text("set"), _text("entity")), ("set", "entity"))

IMPACT = Table(
    "rows",
    (_text("user"), _text("kind"), _text("operation"), _long("gained"), _long("lost")),
    ("user", "kind", "operation"),
)
IMPACT_OPERATIONS = Table(
    "operations",
    (
        _text("kind"),
        _text("operation"),
        _long("users", meaning="the number of users who gain or lose the operation on any entity"),
        _long("gained"),
        _long("lost"),
    ),
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

STRANDED = Table("rows", (_text("entity"), _long("admins"), _text("admin")), ("entity",))
STRANDED_KINDS = Table("kinds", (_text("kind"), _long("live"), _long("nobody"), _long("one")), ("kind",))

BLAST_RADIUS = Table(
    "rows",
    (
        _text("user"),
        _text("kind"),
        _text("privilege"),
        _long(
            "entities",
            meaning="the number of live entities on which the user holds the privilege, directly or through a group",
        ),
    ),
    ("user", "kind", "privilege"),
)
_REACHED = _long("entities", meaning="the number of live entities on which the user holds any privilege")
BLAST_RADIUS_NAMESPACES = Table(
    "namespaces",
    (_text("user"), _text("namespace"), _REACHED, _long("changeable")),
    ("user", "namespace"),
)
BLAST_RADIUS_PEOPLE = Table(
    "people",
    (
        _text("user"),
        _REACHED,
        _long("changeable"),
        _long("namespaces"),
        _long("read"),
        _long("write"),
        _long("execute"),
        _long("admin", meaning="the number of live entities on which the user holds ADMIN"),
    ),
    ("user",),
)
BLAST_RADIUS_DETAIL = Table(
    "detail", (_text("user"), _text("entity"), _text("privilege")), ("user", "entity", "privilege")
)

REDUNDANT = Table(
    "rows",
    (_text("principal"), _text("entity"), _text("privilege"), _text("through")),
    ("principal", "entity", "privilege"),
)
# Memberships of active users.
REDUNDANT_MEMBERSHIPS = Table(
    "memberships",
    (
        _text("user"),
        _text("group"),
        _text(
            "through",
            meaning="another group of the user that gives everything that the group gives, and for as long; empty if the "
            "group gives nothing",
        ),
    ),
    ("user", "group"),
)
REDUNDANT_INACTIVE = Table(
    "inactive",
    (_text("principal"), _text("entity"), _text("privilege"), _text("state")),
    ("principal", "entity", "privilege"),
)
REDUNDANT_GROUPS = Table("groups", (_text("through"), _long("grants"), _long("users")), ("through",))

UNUSED = Table(
    "rows",
    (
        _text("user"),
        _text("entity"),
        _text("privilege"),
        _text("through", meaning="who holds the grant: user:NAME or group:NAME"),
        _text("granted_at"),
        _text("last_use"),
    ),
    ("user", "entity", "privilege", "through"),
)
# Grants on live entities that no active holder used in the window.
UNUSED_GRANTS = Table(
    "grants",
    (
        _text("principal"),
        _text("entity"),
        _text("privilege"),
        _text("granted_at"),
        _long("users", meaning="the number of active users who hold it"),
        _text("last_use"),
    ),
    ("principal", "entity", "privilege"),
)
# What the records cover: one row.
UNUSED_COVERAGE = Table(
    "coverage",
    (_text("recorded_since"), _text("window_since"), _long("days"), _long("window")),
    ("recorded_since",),
)
UNUSED_PEOPLE = Table("people", (_text("user"), _long("entities"), _long("privileges")), ("user",))

SURPLUS = Table(
    "rows",
    (
        _text("principal"),
        _text("pattern"),
        _text("privilege"),
        _long("matches", meaning="the number of registered addresses that the pattern matches, in any state"),
        _long("entities", meaning="the number of live entities that it matches"),
        _long(
            "only", meaning="on how many of them the principal has the privilege by no other grant of its own"
        ),
        _long(
            "unused",
            True,
            "how many of them no active user of the principal ever used, themselves or something inside; null without records",
        ),
        _long("added", meaning="how many of them were registered after the grant was made"),
        _text("last_use"),
        _text(
            "inside",
            meaning="the first other pattern by which the principal has the privilege and that contains this one; empty "
            "without one",
        ),
        _flag("reveals_all"),
    ),
    ("principal", "pattern", "privilege"),
)
SURPLUS_NARROWER = Table(
    "narrower",
    (
        _text("principal"),
        _text("pattern"),
        _text("privilege"),
        _text("narrower", meaning="a pattern inside this one, or an address that it matches"),
        _long("entities", meaning="the number of live entities that it matches"),
        _long("used", meaning="how many of them an active user of the principal used"),
    ),
    ("principal", "pattern", "privilege", "narrower"),
)
SURPLUS_KINDS = Table(
    "kinds",
    (
        _text("kind"),
        _long("patterns", meaning="the number of patterns with grants"),
        _long("grants"),
        _long("matching_nothing", meaning="how many of the grants are on patterns that match nothing"),
        _long("given", meaning="the number of pairs of grant and live entity that the pattern matches"),
        _long(
            "only",
            meaning="how many of them give a privilege that the principal has by no other grant of its own",
        ),
        _long("unused", meaning="on how many of them no active user of the principal ever used the entity"),
    ),
    ("kind",),
)

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

_GROUP_OF_ROLE = _text(
    "group",
    meaning="the first group by name with exactly these users as active members; empty if there is none",
)
ROLES = Table(
    "rows",
    (_long("role"), _long("users"), _long("permissions"), _long("assignments"), _GROUP_OF_ROLE),
    ("role",),
)
ROLE_MEMBERS = Table("members", (_long("role"), _text("user")), ("role", "user"))
ROLE_PERMISSIONS = Table(
    "permissions", (_long("role"), _text("entity"), _text("privilege")), ("role", "entity", "privilege")
)
ROLE_COVERAGE = Table(
    "coverage",
    (
        _long("role"),
        _long("users"),
        _long("covered", meaning="direct grants that this role or one before it gives"),
        _long("grants", meaning="all direct grants"),
        _long("surplus", meaning="what the role gives to users who do not hold it directly"),
        _text(
            "team",
            meaning="the first group by name of those that share most users with the role; empty without one",
        ),
        _long("team_users", meaning="the users of the role in this group"),
        _long("team_members", meaning="the active members of this group"),
    ),
    ("role",),
)
ROLE_DETAIL = Table(
    "detail",
    (_long("role"), _text("user"), _text("entity"), _text("privilege")),
    ("role", "user", "entity", "privilege"),
)

VIOLATIONS = Table(
    "rows",
    (
        _text("guardrail"),
        _text(
            "principal",
            meaning="who violates it: user:NAME or group:NAME; empty if the entity has too few holders",
        ),
        _text("entity"),
        _text("privilege", meaning="READ, WRITE, EXECUTE or ADMIN; for an expected decision, the operation"),
        _text("through", meaning="the first user or group that gives the privilege; empty if none does"),
    ),
    ("guardrail", "principal", "entity", "privilege"),
)
# Every guardrail.
VIOLATION_TOTALS = Table(
    "guardrails",
    (
        _text("guardrail"),
        _text("level"),
        _long("violations"),
        _long("users", meaning="the number of users and groups that violate it"),
        _long("entities", meaning="the number of entities in its violations"),
    ),
    ("guardrail",),
)

_HELD = Column("before", ColumnType.FLAG, meaning="whether the user held the privilege at the first revision")
DRIFT = Table(
    "rows",
    (
        _text("user"),
        _text("entity"),
        _text("privilege"),
        _HELD,
        replace(_HELD, name="after", meaning="whether the user held it at the second revision"),
    ),
    ("user", "entity", "privilege"),
)
DRIFT_LINES = Table(
    "lines",
    (
        _text("user"),
        _text("entity"),
        _text("privilege"),
        _long("revision"),
        _text(
            "through", meaning="the user or group of which the journal line changes a grant or a membership"
        ),
        _text("at", meaning="the time of the journal line, as RFC 3339 in UTC"),
        _text("action"),
        _text("author"),
    ),
    ("user", "entity", "privilege", "revision", "through"),
)
DRIFT_PEOPLE = Table(
    "people",
    (
        _text("user"),
        _long("gained", meaning="the number of pairs of entity and privilege that the user gained"),
        _long("lost", meaning="the number of pairs of entity and privilege that the user lost"),
        _long("entities"),
    ),
    ("user",),
)
