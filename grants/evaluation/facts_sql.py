"""Write the one statement behind every decision, in the few shapes that questions need; the database prepares each once.

The statement knows subjects, addresses and containers, but no rules. Its input relations are values or one JSON text; its
result rows are (name of the lookup, number of the lookup, a figure, a text).

Each lookup is a subquery that ends in LIMIT. No planner turns it into a join: every lookup reads an index, and a plan made for
one question serves a thousand.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from entities.models import Entity, State
from grants.models import GroupGrant, User, UserGrant
from grants.querysets import active_principal_sql

_ENTITY, _USER, _MEMBER = Entity._meta.db_table, User._meta.db_table, User.groups.through._meta.db_table
_USER_GRANT, _GROUP_GRANT = UserGrant._meta.db_table, GroupGrant._meta.db_table

# names of kinds begin with letters, and the column sorts by bytes on every database (entities.migrations.0002_byte_order)
_AFTER_ALL_KINDS = "~"

# up to this many rows are passed as values: for so few, parsing JSON takes longer than the lookups
FEW_ROWS = 4
_PLACE = {"no": "bigint", "name": "text", "kind": "text", "key": "text"}
_COLUMNS = {
    "known": {"no": "bigint", "name": "text"},
    "held": _PLACE,
    "below": _PLACE,
    "live": {**_PLACE, "permission": "bigint", "sort": "text", "explained": "bigint"},
}


@dataclass(frozen=True, slots=True)
class Relation:
    """The lookups of one name for subjects of one type.

    values: number of rows if they are passed as values; 0 if they are passed as one JSON text. kinds: of its containers.
    """

    subject_type: str
    what: str
    values: int
    kinds: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.subject_type}_{self.what}"


@dataclass(frozen=True, slots=True)
class _GrantPath:
    """A way in which a grant `g` is effective for the subject of `a`: directly or through a group.

    counts: the condition. principal: an expression for the holder. memberships: the FROM clause of the subject's memberships
    `m` if the grant is held through a group.
    """

    table: str
    counts: str
    principal: str
    memberships: str = ""

    def one(self, inside: str, what: str) -> str:
        """Return a scalar subquery for `what` of one grant that meets `inside`."""
        if not self.memberships:
            return f"(SELECT {what} FROM {self.table} g WHERE {self.counts} AND {inside} LIMIT 1)"
        # start at the memberships: a container has far more grants than a user has groups
        of_group = f"(SELECT {what} FROM {self.table} g WHERE g.group_id = m.group_id AND {inside} LIMIT 1)"
        return f"(SELECT {of_group} FROM {self.memberships} AND {of_group} IS NOT NULL LIMIT 1)"


@dataclass(frozen=True, slots=True)
class _Subject:
    """How to find a subject `s` of one type by the name in `r`, and the paths of its effective grants."""

    table: str
    where: str
    paths: tuple[_GrantPath, ...]


_GROUP_NAME = "'group:' || (SELECT t.name FROM auth_group t WHERE t.id = g.group_id)"
_IN_GROUP = f"(SELECT 1 FROM {_MEMBER} m WHERE m.user_id = a.subject_id AND m.group_id = g.group_id LIMIT 1) IS NOT NULL"
_SUBJECTS = {
    "user": _Subject(_USER, f"s.username = r.name AND {active_principal_sql('s')}", (
        _GrantPath(_USER_GRANT, "g.user_id = a.subject_id", "'user:' || a.name"),
        _GrantPath(_GROUP_GRANT, _IN_GROUP, _GROUP_NAME, f"{_MEMBER} m WHERE m.user_id = a.subject_id"),
    )),
    "group": _Subject("auth_group", "s.name = r.name", (
        _GrantPath(_GROUP_GRANT, "g.group_id = a.subject_id", "'group:' || a.name"),
    )),
}


@cache
def statement(vendor: str, relations: tuple[Relation, ...], explained: bool) -> str:
    """Return the statement over these relations; its parameters are the rows of the relations, in their order.

    explained: select also what only an explanation needs: who holds a privilege and where, and all that is missing.
    """
    tables = [f"{relation.name} AS MATERIALIZED ({_relation_select(vendor, relation)})" for relation in relations]
    selects = [select for relation in relations for select in _selects(vendor, relation, explained)]
    return f"WITH {', '.join(tables)}\n{' UNION ALL '.join(selects)}"


def _relation_select(vendor: str, relation: Relation) -> str:
    """Select the rows of a relation with the ids of subject and entity; NULL for one that is not known."""
    subject, columns = _SUBJECTS[relation.subject_type], ", ".join(_COLUMNS[relation.what])
    keys = [f"(SELECT s.id FROM {subject.table} s WHERE {subject.where} LIMIT 1) AS subject_id"]
    if "kind" in _COLUMNS[relation.what]:
        keys.append(f"(SELECT e.id FROM {_ENTITY} e WHERE e.kind = r.kind AND e.key = r.key LIMIT 1) AS entity_id")
    return f"WITH r({columns}) AS ({_rows(vendor, relation)}) SELECT {columns}, {', '.join(keys)} FROM r"


def _rows(vendor: str, relation: Relation) -> str:
    types = _COLUMNS[relation.what].values()
    if relation.values:
        row = f"({', '.join(f'CAST(%s AS {sql_type})' for sql_type in types)})"
        return f"VALUES {', '.join([row] * relation.values)}"
    if vendor == "postgresql":
        picked = ", ".join(f"CAST(value ->> {place} AS {sql_type})" for place, sql_type in enumerate(types))
        return f"SELECT {picked} FROM jsonb_array_elements(CAST(%s AS jsonb)) AS element(value)"
    picked = ", ".join(f"json_extract(value, '$[{place}]')" for place in range(len(types)))
    return f"SELECT {picked} FROM json_each(%s)"


def _selects(vendor: str, relation: Relation, explained: bool) -> Iterator[str]:
    # an address that is not registered still has a row: the row shows that the subject is known
    subject, source = _SUBJECTS[relation.subject_type], f"{relation.name} a WHERE a.subject_id IS NOT NULL"
    match relation.what:
        case "known":
            yield _row("known", "NULL", source)
        case "held":
            yield _row("held", _held(vendor, subject, explained), source)
        case "below":
            for kind in relation.kinds:
                yield _row("below", _below(subject, kind, explained), f"{source} AND a.kind = '{kind}'")
        case "live":
            for kind in relation.kinds:
                yield from _missing(subject, kind, relation.name, explained)


def _row(what: str, text: str, source: str, figure: str = "NULL") -> str:
    return f"\nSELECT '{what}', a.no, CAST({figure} AS bigint), CAST({text} AS text) FROM {source}"


def _held(vendor: str, subject: _Subject, explained: bool) -> str:
    """Return the privileges held on exactly the address as a text; NULL for none."""
    grants = " UNION ALL ".join(
        f"SELECT g.permission_id{f', {path.principal} AS principal' if explained else ''} FROM {path.table} g "
        f"WHERE g.content_object_id = a.entity_id AND {path.counts}" for path in subject.paths
    )
    return f"(SELECT {_GATHERED[vendor, explained]} FROM ({grants}) h)"


# as JSON if principals are included, as the name of a group may contain any character
_GATHERED = {
    ("postgresql", False): "string_agg(CAST(h.permission_id AS text), ' ')",
    ("sqlite", False): "group_concat(h.permission_id, ' ')",
    ("postgresql", True): "json_agg(json_build_array(h.permission_id, h.principal))",
    ("sqlite", True): "json_group_array(json_array(h.permission_id, h.principal))",
}


def _below(subject: _Subject, kind: str, explained: bool) -> str:
    """Return one grant at or below a container as a text; NULL for none. Its principal is last: a name may contain spaces."""
    columns = {"namespace": "g.namespace_id = a.entity_id", "application": "g.application_id = a.entity_id"}
    inside = columns.get(kind, "a.entity_id IS NOT NULL")
    examples = ", ".join(
        path.one(inside, _example(path) if explained else "'held'") for path in subject.paths
    )
    # SQLite does not accept COALESCE with one argument
    return f"COALESCE({examples}, NULL)"


def _example(path: _GrantPath) -> str:
    entity = f"(SELECT d.kind || ':' || d.key FROM {_ENTITY} d WHERE d.id = g.content_object_id)"
    return f"CAST(g.permission_id AS text) || ' ' || {entity} || ' ' || {path.principal}"


def _missing(subject: _Subject, kind: str, source: str, explained: bool) -> Iterator[str]:
    """Select whether a privilege is missing on a live entity in a container; for an explanation which ones, and the total."""
    column = {"namespace": "d.namespace_id", "application": "d.application_id"}[kind]
    # a range of kinds, one or all: either is a contiguous part of the index
    sort = f"d.kind >= a.sort AND d.kind <= CASE a.sort WHEN '' THEN '{_AFTER_ALL_KINDS}' ELSE a.sort END"
    inside = f"{column} = a.entity_id AND d.id <> a.entity_id AND d.state = '{State.LIVE}' AND {sort}"
    is_missing = " AND ".join(
        f"(SELECT 1 FROM {path.table} g WHERE g.content_object_id = d.id AND g.permission_id = a.permission AND {path.counts} "
        f"LIMIT 1) IS NULL" for path in subject.paths
    )
    where = f"a.subject_id IS NOT NULL AND a.kind = '{kind}'"
    some = f"(SELECT 1 FROM {_ENTITY} d WHERE {inside} AND {is_missing} LIMIT 1) IS NOT NULL"
    yield _row("missing", "NULL", f"{source} a WHERE {where} AND a.explained = 0 AND {some}")
    if explained:
        each = f"{source} a CROSS JOIN {_ENTITY} d WHERE {where} AND a.explained = 1 AND {inside}"
        yield _row("missing", "d.kind || ':' || d.key", f"{each} AND {is_missing}")
        yield _row("total", "NULL", f"{each} GROUP BY a.no", figure="COUNT(*)")
