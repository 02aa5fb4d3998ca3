"""Gather the facts of any number of questions with one SQL statement.

The questions are turned into small relations of lookups: subjects, addresses, containers in which any grant
counts, and containers with live entities. The leaves of the requirement of a question determine its lookups.

The statement joins these relations to the grants. It contains no rules. Questions need only a few variants of it, so
the database prepares each variant once. The input relations are values or one JSON text. The result rows are (name of
the lookup, number of the lookup, a count, a string). Only grants and memberships that are in force at the time of the
question count. Each relation has this time as a column. Each lookup is a subquery that ends in LIMIT, which no query
planner turns into a join. Every lookup therefore reads an index, and the plan for one question is also good for a
thousand.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from types import MappingProxyType

from django.db import connection

from entities.address import Address
from entities.frozen import frozen
from entities.models import PATTERN, Entity, State
from entities.patterns import matches_sql, reveals_sql
from entities.vocabulary import CONTAINER_KINDS, KIND_ORDER, Privilege
from grants.bulk_rows import database_time
from grants.evaluation.raw_statement import fetch_rows
from grants.models import (
    GRANT_SOURCES,
    PRINCIPAL_TYPES,
    GrantSource,
    permission_ids,
    privilege_of,
)
from grants.policies.decide import EntitiesWithoutPrivilege, Facts, HeldGrant, HolderName
from grants.policies.grammar import FactsRead
from grants.policies.principals import principal_sql
from grants.policies.question import Question
from grants.validity import in_force_sql, question_time

NOTHING_HELD: Mapping[Privilege, str] = MappingProxyType({})
NOTHING_MISSING = EntitiesWithoutPrivilege(is_empty=True)


@dataclass(slots=True)
class _Lookups:
    """The lookups of one statement, each with its number. Equal lookups of several questions have one number.

    subjects: (type, name). held: (subject, address), to find grants on exactly the address.
    below: (subject, container), to find a grant on or inside the container.
    live: (subject, container, privilege, kind or ""), to find live entities inside the container without the
    privilege.
    explained: the numbers of the `live` lookups that need all these entities, and not only whether there is
    one.
    """

    subjects: dict[tuple[str, str], int] = field(default_factory=dict)
    held: dict[tuple[int, Address], int] = field(default_factory=dict)
    below: dict[tuple[int, Address], int] = field(default_factory=dict)
    live: dict[tuple[int, Address, Privilege, str], int] = field(default_factory=dict)
    explained: set[int] = field(default_factory=set)


def _number(relation: dict, row: tuple) -> int:
    return relation.setdefault(row, len(relation))


@dataclass(slots=True)
class _Results:
    """The result rows of the statement, by the number of their lookup (see `_Lookups`).

    is_explained: whether the texts contain principals and entities. known: the subjects that exist and are
    active.
    held: the privileges as text. below: one grant as text.
    missing: the live entities without the privilege. totals: the number of live entities.
    parsed: a cache of parsed texts of `held`.
    """

    is_explained: bool
    known: set[int] = field(default_factory=set)
    held: dict[int, str] = field(default_factory=dict)
    below: dict[int, str] = field(default_factory=dict)
    missing: dict[int, list[Address]] = field(default_factory=dict)
    totals: dict[int, int] = field(default_factory=dict)
    parsed: dict[str, Mapping[Privilege, str]] = field(default_factory=dict)

    def privileges(self, text: str) -> Mapping[Privilege, str]:
        """Parse a list of privileges without principals.

        Only a few dozen different lists exist, so each is parsed once.
        """
        if (privileges := self.parsed.get(text)) is None:
            privileges = self.parsed[text] = {
                privilege_of(int(permission)): "" for permission in text.split()
            }
        return privileges


class QuestionFacts:
    """The facts of one question; see `grants.policies.decide.Facts`."""

    __slots__ = ("_lookups", "_results", "_subject", "is_subject_known")

    def __init__(self, lookups: _Lookups, results: _Results, subject: int):
        self._lookups, self._results, self._subject = lookups, results, subject
        self.is_subject_known = subject in results.known

    def privileges_on(self, address: Address) -> Mapping[Privilege, str]:
        text = self._results.held.get(self._lookups.held[self._subject, address])
        if text is None:
            return NOTHING_HELD
        return (
            _principals_by_privilege(text) if self._results.is_explained else self._results.privileges(text)
        )

    def has_grant_at_or_below(self, address: Address) -> bool:
        if address.kind in CONTAINER_KINDS:
            return self._lookups.below[self._subject, address] in self._results.below
        return bool(self.privileges_on(address))

    def grant_at_or_below(self, address: Address) -> HeldGrant | None:
        if address.kind in CONTAINER_KINDS:
            text = self._results.below.get(self._lookups.below[self._subject, address])
            return None if text is None else _grant_from_text(text)
        for privilege, principal in self.privileges_on(address).items():
            return HeldGrant.of(principal, address, privilege)
        return None

    def entities_without_privilege(
        self, address: Address, privilege: Privilege, kind: str | None
    ) -> EntitiesWithoutPrivilege:
        number = self._lookups.live.get((self._subject, address, privilege, kind or ""), -1)
        total, addresses = self._results.totals.get(number, 0), self._results.missing.get(number)
        if addresses is None:
            return EntitiesWithoutPrivilege(True, total) if total else NOTHING_MISSING
        return EntitiesWithoutPrivilege(False, total, tuple(addresses))


@frozen
class DelegatedFacts:
    """The facts of one question, for subclasses that find the entities without a privilege in their own way.

    They add `entities_without_privilege`; see `grants.policies.decide.Facts`.
    """

    facts: Facts

    @property
    def is_subject_known(self) -> bool:
        return self.facts.is_subject_known

    def privileges_on(self, address: Address) -> Mapping[Privilege, str]:
        return self.facts.privileges_on(address)

    def has_grant_at_or_below(self, address: Address) -> bool:
        return self.facts.has_grant_at_or_below(address)

    def grant_at_or_below(self, address: Address) -> HeldGrant | None:
        return self.facts.grant_at_or_below(address)


def gather_facts(
    questions: Sequence[Question],
    *,
    explained: bool = False,
    with_live: bool = True,
    empty: Collection[Address] = (),
) -> list[QuestionFacts]:
    """Return the facts of each question, in order. Runs one query for any number of questions.

    explained: gather the facts for an explanation of every question, not only of those with `explain`.
    with_live: gather the facts for rules over all live entities. A caller that sets it to False provides
        `entities_without_privilege`.
    empty: containers that rules over all live entities find empty, without looking inside.
    """
    lookups = _Lookups()
    numbers = [
        _collect_lookups(
            lookups, question, explained or question.explain, with_live and question.target not in empty
        )
        for question in questions
    ]
    results = _execute_lookups(lookups, explained or any(question.explain for question in questions))
    return [QuestionFacts(lookups, results, number) for number in numbers]


def _collect_lookups(lookups: _Lookups, question: Question, explained: bool, with_live: bool) -> int:
    """Add the lookups of the question. Return the number of its subject; -1 if the question has no target."""
    target, policy = question.target, question.policy
    if target is None:
        return -1
    subject = _number(lookups.subjects, (question.subject_type, question.subject))
    if policy is None or policy.requirement is None:
        return subject
    read = FactsRead(policy.requirement)
    for leaf in read.held:
        address = question.address_at(leaf.scope)
        if address is not None:
            _number(lookups.held, (subject, address))
    if read.is_at_or_below:
        _number(lookups.below if target.kind in CONTAINER_KINDS else lookups.held, (subject, target))
    for all_live in read.all_live if with_live else ():
        number = _number(lookups.live, (subject, target, all_live.privilege, all_live.kind or ""))
        if explained:
            lookups.explained.add(number)
    return subject


def _execute_lookups(lookups: _Lookups, explained: bool) -> _Results:
    results = _Results(explained)
    if not lookups.subjects:
        return results
    text, parameters = _statement(lookups, explained)
    _store_rows(results, lookups, fetch_rows(text, parameters))
    for addresses in results.missing.values():
        addresses.sort(key=_address_order)
    return results


def _store_rows(results: _Results, lookups: _Lookups, rows: list[tuple]) -> None:
    held_lookups, below_lookups = list(lookups.held), list(lookups.below)
    known, held = results.known, results.held
    for lookup, number, count, text in rows:
        match lookup:
            case "held":
                known.add(held_lookups[number][0])
                # if there is no privilege, PostgreSQL returns NULL, and SQLite an empty array
                if text is not None and text != "[]":
                    held[number] = text
            case "known":
                known.add(number)
            case "below":
                known.add(below_lookups[number][0])
                if text is not None:
                    results.below[number] = text
            case "missing":
                addresses = results.missing.setdefault(number, [])
                if text is not None:
                    addresses.append(_address_from_text(text))
            case "total":
                results.totals[number] = count


def _principals_by_privilege(text: str) -> Mapping[Privilege, str]:
    """Return one holder of each privilege. The grant that ends last counts first. If several end last, a grant without
    a pattern counts first.
    """
    principals: dict[Privilege, HolderName] = {}
    for permission, principal, pattern, *ends in json.loads(text):
        holder, privilege = HolderName(principal, _first_end(ends), pattern or ""), privilege_of(permission)
        known = principals.setdefault(privilege, holder)
        if _rank(holder) > _rank(known):
            principals[privilege] = holder
    return principals


def _rank(holder: HolderName) -> tuple[bool, datetime | None, bool]:
    # two ends are compared only if both grants end
    return holder.valid_until is None, holder.valid_until, not holder.pattern


def _grant_from_text(text: str) -> HeldGrant:
    permission, address, pattern, grant_end, membership_end, principal = text.split(" ", 5)
    end = _first_end(end for end in (grant_end, membership_end) if end != NONE)
    entity, privilege = _address_from_text(address), privilege_of(int(permission))
    # a grant that only shows a container is on the pattern itself
    return HeldGrant(principal, entity, privilege, end, "" if pattern in (NONE, address) else pattern)


def _first_end(texts: Iterable[str | None]) -> datetime | None:
    """Return the earlier of the ends of a grant and a membership. None means no end."""
    ends = (datetime.fromisoformat(text) for text in texts if text is not None)
    # SQLite has no time zones: all its times are in UTC
    return min((end if end.tzinfo else end.replace(tzinfo=UTC) for end in ends), default=None)


def _address_from_text(text: str) -> Address:
    kind, _, key = text.partition(":")
    return Address(kind, key)


def _address_order(address: Address) -> tuple[int, str]:
    return KIND_ORDER.get(address.kind, len(KIND_ORDER)), address.key


def _statement(lookups: _Lookups, explained: bool) -> tuple[str, list]:
    """Return the statement for these lookups, and its parameters."""
    relations, parameters, at = [], [], database_time(question_time())
    for (subject_type, lookup), rows in _relation_rows(lookups).items():
        is_few = len(rows) <= FEW_ROWS
        parameters += chain.from_iterable(rows) if is_few else [json.dumps(rows)]
        parameters.append(at)
        kinds = tuple(sorted({row[2] for row in rows})) if lookup in ("below", "live") else ()
        relations.append(Relation(subject_type, lookup, len(rows) if is_few else 0, kinds))
    return statement(connection.vendor, tuple(relations), explained), parameters


def _relation_rows(lookups: _Lookups) -> dict[tuple[str, str], list[tuple]]:
    """Return the rows of each relation, by type of the subject and name of the lookup."""
    relations: dict[tuple[str, str], list[tuple]] = {}
    subjects = list(lookups.subjects)
    # subjects that are in no other relation need a row of their own, which shows whether they are known
    remaining = set(range(len(subjects)))
    for lookup, numbers in (("held", lookups.held), ("below", lookups.below)):
        for (subject, address), number in numbers.items():
            subject_type, name = subjects[subject]
            relations.setdefault((subject_type, lookup), []).append((number, name, address.kind, address.key))
            remaining.discard(subject)
    ids = permission_ids() if lookups.live else {}
    for (subject, address, privilege, kind), number in lookups.live.items():
        subject_type, name = subjects[subject]
        row = (
            number,
            name,
            address.kind,
            address.key,
            ids[privilege],
            kind,
            int(number in lookups.explained),
        )
        relations.setdefault((subject_type, "live"), []).append(row)
    for subject in sorted(remaining):
        subject_type, name = subjects[subject]
        relations.setdefault((subject_type, "known"), []).append((subject, name))
    return relations


_ENTITY = Entity._meta.db_table

# Sorts after the names of all kinds: these begin with letters, and the column sorts by bytes on every
# database
# (entities.migrations.0002_byte_order).
_AFTER_ALL_KINDS = "~"

# The type of the time of the question. SQLite compares times as texts.
_TIME_TYPES = {"postgresql": "timestamptz", "sqlite": "text"}

# stands for a missing pattern, or for the missing end of a validity, in a text
NONE = "-"

# Up to this many rows are passed as values, because parsing JSON would take longer than the lookups.
FEW_ROWS = 4
_SUBJECT_AND_ADDRESS = {"no": "bigint", "name": "text", "kind": "text", "key": "text"}
_COLUMNS = {
    "known": {"no": "bigint", "name": "text"},
    "held": _SUBJECT_AND_ADDRESS,
    "below": _SUBJECT_AND_ADDRESS,
    "live": {**_SUBJECT_AND_ADDRESS, "permission": "bigint", "sort": "text", "explained": "bigint"},
}


@frozen
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


_IN_FORCE = in_force_sql("g", "a.at")
# an address that is not registered has no derived grants, so its patterns are compared
_IS_UNREGISTERED = f"a.entity_id IS NULL AND g.pattern_id IS NULL AND p.state = '{PATTERN}'"
_PATTERN = f"(SELECT p.kind || ':' || p.key FROM {_ENTITY} p WHERE p.id = g.pattern_id)"


@frozen
class _GrantPath:
    """The SQL of a source of grants: a way in which a grant `g` is effective for the subject of lookup `a`.

    is_effective: the condition that `g` is effective. principal: an expression for the holder.
    membership_end: an expression for the end of the membership through which the grant is effective.
    """

    source: GrantSource

    @property
    def table(self) -> str:
        return self.source.holder.grant_model._meta.db_table

    @property
    def memberships(self) -> str:
        """The memberships of the subject that are in force."""
        table = self.source.memberships.model._meta.db_table
        is_in_force = in_force_sql("m", "a.at")
        return f"{table} m WHERE m.{self.source.member_column} = a.subject_id AND {is_in_force}"

    @property
    def membership_in_holder(self) -> str:
        return f"{self.memberships} AND m.{self.source.group_column} = g.group_id"

    @property
    def is_effective(self) -> str:
        if self.source.membership:
            return f"{_IN_FORCE} AND (SELECT 1 FROM {self.membership_in_holder} LIMIT 1) IS NOT NULL"
        return f"g.{self.source.holder.id_column} = a.subject_id AND {_IN_FORCE}"

    @property
    def principal(self) -> str:
        holder, name = self.source.holder, "a.name"
        if self.source.membership:
            table = holder.model._meta.db_table
            name = f"(SELECT t.{holder.name_column} FROM {table} t WHERE t.id = g.{holder.id_column})"
        return principal_sql(holder.name, name)

    @property
    def membership_end(self) -> str:
        if not self.source.membership:
            # without a type, PostgreSQL takes NULL for a text
            return "CAST(NULL AS timestamptz)"
        # a user can be in a role in several ways: the membership that ends last counts
        last = "ORDER BY m.valid_until IS NULL DESC, m.valid_until DESC LIMIT 1"
        return f"(SELECT m.valid_until FROM {self.membership_in_holder} {last})"

    @property
    def grants_on_patterns(self) -> str:
        return f"{self.table} g JOIN {_ENTITY} p ON p.id = g.content_object_id"

    def any_grant(self, condition: str, expression: str) -> str:
        """Return a scalar subquery for `expression` of any one grant that meets `condition`."""
        if not self.source.membership:
            return (
                f"(SELECT {expression} FROM {self.table} g WHERE {self.is_effective} AND {condition} LIMIT 1)"
            )
        # start at the memberships: a container has far more grants than a user has groups
        of_group = (
            f"(SELECT {expression} FROM {self.table} g WHERE g.group_id = m.{self.source.group_column} "
            f"AND {_IN_FORCE} AND {condition} LIMIT 1)"
        )
        return f"(SELECT {of_group} FROM {self.memberships} AND {of_group} IS NOT NULL LIMIT 1)"

    def inactive_grants(self, lookups: str, no_time: str) -> str:
        """Select the grants on exactly the addresses of the lookups that are not in force."""
        holder_id, membership, period, is_effective = "a.subject_id", "", f"{no_time}, {no_time}", _IN_FORCE
        if self.source.membership:
            table, member = self.source.memberships.model._meta.db_table, self.source.member_column
            holder_id, membership = (
                f"m.{self.source.group_column}",
                f"JOIN {table} m ON m.{member} = a.subject_id ",
            )
            period = "m.valid_from, m.valid_until"
            is_effective += f" AND {in_force_sql('m', 'a.at')}"
        return (
            f"SELECT a.no, g.permission_id, {self.principal}, g.valid_from, g.valid_until, {period} "
            f"FROM {lookups} a {membership}JOIN {self.table} g ON g.{self.source.holder.id_column} = {holder_id} "
            f"AND g.content_object_id = a.entity_id WHERE NOT ({is_effective})"
        )


# by type of the subject
_PATHS = {name: tuple(map(_GrantPath, sources)) for name, sources in GRANT_SOURCES.items()}


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
    no_time = f"CAST(NULL AS {_TIME_TYPES[vendor]})"
    selects = [
        path.inactive_grants(relation.name, no_time)
        for relation in relations
        for path in _PATHS[relation.subject_type]
    ]
    return f"WITH {', '.join(tables)}\n{' UNION ALL '.join(selects)}"


def _relation_select(vendor: str, relation: Relation) -> str:
    """Select the rows of a relation with the ids of subject and entity.

    An id is NULL if the subject or entity is unknown.
    """
    subjects, columns = PRINCIPAL_TYPES[relation.subject_type], ", ".join(_COLUMNS[relation.lookup])
    where = " AND ".join([f"s.{subjects.name_column} = r.name", *(f"s.{name}" for name in subjects.active)])
    keys = [f"(SELECT s.id FROM {subjects.model._meta.db_table} s WHERE {where} LIMIT 1) AS subject_id"]
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
    paths, source = _PATHS[relation.subject_type], f"{relation.name} a WHERE a.subject_id IS NOT NULL"
    match relation.lookup:
        case "known":
            yield _row("known", "NULL", source)
        case "held":
            yield _row("held", _held_privileges(vendor, paths, explained), source)
        case "below":
            for kind in relation.kinds:
                yield _row("below", _grant_below(paths, kind, explained), f"{source} AND a.kind = '{kind}'")
        case "live":
            for kind in relation.kinds:
                yield from _entities_without_privilege(paths, kind, relation.name, explained)


def _row(lookup: str, text: str, source: str, count: str = "NULL") -> str:
    return f"\nSELECT '{lookup}', a.no, CAST({count} AS bigint), CAST({text} AS text) FROM {source}"


def _held_privileges(vendor: str, paths: tuple[_GrantPath, ...], explained: bool) -> str:
    """Return a subquery for the privileges held on exactly the address, as text; NULL if there are none."""
    grants = " UNION ALL ".join(
        f"SELECT g.permission_id{_explained_columns(path, pattern) if explained else ''} FROM {source} "
        f"WHERE {condition} AND {path.is_effective}"
        for path in paths
        for source, condition, pattern in (
            (f"{path.table} g", "g.content_object_id = a.entity_id", _PATTERN),
            (
                path.grants_on_patterns,
                f"{_IS_UNREGISTERED} AND {matches_sql('p', 'a')}",
                "p.kind || ':' || p.key",
            ),
        )
    )
    return f"(SELECT {_AGGREGATES[vendor, explained]} FROM ({grants}) h)"


def _explained_columns(path: _GrantPath, pattern: str) -> str:
    return (
        f", {path.principal} AS principal, {pattern} AS pattern, g.valid_until AS grant_end, "
        f"{path.membership_end} AS membership_end"
    )


# JSON if principals are included, because the name of a group may contain any character
_AGGREGATES = {
    ("postgresql", False): "string_agg(CAST(h.permission_id AS text), ' ')",
    ("sqlite", False): "group_concat(h.permission_id, ' ')",
    (
        "postgresql",
        True,
    ): "json_agg(json_build_array(h.permission_id, h.principal, h.pattern, h.grant_end, h.membership_end))",
    (
        "sqlite",
        True,
    ): "json_group_array(json_array(h.permission_id, h.principal, h.pattern, h.grant_end, h.membership_end))",
}


def _grant_below(paths: tuple[_GrantPath, ...], kind: str, explained: bool) -> str:
    """Return an expression for one grant on or inside a container, as text; NULL if there is none.

    The principal is last in the text, because its name may contain spaces.
    """
    inside, held = f"g.{kind}_id = a.entity_id", "'held'"
    grants = ", ".join(
        path.any_grant(inside, _grant_as_text(path, _PATTERN) if explained else held) for path in paths
    )
    by_pattern = f"{_IS_UNREGISTERED} AND ({matches_sql('p', 'a')} OR {reveals_sql('p', 'a')})"
    on_patterns = ", ".join(
        f"(SELECT {_grant_as_text(path, 'NULL') if explained else held} FROM {path.grants_on_patterns} "
        f"WHERE {by_pattern} AND {path.is_effective} LIMIT 1)"
        for path in paths
    )
    return f"COALESCE({grants}, {on_patterns})"


def _grant_as_text(path: _GrantPath, pattern: str) -> str:
    entity = f"(SELECT d.kind || ':' || d.key FROM {_ENTITY} d WHERE d.id = g.content_object_id)"
    ends = " || ' ' || ".join(
        f"COALESCE(replace(CAST({end} AS text), ' ', 'T'), '{NONE}')"
        for end in ("g.valid_until", path.membership_end)
    )
    pattern = f"COALESCE({pattern}, '{NONE}')"
    return f"CAST(g.permission_id AS text) || ' ' || {entity} || ' ' || {pattern} || ' ' || {ends} || ' ' || {path.principal}"


def _entities_without_privilege(
    paths: tuple[_GrantPath, ...], kind: str, source: str, explained: bool
) -> Iterator[str]:
    """Select whether there is a live entity in a container without the privilege.

    For an explanation, select all these entities, and the number of live entities.
    """
    # a range of one kind or of all kinds, because each range is a contiguous part of the index
    sort = f"d.kind >= a.sort AND d.kind <= CASE a.sort WHEN '' THEN '{_AFTER_ALL_KINDS}' ELSE a.sort END"
    inside = f"d.{kind}_id = a.entity_id AND d.id <> a.entity_id AND d.state = '{State.LIVE}' AND {sort}"
    is_missing = " AND ".join(
        f"(SELECT 1 FROM {path.table} g WHERE g.content_object_id = d.id AND g.permission_id = a.permission "
        f"AND {path.is_effective} LIMIT 1) IS NULL"
        for path in paths
    )
    where = f"a.subject_id IS NOT NULL AND a.kind = '{kind}'"
    exists = f"(SELECT 1 FROM {_ENTITY} d WHERE {inside} AND {is_missing} LIMIT 1) IS NOT NULL"
    yield _row("missing", "NULL", f"{source} a WHERE {where} AND a.explained = 0 AND {exists}")
    if explained:
        live_entities = f"{source} a CROSS JOIN {_ENTITY} d WHERE {where} AND a.explained = 1 AND {inside}"
        yield _row("missing", "d.kind || ':' || d.key", f"{live_entities} AND {is_missing}")
        yield _row("total", "NULL", f"{live_entities} GROUP BY a.no", count="COUNT(*)")
