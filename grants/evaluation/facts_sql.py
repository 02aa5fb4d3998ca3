"""The one statement behind every decision, in the few shapes that questions need; the database prepares each once.

It knows subjects, places and containers, and no rule. Relations of what is asked come in as values or as JSON, answers go out
as rows of (what, number of what was asked, a figure, a text).

What is looked up for a row is a subquery that ends in LIMIT, which no planner turns into a join: every one is a look into an
index, and a plan made for one question serves a thousand.
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

# so many rows are told as values: to read JSON takes longer than to look up what it asks
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
    """What is asked about subjects of one type.

    values: how many rows it has, where they are told as values; 0 where they come as one JSON text. kinds: of its containers.
    """

    subject_type: str
    what: str
    values: int
    kinds: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.subject_type}_{self.what}"


@dataclass(frozen=True, slots=True)
class _Way:
    """How a grant `g` counts for the subject of `a`, and the principal that holds it.

    memberships: those of the subject, as `m`, where it holds the grant through them.
    """

    table: str
    counts: str
    principal: str
    memberships: str = ""

    def one(self, inside: str, what: str) -> str:
        """`what` of one grant inside, as a scalar."""
        if not self.memberships:
            return f"(SELECT {what} FROM {self.table} g WHERE {self.counts} AND {inside} LIMIT 1)"
        # from the memberships: a container holds far more grants than a user has groups
        of_group = f"(SELECT {what} FROM {self.table} g WHERE g.group_id = m.group_id AND {inside} LIMIT 1)"
        return f"(SELECT {of_group} FROM {self.memberships} AND {of_group} IS NOT NULL LIMIT 1)"


@dataclass(frozen=True, slots=True)
class _Subject:
    """How a subject `s` of one type is found by the name in `r`, and the ways in which grants are its."""

    table: str
    where: str
    ways: tuple[_Way, ...]


_GROUP_NAME = "'group:' || (SELECT t.name FROM auth_group t WHERE t.id = g.group_id)"
_IN_GROUP = f"(SELECT 1 FROM {_MEMBER} m WHERE m.user_id = a.subject_id AND m.group_id = g.group_id LIMIT 1) IS NOT NULL"
_SUBJECTS = {
    "user": _Subject(_USER, f"s.username = r.name AND {active_principal_sql('s')}", (
        _Way(_USER_GRANT, "g.user_id = a.subject_id", "'user:' || a.name"),
        _Way(_GROUP_GRANT, _IN_GROUP, _GROUP_NAME, f"{_MEMBER} m WHERE m.user_id = a.subject_id"),
    )),
    "group": _Subject("auth_group", "s.name = r.name", (_Way(_GROUP_GRANT, "g.group_id = a.subject_id", "'group:' || a.name"),)),
}


@cache
def statement(vendor: str, relations: tuple[Relation, ...], explained: bool) -> str:
    """The statement over these relations; its parameters are theirs, in their order.

    explained: with what only an explanation needs: by whom and where a privilege is held, and all that is missing.
    """
    tables = [f"{relation.name} AS MATERIALIZED ({_found(vendor, relation)})" for relation in relations]
    selects = [select for relation in relations for select in _selects(vendor, relation, explained)]
    return f"WITH {', '.join(tables)}\n{' UNION ALL '.join(selects)}"


def _found(vendor: str, relation: Relation) -> str:
    """What is asked, with the keys of the subject and of the place; null for one that is not known."""
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
    # a place that is not registered has its row: the row is what tells that the subject is known
    subject, asked = _SUBJECTS[relation.subject_type], f"{relation.name} a WHERE a.subject_id IS NOT NULL"
    match relation.what:
        case "known":
            yield _row("known", "NULL", asked)
        case "held":
            yield _row("held", _held(vendor, subject, explained), asked)
        case "below":
            for kind in relation.kinds:
                yield _row("below", _below(subject, kind, explained), f"{asked} AND a.kind = '{kind}'")
        case "live":
            for kind in relation.kinds:
                yield from _lacks(subject, kind, relation.name, explained)


def _row(what: str, text: str, source: str, figure: str = "NULL") -> str:
    return f"\nSELECT '{what}', a.no, CAST({figure} AS bigint), CAST({text} AS text) FROM {source}"


def _held(vendor: str, subject: _Subject, explained: bool) -> str:
    """What is held on the place itself; null for nothing."""
    grants = " UNION ALL ".join(
        f"SELECT g.permission_id{f', {way.principal} AS principal' if explained else ''} FROM {way.table} g "
        f"WHERE g.content_object_id = a.entity_id AND {way.counts}" for way in subject.ways
    )
    return f"(SELECT {_GATHERED[vendor, explained]} FROM ({grants}) h)"


# with the principals as JSON, since the name of a group may hold anything
_GATHERED = {
    ("postgresql", False): "string_agg(CAST(h.permission_id AS text), ' ')",
    ("sqlite", False): "group_concat(h.permission_id, ' ')",
    ("postgresql", True): "json_agg(json_build_array(h.permission_id, h.principal))",
    ("sqlite", True): "json_group_array(json_array(h.permission_id, h.principal))",
}


def _below(subject: _Subject, kind: str, explained: bool) -> str:
    """One grant at or below a container, null for none. The name of a principal may hold spaces, so it is last."""
    columns = {"namespace": "g.namespace_id = a.entity_id", "application": "g.application_id = a.entity_id"}
    inside = columns.get(kind, "a.entity_id IS NOT NULL")
    examples = ", ".join(
        way.one(inside, _example(way) if explained else "'held'") for way in subject.ways
    )
    # COALESCE of one is no COALESCE in SQLite
    return f"COALESCE({examples}, NULL)"


def _example(way: _Way) -> str:
    entity = f"(SELECT d.kind || ':' || d.key FROM {_ENTITY} d WHERE d.id = g.content_object_id)"
    return f"CAST(g.permission_id AS text) || ' ' || {entity} || ' ' || {way.principal}"


def _lacks(subject: _Subject, kind: str, asked: str, explained: bool) -> Iterator[str]:
    """Whether a live entity in a container is not held; for an explanation which, and out of how many."""
    column = {"namespace": "d.namespace_id", "application": "d.application_id"}[kind]
    # a range of kinds, one or all: either is a part of the index
    sort = f"d.kind >= a.sort AND d.kind <= CASE a.sort WHEN '' THEN '{_AFTER_ALL_KINDS}' ELSE a.sort END"
    inside = f"{column} = a.entity_id AND d.id <> a.entity_id AND d.state = '{State.LIVE}' AND {sort}"
    lacking = " AND ".join(
        f"(SELECT 1 FROM {way.table} g WHERE g.content_object_id = d.id AND g.permission_id = a.permission AND {way.counts} "
        f"LIMIT 1) IS NULL" for way in subject.ways
    )
    where = f"a.subject_id IS NOT NULL AND a.kind = '{kind}'"
    some = f"(SELECT 1 FROM {_ENTITY} d WHERE {inside} AND {lacking} LIMIT 1) IS NOT NULL"
    yield _row("lacks", "NULL", f"{asked} a WHERE {where} AND a.explained = 0 AND {some}")
    if explained:
        each = f"{asked} a CROSS JOIN {_ENTITY} d WHERE {where} AND a.explained = 1 AND {inside}"
        yield _row("lacks", "d.kind || ':' || d.key", f"{each} AND {lacking}")
        yield _row("total", "NULL", f"{each} GROUP BY a.no", figure="COUNT(*)")
