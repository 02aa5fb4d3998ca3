"""Write the SQL statement that gathers the facts of questions.

The statement contains subjects, addresses and containers, but no rules. Questions need only a few variants of
it, so the database prepares each variant once. The input relations are values or one JSON text. The result
rows are (name of the lookup, number of the lookup, a count, a string).

Only grants and memberships that are in force at the time of the question count. Each relation has this time
as a column.

Each lookup is a subquery that ends in LIMIT, which no query planner turns into a join. Every lookup therefore
reads an index, and the plan for one question is also good for a thousand.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from entities.models import Entity, State
from grants.models import GroupGrant, User, UserGrant
from grants.querysets import active_principal_sql
from grants.validity import in_force_sql

_ENTITY, _USER, _MEMBER = Entity._meta.db_table, User._meta.db_table, User.groups.through._meta.db_table
_USER_GRANT, _GROUP_GRANT = UserGrant._meta.db_table, GroupGrant._meta.db_table

# Sorts after the names of all kinds: these begin with letters, and the column sorts by bytes on every
# database
# (entities.migrations.0002_byte_order).
_AFTER_ALL_KINDS = "~"

# The type of the time of the question. SQLite compares times as texts.
_TIME_TYPES = {"postgresql": "timestamptz", "sqlite": "text"}

# stands for the missing end of a validity in a text
NO_END = "-"

# Up to this many rows are passed as values, because parsing JSON would take longer than the lookups.
FEW_ROWS = 4
_SUBJECT_AND_ADDRESS = {"no": "bigint", "name": "text", "kind": "text", "key": "text"}
_COLUMNS = {
    "known": {"no": "bigint", "name": "text"},
    "held": _SUBJECT_AND_ADDRESS,
    "below": _SUBJECT_AND_ADDRESS,
    "live": {**_SUBJECT_AND_ADDRESS, "permission": "bigint", "sort": "text", "explained": "bigint"},
}


@dataclass(frozen=True, slots=True)
class Relation:
    """The lookups of one type for subjects of one type.

    lookup: `known`, `held`, `below` or `live`, as in `grants.evaluation.facts`.
    value_count: number of rows if they are passed as values; 0 if they are passed as one JSON text.
    kinds: the kinds of the containers to look up.
    """

    subject_type: str
    lookup: str
    value_count: int
    kinds: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.subject_type}_{self.lookup}"


@dataclass(frozen=True, slots=True)
class _GrantPath:
    """A way in which a grant `g` is effective for the subject of lookup `a`: directly or through a group.

    table: the table of the grants. is_effective: the condition that `g` is effective. principal: an
    expression for the holder.
    membership_end: an expression for the end of the membership through which the grant is effective.
    memberships: for grants through groups, the FROM clause of the memberships `m` of the subject.
    """

    table: str
    is_effective: str
    principal: str
    # without a type, PostgreSQL takes NULL for a text
    membership_end: str = "CAST(NULL AS timestamptz)"
    memberships: str = ""

    def any_grant(self, condition: str, expression: str) -> str:
        """Return a scalar subquery for `expression` of any one grant that meets `condition`."""
        if not self.memberships:
            return (
                f"(SELECT {expression} FROM {self.table} g WHERE {self.is_effective} AND {condition} LIMIT 1)"
            )
        # start at the memberships: a container has far more grants than a user has groups
        of_group = (
            f"(SELECT {expression} FROM {self.table} g WHERE g.group_id = m.group_id AND {_IN_FORCE} AND {condition} "
            f"LIMIT 1)"
        )
        return f"(SELECT {of_group} FROM {self.memberships} AND {of_group} IS NOT NULL LIMIT 1)"


@dataclass(frozen=True, slots=True)
class _Subject:
    """How to find a subject `s` of one type by the name in row `r`, and the paths to its effective grants."""

    table: str
    where: str
    paths: tuple[_GrantPath, ...]


_GROUP_NAME = "'group:' || (SELECT t.name FROM auth_group t WHERE t.id = g.group_id)"
_MEMBERSHIPS = f"{_MEMBER} m WHERE m.user_id = a.subject_id AND {in_force_sql('m', 'a.at')}"
_IN_GROUP = f"(SELECT 1 FROM {_MEMBERSHIPS} AND m.group_id = g.group_id LIMIT 1) IS NOT NULL"
_IN_FORCE = in_force_sql("g", "a.at")
_MEMBERSHIP_END = f"(SELECT m.valid_until FROM {_MEMBERSHIPS} AND m.group_id = g.group_id LIMIT 1)"
_SUBJECTS = {
    "user": _Subject(
        _USER,
        f"s.username = r.name AND {active_principal_sql('s')}",
        (
            _GrantPath(_USER_GRANT, f"g.user_id = a.subject_id AND {_IN_FORCE}", "'user:' || a.name"),
            _GrantPath(
                _GROUP_GRANT, f"{_IN_FORCE} AND {_IN_GROUP}", _GROUP_NAME, _MEMBERSHIP_END, _MEMBERSHIPS
            ),
        ),
    ),
    "group": _Subject(
        "auth_group",
        "s.name = r.name",
        (_GrantPath(_GROUP_GRANT, f"g.group_id = a.subject_id AND {_IN_FORCE}", "'group:' || a.name"),),
    ),
}


@cache
def statement(vendor: str, relations: tuple[Relation, ...], explained: bool) -> str:
    """Return the statement for these relations. Its parameters are, for each relation, its rows and the time
    of the question.

    explained: also select the facts for explanations: the holder and the entity of each grant, and all
        entities without a privilege.
    """
    tables = [
        f"{relation.name} AS MATERIALIZED ({_relation_select(vendor, relation)})" for relation in relations
    ]
    selects = [select for relation in relations for select in _selects(vendor, relation, explained)]
    return f"WITH {', '.join(tables)}\n{' UNION ALL '.join(selects)}"


@cache
def inactive_grants_statement(vendor: str, relations: tuple[Relation, ...]) -> str:
    """Return the statement for the grants on addresses that would be effective at another time. Parameters:
    as `statement`.

    relations: those of the lookup `held`. The result rows are (number of the lookup, id of the permission,
    holder, beginning and end of the grant, beginning and end of the membership).
    """
    tables = [
        f"{relation.name} AS MATERIALIZED ({_relation_select(vendor, relation)})" for relation in relations
    ]
    selects = []
    for relation in relations:
        start = "SELECT a.no, g.permission_id,"
        no_time = f"CAST(NULL AS {_TIME_TYPES[vendor]})"
        table = _USER_GRANT if relation.subject_type == "user" else _GROUP_GRANT
        selects.append(
            f"{start} '{relation.subject_type}:' || a.name, g.valid_from, g.valid_until, {no_time}, {no_time} "
            f"FROM {relation.name} a JOIN {table} g ON g.{relation.subject_type}_id = a.subject_id "
            f"AND g.content_object_id = a.entity_id WHERE NOT ({_IN_FORCE})"
        )
        if relation.subject_type == "user":
            selects.append(
                f"{start} {_GROUP_NAME}, g.valid_from, g.valid_until, m.valid_from, m.valid_until "
                f"FROM {relation.name} a JOIN {_MEMBER} m ON m.user_id = a.subject_id "
                f"JOIN {_GROUP_GRANT} g ON g.group_id = m.group_id AND g.content_object_id = a.entity_id "
                f"WHERE NOT ({_IN_FORCE} AND {in_force_sql('m', 'a.at')})"
            )
    return f"WITH {', '.join(tables)}\n{' UNION ALL '.join(selects)}"


def _relation_select(vendor: str, relation: Relation) -> str:
    """Select the rows of a relation with the ids of subject and entity.

    An id is NULL if the subject or entity is unknown.
    """
    subject, columns = _SUBJECTS[relation.subject_type], ", ".join(_COLUMNS[relation.lookup])
    keys = [f"(SELECT s.id FROM {subject.table} s WHERE {subject.where} LIMIT 1) AS subject_id"]
    if "kind" in _COLUMNS[relation.lookup]:
        keys.append(
            f"(SELECT e.id FROM {_ENTITY} e WHERE e.kind = r.kind AND e.key = r.key LIMIT 1) AS entity_id"
        )
    keys.append(f"CAST(%s AS {_TIME_TYPES[vendor]}) AS at")
    return f"WITH r({columns}) AS ({_rows(vendor, relation)}) SELECT {columns}, {', '.join(keys)} FROM r"


def _rows(vendor: str, relation: Relation) -> str:
    types = _COLUMNS[relation.lookup].values()
    if relation.value_count:
        row = f"({', '.join(f'CAST(%s AS {sql_type})' for sql_type in types)})"
        return f"VALUES {', '.join([row] * relation.value_count)}"
    if vendor == "postgresql":
        columns = ", ".join(
            f"CAST(value ->> {position} AS {sql_type})" for position, sql_type in enumerate(types)
        )
        return f"SELECT {columns} FROM jsonb_array_elements(CAST(%s AS jsonb)) AS element(value)"
    columns = ", ".join(f"json_extract(value, '$[{position}]')" for position in range(len(types)))
    return f"SELECT {columns} FROM json_each(%s)"


def _selects(vendor: str, relation: Relation, explained: bool) -> Iterator[str]:
    # an unregistered address also has a result row, which shows that the subject is known
    subject, source = _SUBJECTS[relation.subject_type], f"{relation.name} a WHERE a.subject_id IS NOT NULL"
    match relation.lookup:
        case "known":
            yield _row("known", "NULL", source)
        case "held":
            yield _row("held", _held_privileges(vendor, subject, explained), source)
        case "below":
            for kind in relation.kinds:
                yield _row("below", _grant_below(subject, kind, explained), f"{source} AND a.kind = '{kind}'")
        case "live":
            for kind in relation.kinds:
                yield from _entities_without_privilege(subject, kind, relation.name, explained)


def _row(lookup: str, text: str, source: str, count: str = "NULL") -> str:
    return f"\nSELECT '{lookup}', a.no, CAST({count} AS bigint), CAST({text} AS text) FROM {source}"


def _held_privileges(vendor: str, subject: _Subject, explained: bool) -> str:
    """Return a subquery for the privileges held on exactly the address, as text; NULL if there are none."""
    grants = " UNION ALL ".join(
        f"SELECT g.permission_id{_explained_columns(path) if explained else ''} FROM {path.table} g "
        f"WHERE g.content_object_id = a.entity_id AND {path.is_effective}"
        for path in subject.paths
    )
    return f"(SELECT {_AGGREGATES[vendor, explained]} FROM ({grants}) h)"


def _explained_columns(path: _GrantPath) -> str:
    return f", {path.principal} AS principal, g.valid_until AS grant_end, {path.membership_end} AS membership_end"


# JSON if principals are included, because the name of a group may contain any character
_AGGREGATES = {
    ("postgresql", False): "string_agg(CAST(h.permission_id AS text), ' ')",
    ("sqlite", False): "group_concat(h.permission_id, ' ')",
    (
        "postgresql",
        True,
    ): "json_agg(json_build_array(h.permission_id, h.principal, h.grant_end, h.membership_end))",
    (
        "sqlite",
        True,
    ): "json_group_array(json_array(h.permission_id, h.principal, h.grant_end, h.membership_end))",
}


def _grant_below(subject: _Subject, kind: str, explained: bool) -> str:
    """Return an expression for one grant on or inside a container, as text; NULL if there is none.

    The principal is last in the text, because its name may contain spaces.
    """
    columns = {"namespace": "g.namespace_id = a.entity_id", "application": "g.application_id = a.entity_id"}
    inside = columns.get(kind, "a.entity_id IS NOT NULL")
    grants = ", ".join(
        path.any_grant(inside, _grant_as_text(path) if explained else "'held'") for path in subject.paths
    )
    # SQLite does not accept COALESCE with one argument
    return f"COALESCE({grants}, NULL)"


def _grant_as_text(path: _GrantPath) -> str:
    entity = f"(SELECT d.kind || ':' || d.key FROM {_ENTITY} d WHERE d.id = g.content_object_id)"
    ends = " || ' ' || ".join(
        f"COALESCE(replace(CAST({end} AS text), ' ', 'T'), '{NO_END}')"
        for end in ("g.valid_until", path.membership_end)
    )
    return f"CAST(g.permission_id AS text) || ' ' || {entity} || ' ' || {ends} || ' ' || {path.principal}"


def _entities_without_privilege(subject: _Subject, kind: str, source: str, explained: bool) -> Iterator[str]:
    """Select whether there is a live entity in a container without the privilege.

    For an explanation, select all these entities, and the number of live entities.
    """
    column = {"namespace": "d.namespace_id", "application": "d.application_id"}[kind]
    # a range of one kind or of all kinds, because each range is a contiguous part of the index
    sort = f"d.kind >= a.sort AND d.kind <= CASE a.sort WHEN '' THEN '{_AFTER_ALL_KINDS}' ELSE a.sort END"
    inside = f"{column} = a.entity_id AND d.id <> a.entity_id AND d.state = '{State.LIVE}' AND {sort}"
    is_missing = " AND ".join(
        f"(SELECT 1 FROM {path.table} g WHERE g.content_object_id = d.id AND g.permission_id = a.permission "
        f"AND {path.is_effective} LIMIT 1) IS NULL"
        for path in subject.paths
    )
    where = f"a.subject_id IS NOT NULL AND a.kind = '{kind}'"
    exists = f"(SELECT 1 FROM {_ENTITY} d WHERE {inside} AND {is_missing} LIMIT 1) IS NOT NULL"
    yield _row("missing", "NULL", f"{source} a WHERE {where} AND a.explained = 0 AND {exists}")
    if explained:
        live_entities = f"{source} a CROSS JOIN {_ENTITY} d WHERE {where} AND a.explained = 1 AND {inside}"
        yield _row("missing", "d.kind || ':' || d.key", f"{live_entities} AND {is_missing}")
        yield _row("total", "NULL", f"{live_entities} GROUP BY a.no", count="COUNT(*)")
