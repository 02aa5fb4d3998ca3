"""Gathering facts: one statement for one question or for a thousand, on PostgreSQL and SQLite alike.

The questions become four small relations (who asks, which addresses, which containers at or below, which containers whose
live content must be held); the statement joins them to the grants. It holds no rule: which relations a question needs
follows from the leaves of its expression.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from django.db import connection

from entities.address import Address
from entities.models import Entity, State
from entities.vocabulary import CONTAINERS, KINDS, Privilege
from grants.models import GroupGrant, User, UserGrant, permission_ids, privilege_of
from grants.policies.decide import Held, Lacking
from grants.policies.expressions import Has, HasAtOrBelow, HasOnAllLive, leaves
from grants.policies.question import Question

NOTHING_HELD: dict[Privilege, str] = {}
NOTHING_LACKS = Lacking(is_empty=True)


@dataclass(slots=True)
class _Ask:
    """What one statement looks up: a number for each distinct subject, place and container."""

    subjects: dict[tuple[str, str], int] = field(default_factory=dict)
    places: dict[tuple[int, Address], int] = field(default_factory=dict)
    below: dict[tuple[int, Address], int] = field(default_factory=dict)
    live: dict[tuple[int, Address, Privilege, str], int] = field(default_factory=dict)
    explained: set[int] = field(default_factory=set)


def _number(relation: dict, row: tuple) -> int:
    return relation.setdefault(row, len(relation))


@dataclass(slots=True)
class _Ledger:
    """What the statement found, by the numbers of the `_Ask`."""

    known: set[int] = field(default_factory=set)
    held: dict[int, dict[Privilege, str]] = field(default_factory=dict)
    below: dict[int, Held] = field(default_factory=dict)
    lacks: dict[int, list[Address]] = field(default_factory=dict)
    totals: dict[int, int] = field(default_factory=dict)


class QuestionFacts:
    """The facts of one question; see `grants.policies.decide.Facts`."""

    __slots__ = ("_ask", "_ledger", "_subject", "subject_is_known")

    def __init__(self, ask: _Ask, ledger: _Ledger, subject: int):
        self._ask, self._ledger, self._subject = ask, ledger, subject
        self.subject_is_known = subject in ledger.known

    def held(self, place: Address) -> dict[Privilege, str]:
        return self._ledger.held.get(self._ask.places[self._subject, place], NOTHING_HELD)

    def at_or_below(self, place: Address) -> Held | None:
        if place.kind in CONTAINERS:
            return self._ledger.below.get(self._ask.below[self._subject, place])
        for privilege, principal in self.held(place).items():
            return Held(principal, place, privilege)
        return None

    def lacking(self, place: Address, privilege: Privilege, kind: str | None) -> Lacking:
        number = self._ask.live[self._subject, place, privilege, kind or ""]
        total, addresses = self._ledger.totals.get(number, 0), self._ledger.lacks.get(number)
        if addresses is None:
            return Lacking(True, total) if total else NOTHING_LACKS
        return Lacking(False, total, tuple(addresses))


def gather(questions: Sequence[Question], *, explained: bool = False) -> list[QuestionFacts]:
    """The facts of each question, in order. One statement, whatever the number of questions.

    explained: gather also what only an explanation needs, for every question and not just for those that ask for it.
    """
    ask = _Ask()
    numbers = [_enter(ask, question, explained or question.explain) for question in questions]
    ledger = _look_up(ask) if ask.subjects else _Ledger()
    return [QuestionFacts(ask, ledger, number) for number in numbers]


def _enter(ask: _Ask, question: Question, explained: bool) -> int:
    """Note what the question needs looked up. Returns the number of its subject."""
    if question.target is None:
        return -1
    subject = _number(ask.subjects, (question.subject_type, question.subject))
    policy = question.policy
    if policy is None or policy.requires is None:
        return subject
    for leaf in leaves(policy.requires):
        match leaf:
            case Has(_, scope):
                place = question.at(scope)
                if place is not None:
                    _number(ask.places, (subject, place))
            case HasAtOrBelow():
                relation = ask.below if question.target.kind in CONTAINERS else ask.places
                _number(relation, (subject, question.target))
            case HasOnAllLive(privilege, kind):
                number = _number(ask.live, (subject, question.target, privilege, kind or ""))
                if explained:
                    ask.explained.add(number)
    return subject


def _look_up(ask: _Ask) -> _Ledger:
    statement, parameters = _statement(ask)
    ledger = _Ledger()
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        for what, number, figure, text in cursor:
            _record(ledger, what, number, figure, text)
    for addresses in ledger.lacks.values():
        addresses.sort(key=_address_order)
    return ledger


def _record(ledger: _Ledger, what: str, number: int, figure: int | None, text: str | None) -> None:
    match what:
        case "held":
            ledger.held.setdefault(number, {}).setdefault(privilege_of(figure), text)
        case "known":
            ledger.known.add(number)
        case "below":
            permission_text, address, principal = text.split(" ", 2)
            ledger.below[number] = Held(principal, _read(address), privilege_of(int(permission_text)))
        case "lacks":
            addresses = ledger.lacks.setdefault(number, [])
            if text is not None:
                addresses.append(_read(text))
        case "total":
            ledger.totals[number] = figure


def _read(text: str) -> Address:
    kind, _, key = text.partition(":")
    return Address(kind, key)


def _address_order(address: Address) -> tuple[int, str]:
    return _KIND_ORDER.get(address.kind, len(_KIND_ORDER)), address.key


_KIND_ORDER = {kind: place for place, kind in enumerate(KINDS)}

_ENTITY, _USER = Entity._meta.db_table, User._meta.db_table
_USER_GRANT, _GROUP_GRANT = UserGrant._meta.db_table, GroupGrant._meta.db_table
_MEMBER = User.groups.through._meta.db_table

# CROSS JOIN with the conditions in WHERE: PostgreSQL plans it as any join, SQLite keeps the order as written, which starts
# from the few rows that are asked about
_WHO = f"""
who(no, user_id, group_id, principal) AS MATERIALIZED (
  SELECT s.no, u.id, CAST(NULL AS integer), 'user:' || u.username
  FROM subject s CROSS JOIN {_USER} u
  WHERE s.type = 'user' AND u.username = s.name AND u.is_active AND u.is_principal
  UNION ALL
  SELECT s.no, NULL, g.id, 'group:' || g.name
  FROM subject s CROSS JOIN {_USER} u CROSS JOIN {_MEMBER} m CROSS JOIN auth_group g
  WHERE s.type = 'user' AND u.username = s.name AND u.is_active AND u.is_principal AND m.user_id = u.id AND g.id = m.group_id
  UNION ALL
  SELECT s.no, NULL, g.id, 'group:' || g.name
  FROM subject s CROSS JOIN auth_group g
  WHERE s.type = 'group' AND g.name = s.name
)"""

_KNOWN = """
SELECT 'known', s.no, CAST(NULL AS bigint), CAST(NULL AS text)
FROM subject s CROSS JOIN who w
WHERE w.no = s.no AND (s.type = 'group' OR w.user_id IS NOT NULL)"""

_HELD = f"""
SELECT 'held', p.no, g.permission_id, w.principal
FROM place p CROSS JOIN {_ENTITY} e CROSS JOIN who w CROSS JOIN {_USER_GRANT} g
WHERE e.kind = p.kind AND e.key = p.key AND w.no = p.subject AND g.user_id = w.user_id AND g.content_object_id = e.id
UNION ALL
SELECT 'held', p.no, g.permission_id, w.principal
FROM place p CROSS JOIN {_ENTITY} e CROSS JOIN who w CROSS JOIN {_GROUP_GRANT} g
WHERE e.kind = p.kind AND e.key = p.key AND w.no = p.subject AND g.group_id = w.group_id AND g.content_object_id = e.id"""


def _below(kind: str) -> str:
    """One example grant at or below each container of that kind; the name of a principal may hold spaces, so it is last."""
    inside = {"namespace": "g.namespace_id = c.id", "application": "g.application_id = c.id"}.get(kind, "1 = 1")
    example = "CAST(g.permission_id AS text) || ' ' || d.kind || ':' || d.key || ' ' || w.principal"
    searches = [
        f"(SELECT {example} FROM who w CROSS JOIN {grants} g CROSS JOIN {_ENTITY} d "
        f"WHERE w.no = b.subject AND g.{principal} = w.{principal} AND d.id = g.content_object_id AND {inside} LIMIT 1)"
        for grants, principal in ((_USER_GRANT, "user_id"), (_GROUP_GRANT, "group_id"))
    ]
    return f"""
SELECT 'below', f.no, CAST(NULL AS bigint), f.example FROM (
  SELECT b.no AS no, COALESCE({', '.join(searches)}) AS example
  FROM below b CROSS JOIN {_ENTITY} c WHERE b.kind = '{kind}' AND c.kind = b.kind AND c.key = b.key) f
WHERE f.example IS NOT NULL"""


def _inside(kind: str) -> str:
    column = {"namespace": "d.namespace_id", "application": "d.application_id"}[kind]
    return (f"l.kind = '{kind}' AND c.kind = l.kind AND c.key = l.key AND {column} = c.id AND d.id <> c.id "
            f"AND d.state = '{State.LIVE}' AND (l.sort = '' OR d.kind = l.sort)")


def _not_held() -> str:
    return " AND ".join(
        f"NOT EXISTS (SELECT 1 FROM who w CROSS JOIN {grants} g WHERE w.no = l.subject AND g.{principal} = w.{principal} "
        f"AND g.content_object_id = d.id AND g.permission_id = l.permission)"
        for grants, principal in ((_USER_GRANT, "user_id"), (_GROUP_GRANT, "group_id"))
    )


def _live(kind: str, explained: bool) -> str:
    source = f"FROM live l CROSS JOIN {_ENTITY} c CROSS JOIN {_ENTITY} d WHERE l.explained = 1 AND {_inside(kind)}"
    lacks = f"""
SELECT 'lacks', l.no, CAST(NULL AS bigint), CAST(NULL AS text) FROM live l CROSS JOIN {_ENTITY} c
WHERE l.explained = 0 AND c.kind = l.kind AND c.key = l.key
  AND EXISTS (SELECT 1 FROM {_ENTITY} d WHERE {_inside(kind)} AND {_not_held()})"""
    if not explained:
        return lacks
    return f"""{lacks}
UNION ALL
SELECT 'lacks', l.no, CAST(NULL AS bigint), d.kind || ':' || d.key {source} AND {_not_held()}
UNION ALL
SELECT 'total', l.no, COUNT(*), CAST(NULL AS text) {source} GROUP BY l.no"""


def _statement(ask: _Ask) -> tuple[str, list[str]]:
    """The statement with only the parts that these questions need, and its parameters: one JSON text a relation."""
    relations = {"subject": [(no, *subject) for subject, no in ask.subjects.items()]}
    if ask.places:
        relations["place"] = [(no, subject, a.kind, a.key) for (subject, a), no in ask.places.items()]
    if ask.below:
        relations["below"] = [(no, subject, a.kind, a.key) for (subject, a), no in ask.below.items()]
    if ask.live:
        ids = permission_ids()
        relations["live"] = [(no, subject, a.kind, a.key, ids[privilege], kind, int(no in ask.explained))
                             for (subject, a, privilege, kind), no in ask.live.items()]
    containers = tuple(sorted({a.kind for _, a in ask.below})), tuple(sorted({a.kind for _, a, _, _ in ask.live}))
    text = _text(connection.vendor, tuple(relations), *containers, bool(ask.explained))
    return text, [json.dumps(rows) for rows in relations.values()]


_COLUMNS = {
    "subject": "no bigint, type text, name text",
    "place": "no bigint, subject bigint, kind text, key text",
    "below": "no bigint, subject bigint, kind text, key text",
    "live": "no bigint, subject bigint, kind text, key text, permission bigint, sort text, explained bigint",
}


@cache
def _text(vendor: str, relations: tuple[str, ...], below: tuple[str, ...], live: tuple[str, ...], explained: bool) -> str:
    """The statement of that shape; there are few, and the database prepares each once."""
    selects = [_KNOWN, *([_HELD] if "place" in relations else []), *map(_below, below),
               *(_live(kind, explained) for kind in live)]
    first, *others = (_relation(vendor, name, _COLUMNS[name]) for name in relations)
    return f"WITH {', '.join([first, _WHO, *others])}\n{' UNION ALL '.join(selects)}"


def _relation(vendor: str, name: str, columns: str) -> str:
    """`name(columns)` holding the rows of a JSON parameter."""
    named = [column.split() for column in columns.split(", ")]
    if vendor == "postgresql":
        source = "jsonb_array_elements(CAST(%s AS jsonb)) AS element(value)"
        picked = ", ".join(f"CAST(value ->> {place} AS {sql_type})" for place, (_, sql_type) in enumerate(named))
    else:
        source = "json_each(%s)"
        picked = ", ".join(f"json_extract(value, '$[{place}]')" for place in range(len(named)))
    return f"{name}({', '.join(column for column, _ in named)}) AS MATERIALIZED (SELECT {picked} FROM {source})"
