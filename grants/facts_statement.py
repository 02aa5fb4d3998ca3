"""The one statement behind every decision, in the few shapes that questions need; the database prepares each once.

It knows subjects, places and containers, and no rule. Relations come in as JSON, answers go out as rows of (what, number of
what was asked, a figure, a text).

CROSS JOIN with the conditions in WHERE: PostgreSQL plans it as any join, SQLite keeps the order as written. Every join is a
look into an index from the rows that are asked about, so that a plan made for one question serves a thousand.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from entities.models import Entity, State
from grants.models import GroupGrant, User, UserGrant

_ENTITY, _USER, _MEMBER = Entity._meta.db_table, User._meta.db_table, User.groups.through._meta.db_table
_USER_GRANT, _GROUP_GRANT = UserGrant._meta.db_table, GroupGrant._meta.db_table

_COLUMNS = {
    "known": "no bigint, name text",
    "held": "no bigint, name text, kind text, key text",
    "below": "no bigint, name text, kind text, key text",
    "live": "no bigint, name text, kind text, key text, permission bigint, sort text, explained bigint",
}


@dataclass(frozen=True, slots=True)
class _Grants:
    """Grants `g` that count for a subject whose key is `x.subject_id`, and the principal that holds them."""

    tables: str
    where: str
    principal: str


@dataclass(frozen=True, slots=True)
class _Subject:
    """How a subject of one type is found by its name, as `s`, and where its grants are."""

    table: str
    where: str
    grants: tuple[_Grants, ...]


_SUBJECTS = {
    "user": _Subject(_USER, "s.username = a.name AND s.is_active AND s.is_principal", (
        _Grants(f"{_USER_GRANT} g", "g.user_id = x.subject_id", "'user:' || x.name"),
        _Grants(f"{_MEMBER} m CROSS JOIN {_GROUP_GRANT} g CROSS JOIN auth_group t",
                "m.user_id = x.subject_id AND g.group_id = m.group_id AND t.id = g.group_id", "'group:' || t.name"),
    )),
    "group": _Subject("auth_group", "s.name = a.name", (
        _Grants(f"{_GROUP_GRANT} g", "g.group_id = x.subject_id", "'group:' || x.name"),
    )),
}


@cache
def statement(vendor: str, relations: tuple[tuple[str, str], ...], below: tuple[str, ...], live: tuple[str, ...],
              explained: bool) -> str:
    """The statement over these relations, (type of subject, what is asked), one JSON parameter each, in their order.

    below, live: the kinds of container that occur in what is asked of that name. explained: with what only an explanation
    needs.
    """
    tables, selects = [], []
    for subject_type, what in relations:
        name = f"{subject_type}_{what}"
        tables.append(_relation(vendor, name, _COLUMNS[what]))
        subject = _SUBJECTS[subject_type]
        if what == "known":
            selects.append(_known(name, subject))
            continue
        tables.append(_found(name, what, subject))
        match what:
            case "held":
                selects += _held(f"{name}_found", subject)
            case "below":
                selects += _below(f"{name}_found", subject, below)
            case "live":
                selects += _lacks(f"{name}_found", subject, live, explained)
    return f"WITH {', '.join(tables)}\n{' UNION ALL '.join(selects)}"


def _relation(vendor: str, name: str, given: str) -> str:
    """`name(columns)` holding the rows of a JSON parameter."""
    columns = [column.split() for column in given.split(", ")]
    if vendor == "postgresql":
        source = "jsonb_array_elements(CAST(%s AS jsonb)) AS element(value)"
        picked = ", ".join(f"CAST(value ->> {place} AS {sql_type})" for place, (_, sql_type) in enumerate(columns))
    else:
        source = "json_each(%s)"
        picked = ", ".join(f"json_extract(value, '$[{place}]')" for place in range(len(columns)))
    return f"{name}({', '.join(column for column, _ in columns)}) AS MATERIALIZED (SELECT {picked} FROM {source})"


def _known(name: str, subject: _Subject) -> str:
    # a subquery by itself: as a join, PostgreSQL would rather read all users than look up the hundred that it expects
    return f"""
SELECT 'known', a.no, CAST(NULL AS bigint), CAST(NULL AS text) FROM {name} a
WHERE (SELECT s.id FROM {subject.table} s WHERE {subject.where} LIMIT 1) IS NOT NULL"""


def _found(name: str, what: str, subject: _Subject) -> str:
    """What is asked, with the keys of its subject and entity; what is not registered falls out."""
    rest = ", a.permission, a.sort, a.explained" if what == "live" else ""
    return f"""
{name}_found AS MATERIALIZED (
  SELECT a.no, a.name, a.kind, s.id AS subject_id, e.id AS entity_id{rest}
  FROM {name} a CROSS JOIN {subject.table} s CROSS JOIN {_ENTITY} e
  WHERE {subject.where} AND e.kind = a.kind AND e.key = a.key
)"""


def _held(found: str, subject: _Subject) -> Iterator[str]:
    """Every grant on the places themselves."""
    for grants in subject.grants:
        yield f"""
SELECT 'held', x.no, g.permission_id, {grants.principal} FROM {found} x CROSS JOIN {grants.tables}
WHERE {grants.where} AND g.content_object_id = x.entity_id"""


def _below(found: str, subject: _Subject, kinds: tuple[str, ...]) -> Iterator[str]:
    """One example grant at or below each container; the name of a principal may hold spaces, so it is last."""
    for kind in kinds:
        inside = {"namespace": "g.namespace_id = x.entity_id", "application": "g.application_id = x.entity_id"}.get(kind, "1 = 1")
        searches = ", ".join(
            f"(SELECT CAST(g.permission_id AS text) || ' ' || d.kind || ':' || d.key || ' ' || {grants.principal} "
            f"FROM {grants.tables} CROSS JOIN {_ENTITY} d "
            f"WHERE {grants.where} AND {inside} AND d.id = g.content_object_id LIMIT 1)"
            for grants in subject.grants
        )
        # COALESCE of one is no COALESCE in SQLite
        example = f"COALESCE({searches}, NULL)"
        yield f"""
SELECT 'below', f.no, CAST(NULL AS bigint), f.example
FROM (SELECT x.no AS no, {example} AS example FROM {found} x WHERE x.kind = '{kind}') f
WHERE f.example IS NOT NULL"""


def _lacks(found: str, subject: _Subject, kinds: tuple[str, ...], explained: bool) -> Iterator[str]:
    """Whether a live entity in each container is not held; for an explanation which, and out of how many."""
    held = " AND ".join(
        f"NOT EXISTS (SELECT 1 FROM {grants.tables} "
        f"WHERE {grants.where} AND g.content_object_id = d.id AND g.permission_id = x.permission)"
        for grants in subject.grants
    )
    for kind in kinds:
        column = {"namespace": "d.namespace_id", "application": "d.application_id"}[kind]
        inside = (f"x.kind = '{kind}' AND {column} = x.entity_id AND d.id <> x.entity_id AND d.state = '{State.LIVE}' "
                  f"AND (x.sort = '' OR d.kind = x.sort)")
        yield f"""
SELECT 'lacks', x.no, CAST(NULL AS bigint), CAST(NULL AS text) FROM {found} x
WHERE x.explained = 0 AND EXISTS (SELECT 1 FROM {_ENTITY} d WHERE {inside} AND {held})"""
        if explained:
            source = f"FROM {found} x CROSS JOIN {_ENTITY} d WHERE x.explained = 1 AND {inside}"
            yield f"\nSELECT 'lacks', x.no, CAST(NULL AS bigint), d.kind || ':' || d.key {source} AND {held}"
            yield f"\nSELECT 'total', x.no, COUNT(*), CAST(NULL AS text) {source} GROUP BY x.no"
