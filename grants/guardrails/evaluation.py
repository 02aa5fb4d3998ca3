"""Evaluate guardrails in SQL: all of them over the whole tenant, or those that a change can affect.

One statement evaluates all guardrails of a form. Rows of all users and entities are streamed, so that memory does not
grow with the tenant. The grants that count for a user are those of `GRANT_SOURCES`.

A violation exists now, or `is_lasting`: now or at a later time, by grants and memberships that have not ended. A
change is checked with the latter, so that a period that begins later avoids no guardrail. The two privileges of
`forbid_both` then need not be held at the same time.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from heapq import merge
from itertools import chain
from typing import NamedTuple

from django.contrib.auth.models import Permission
from django.db import connection
from django.db.models import DateTimeField, F, Q, QuerySet, Value
from django.db.models.functions import Cast, Collate

from entities.address import Address
from entities.frozen import frozen
from entities.models import PATTERN, Entity, State
from entities.selectors import entities_at
from entities.vocabulary import CONTAINER_KINDS
from grants.active_generation import active_generation
from grants.bulk_rows import ROWS_PER_FETCH, chunks, database_time
from grants.evaluation.facts import gather_facts
from grants.guardrails.rules import rule_of, with_rules
from grants.holders import byte_order
from grants.models import (
    GRANT_SOURCES,
    USER,
    Belonging,
    Form,
    GrantSource,
    Guardrail,
    GuardrailClause,
    User,
    privilege_of,
)
from grants.policies.decide import is_permitted
from grants.querysets import (
    active_principal_condition,
    belongings,
    memberships_in_force,
    principal_condition,
    principal_expression,
)
from grants.validity import in_force_sql, not_over_condition, question_time

QUESTIONS_PER_BATCH = 1_000
_CLAUSE, _GUARDRAIL, _ENTITY = (model._meta.db_table for model in (GuardrailClause, Guardrail, Entity))
_USER, _MEMBERSHIP, _PERMISSION = (model._meta.db_table for model in (User, Belonging, Permission))
# the column of a grant with the place of a clause, by the kind of the clause; empty for the instance
PLACE_COLUMNS = dict(zip(CONTAINER_KINDS, ("", "namespace_id", "application_id"), strict=True))
# the same for all other kinds
ENTITY_COLUMN = "content_object_id"
_ANY_PLACE = (
    f"place.id IN (held.{ENTITY_COLUMN}, held.namespace_id, held.application_id, "
    f"(SELECT root.id FROM {_ENTITY} root WHERE root.kind = 'instance' AND root.state <> '{PATTERN}'))"
)
# the columns of the periods of a held grant, of the membership through which it counts, and of the membership in
# the group of a guardrail
_GRANT_PERIOD = "held.begins", "held.ends"
_THROUGH_PERIOD = "held.member_begins", "held.member_ends"
_MEMBER_PERIOD = "member.valid_from", "member.valid_until"


# SQL and its parameters
Statement = tuple[str, list]
# stands for the time in statements that are written once
_ANY_TIME = datetime(9999, 1, 1, tzinfo=UTC)


class Violation(NamedTuple):
    """One violation. principal, entity, privilege: empty if it is not about one; for an expected decision, the
    privilege is the operation. through: the first principal, as text, that gives the privilege.
    """

    guardrail: str
    principal: str
    entity: str
    privilege: str
    through: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The identity: another way to the same privilege is no other violation."""
        return self[:4]

    def sentence(self, verb: str = "holds") -> str:
        """What violates the guardrail, such as `user:bob holds WRITE on dataset:sales.orders through group:x`."""
        if not self.principal:
            return f"too few users hold {self.privilege} on {self.entity}"
        if not self.through:
            return f"`{self.privilege}` on {self.entity} is not decided as expected for {self.principal}"
        through = "" if self.through == self.principal else f" through {self.through}"
        return f"{self.principal} {verb} {self.privilege} on {self.entity}{through}"


@frozen
class Part:
    """The part of the tenant to evaluate; None is everything.

    guardrails, entities: primary keys. users: primary keys of users; `groups` adds the members of groups. with_dormant:
    include the grants of inactive users and on deleted entities. They count again when the user is activated or the
    entity is recreated. Only for guardrails that forbid privileges.
    """

    guardrails: Collection[int] | None = None
    users: Collection[int] | None = None
    groups: Collection[int] = ()
    entities: Collection[int] | None = None
    with_dormant: bool = False

    @property
    def is_empty(self) -> bool:
        return (
            (self.guardrails is not None and not self.guardrails)
            or (self.entities is not None and not self.entities)
            or (self.users is not None and not self.users and not self.groups)
        )


EVERYTHING = Part()


def violations(part: Part = EVERYTHING) -> Iterator[Violation]:
    """Yield all violations that exist now, sorted by their columns. Runs one statement for each form, and one for
    every QUESTIONS_PER_BATCH expected decisions.
    """
    return merge(*(violations_of_form(form, part) for form in Form))


def violations_of_form(form: Form, part: Part) -> Iterator[Violation]:
    """Yield the violations of the guardrails of one form, sorted."""
    match form:
        case Form.REQUIRE:
            return too_few(part)
        case Form.EXPECT:
            return unexpected_decisions(part)
    return forbidden_privileges(form, part)


def forbidden_privileges(form: Form, part: Part) -> Iterator[Violation]:
    """Yield the violations of the guardrails that forbid privileges, sorted. form: one of the two."""
    if statement := forbidden_statement(form, part):
        yield from violations_in(statement, part)


def violations_in(statement: Statement, part: Part | None = None) -> Iterator[Violation]:
    """Yield the violations that a statement of `forbidden_statement` finds. part: of the statement; the rows of
    all users and entities are streamed.
    """
    for row in _rows(*statement, part):
        yield violation_of(*row)


def violation_of(name: str, user: str, kind: str, key: str, permission: int, through: str) -> Violation:
    return Violation(name, f"user:{user}", f"{kind}:{key}", str(privilege_of(permission)), through)


def forbidden_statement(form: Form, part: Part, *, is_lasting: bool = False) -> Statement | None:
    """Return the statement for the violations of the guardrails that forbid privileges; None if there can be none.

    The database is read only for the places of the guardrails: the statement can be executed before and after a
    change.
    """
    if part.is_empty:
        return None
    sql, parameters = _hits(form, part, is_lasting)
    condition = ""
    if form == Form.FORBID_BOTH:
        sql = (
            "SELECT sides.*, MIN(side) OVER held_by AS first_side, MAX(side) OVER held_by AS last_side "
            f"FROM ({sql}) sides WINDOW held_by AS (PARTITION BY r, u)"
        )
        condition = "WHERE first_side <> last_side"
    sql = f"""
SELECT guardrail.name, users.username, entity.kind, entity.key, p, through FROM (
    SELECT r, u, e, p, MIN(through COLLATE "{byte_order()}") AS through FROM ({sql}) hits {condition} GROUP BY r, u, e, p
) found
JOIN {_GUARDRAIL} guardrail ON guardrail.id = found.r
JOIN {_USER} users ON users.id = found.u
JOIN {_ENTITY} entity ON entity.id = found.e
JOIN {_PERMISSION} permission ON permission.id = found.p
ORDER BY {_order_by("guardrail.name", "users.username", "entity.kind || ':' || entity.key", "permission.codename")}"""
    return sql, parameters


def too_few(part: Part = EVERYTHING) -> Iterator[Violation]:
    """Yield the entities with fewer holders than a guardrail requires, sorted."""
    if part.is_empty:
        return
    at = question_time()
    where, where_parameters = among(f"held.{ENTITY_COLUMN}", part.entities)
    if part.entities is None:
        required = GuardrailClause.objects.filter(guardrail__form=Form.REQUIRE)
        clauses = set(required.order_by().values_list("kind", "permission_id"))
        if not clauses:
            return
        of_kinds, kinds = among("held.kind", {kind for kind, _ in clauses})
        of_permissions, permissions = among("held.p", {permission for _, permission in clauses})
        where, where_parameters = f"{of_kinds} AND {of_permissions}", [*kinds, *permissions]
    entity_condition, entity_parameters = among("entity.id", part.entities)
    held, held_parameters = _union(
        _held_grants(source, at, where, where_parameters, is_lasting=False, has_states=False)
        for source in GRANT_SOURCES[USER.name]
    )
    guardrail_condition, guardrail_parameters = among("guardrail.id", part.guardrails)
    sql = f"""
SELECT guardrail.name, entity.kind, entity.key, clause.permission_id
FROM {_GUARDRAIL} guardrail
JOIN {_CLAUSE} clause ON clause.guardrail_id = guardrail.id
JOIN {_ENTITY} entity ON entity.kind = clause.kind AND entity.state IN ('{State.LIVE}', '{State.PLANNED}')
LEFT JOIN (
    SELECT {ENTITY_COLUMN}, p, COUNT(DISTINCT u) AS number FROM ({held}) held GROUP BY {ENTITY_COLUMN}, p
) holders ON holders.{ENTITY_COLUMN} = entity.id AND holders.p = clause.permission_id
WHERE guardrail.form = '{Form.REQUIRE}' AND {guardrail_condition} AND {entity_condition}
    AND COALESCE(holders.number, 0) < guardrail.at_least
ORDER BY {_order_by("guardrail.name", "entity.kind || ':' || entity.key")}"""
    parameters = [*held_parameters, *guardrail_parameters, *entity_parameters]
    for name, kind, key, permission in _rows(sql, parameters, part):
        yield Violation(name, "", f"{kind}:{key}", str(privilege_of(permission)))


def unexpected_decisions(part: Part = EVERYTHING) -> Iterator[Violation]:
    """Yield the decisions in the active generation that are not the expected ones, sorted.

    Runs one query for the generation, and three for every QUESTIONS_PER_BATCH guardrails.
    """
    if part.is_empty:
        return
    generation = active_generation().name
    rows = Guardrail.objects.filter(form=Form.EXPECT)
    if part.guardrails is not None:
        rows = rows.filter(pk__in=part.guardrails)
    names = rows.order_by(Collate("name", byte_order())).values_list("name", flat=True)
    for chunk in chunks(names.iterator(chunk_size=ROWS_PER_FETCH), QUESTIONS_PER_BATCH):
        yield from _unexpected_decisions_of(chunk, generation)


def _unexpected_decisions_of(names: Sequence[str], generation: str) -> Iterator[Violation]:
    by_name = with_rules(Guardrail.objects.filter(name__among=list(names))).in_bulk(field_name="name")
    rules = [(name, rule_of(by_name[name])) for name in names]
    questions = [rule.question(generation) for _, rule in rules]
    for (name, rule), question, facts in zip(rules, questions, gather_facts(questions), strict=True):
        if is_permitted(question, facts) != rule.decision:
            yield Violation(name, rule.principal, rule.clauses[0].place, rule.action)


def _hits(form: Form, part: Part, is_lasting: bool) -> tuple[str, list]:
    """Return the statement for the held privileges that meet a clause: guardrail, side, user, entity, privilege
    and the principal that gives it.
    """
    at = question_time()
    among_entities, entities = among(f"held.{ENTITY_COLUMN}", part.entities)
    is_affected, users = among_users("held.u", part, at, is_lasting=is_lasting)
    within = (
        _within_clauses(part) if part.guardrails is not None and part.entities is None else [("TRUE", [])]
    )
    sources = [
        _held_grants(
            source,
            at,
            f"{among_entities} AND {is_affected} AND {is_within}",
            [*entities, *users, *places],
            is_lasting=is_lasting,
            with_inactive=part.with_dormant,
            has_states=not part.with_dormant,
        )
        for source in GRANT_SOURCES[USER.name]
        for is_within, places in within
    ]
    counts, counts_parameters = _counts_sql("member", at, is_lasting)
    guardrails, guardrail_parameters = among("clause.guardrail_id", part.guardrails)
    rest_parameters = [*guardrail_parameters, *counts_parameters]

    def select(held: str, place: str) -> str:
        return f"""
SELECT clause.guardrail_id AS r, clause.side AS side, held.u AS u, held.{ENTITY_COLUMN} AS e, held.p AS p,
    held.h AS through
FROM {held}
JOIN {_ENTITY} place ON {place}
JOIN {_CLAUSE} clause ON clause.kind = place.kind AND clause.key = place.key AND clause.permission_id = held.p
JOIN {_GUARDRAIL} guardrail ON guardrail.id = clause.guardrail_id AND guardrail.form = '{form}'
WHERE {overlap_sql(_GRANT_PERIOD, _THROUGH_PERIOD)} AND {guardrails} AND (
    guardrail.group_id IS NULL OR EXISTS (
        SELECT 1 FROM {_MEMBERSHIP} member WHERE member.group_id = guardrail.group_id AND member.user_id = held.u
        AND {counts} AND {overlap_sql(_GRANT_PERIOD, _MEMBER_PERIOD)} AND {overlap_sql(_THROUGH_PERIOD, _MEMBER_PERIOD)}
    )
)"""

    if part.users is not None or part.entities is not None:
        # few grants are held, so the database reads them first, and then the clauses that contain them
        sql, parameters = _union(sources)
        materialized = "MATERIALIZED" if connection.vendor == "postgresql" else ""
        held = f"WITH held AS {materialized} ({sql}) {select('held', _ANY_PLACE)}"
        return held, [*parameters, *rest_parameters]
    selects, parameters = [], []
    for sql, source_parameters in sources:
        for column in (ENTITY_COLUMN, *PLACE_COLUMNS.values()):
            selects.append(select(f"({sql}) held", _in_place_sql(column)))
            parameters += [*source_parameters, *rest_parameters]
    return " UNION ALL ".join(selects), parameters


def among_users(column: str, part: Part, at: datetime, *, is_lasting: bool) -> tuple[str, list]:
    """Return the SQL condition that a column has one of the users of a part, or a member of its groups."""
    if part.users is None or not part.groups:
        return among(column, part.users)
    is_member, groups = among("member.group_id", part.groups)
    counts, times = _counts_sql("member", at, is_lasting)
    members = f"SELECT member.user_id FROM {_MEMBERSHIP} member WHERE {is_member} AND {counts}"
    if not part.users:
        return f"{column} IN ({members})", [*groups, *times]
    is_user, users = among("users.id", part.users)
    return (
        f"{column} IN (SELECT users.id FROM {_USER} users WHERE {is_user} OR users.id IN ({members}))",
        [*users, *groups, *times],
    )


def _within_clauses(part: Part) -> list[tuple[str, list]]:
    """Return SQL conditions of which one is true if a grant is inside a place of the guardrails, one for each index of
    grants. Runs two queries.
    """
    clauses = GuardrailClause.objects.filter(guardrail__pk__among=list(part.guardrails or ()))
    rows = set(clauses.order_by().values_list("kind", "key", "permission_id"))
    privileges, permissions = among("held.p", {permission for *_, permission in rows})
    places = {Address(kind, key) for kind, key, _ in rows}
    pks: dict[str, list[int]] = {}
    for address, entity in entities_at(places).items():
        pks.setdefault(PLACE_COLUMNS.get(address.kind, ENTITY_COLUMN), []).append(entity.pk)
    if "" in pks:
        return [(privileges, permissions)]
    arms = [among(f"held.{column}", pks[column]) for column in pks] or [("FALSE", [])]
    return [(f"{privileges} AND {within}", [*permissions, *parameters]) for within, parameters in arms]


def _in_place_sql(column: str) -> str:
    return f"place.id = held.{column}" if column else "place.kind = 'instance'"


def _held_grants(
    source: GrantSource,
    at: datetime,
    where: str,
    parameters: Sequence,
    *,
    is_lasting: bool,
    with_inactive: bool = False,
    has_states: bool = True,
) -> tuple[str, list]:
    """Return the statement for the grants that count for active users: user (u), entity and containers (the
    columns of the grant), kind of the entity, permission (p), holder (h) and periods.

    where, parameters: SQL condition on these columns of `held`. with_inactive: also those of inactive users. has_states:
    only those on live and planned entities.
    """
    sql, constants = _all_held_grants(source, is_lasting, with_inactive, has_states)
    any_time, time = database_time(_ANY_TIME), database_time(at)
    values = [time if value == any_time else value for value in constants]
    return f"SELECT * FROM ({sql}) held WHERE {where}", [*values, *parameters]


@cache
def _all_held_grants(
    source: GrantSource, is_lasting: bool, with_inactive: bool, has_states: bool
) -> tuple[str, tuple]:
    """Return the statement of `_held_grants` at _ANY_TIME. It is written once, which takes longer than executing it."""
    is_principal = principal_condition if with_inactive else active_principal_condition
    condition = is_principal(f"{source.subject}__")
    if has_states:
        condition &= Q(content_object__state__in=(State.LIVE, State.PLANNED))
    if is_lasting:
        condition &= not_over_condition(_ANY_TIME)
        if source.membership:
            path = f"{source.membership}valid_until"
            condition &= Q(**{f"{path}__isnull": True}) | Q(**{f"{path}__gt": _ANY_TIME})
    else:
        condition &= Q(**source.in_force(_ANY_TIME))
    no_time = Cast(Value(None), DateTimeField())
    rows = source.holder.held_grants.filter(condition).order_by()
    values = rows.values(
        ENTITY_COLUMN,
        "namespace_id",
        "application_id",
        u=F(source.subject),
        kind=F("entity_kind"),
        p=F("permission_id"),
        h=principal_expression(source.holder.name, source.holder.name_path),
        begins=F("valid_from"),
        ends=F("valid_until"),
        member_begins=F(f"{source.membership}valid_from") if source.membership else no_time,
        member_ends=F(f"{source.membership}valid_until") if source.membership else no_time,
    )
    return values.query.sql_with_params()


def memberships_among(groups: Collection[int], *, is_lasting: bool) -> QuerySet:
    """Return the memberships of these groups that count."""
    rows = belongings().filter(not_over_condition(question_time())) if is_lasting else memberships_in_force()
    return rows.filter(group__pk__among=list(groups))


def _union(selects: Iterable[tuple[str, list]]) -> tuple[str, list]:
    pairs = list(selects)
    return " UNION ALL ".join(sql for sql, _ in pairs), list(chain.from_iterable(row for _, row in pairs))


def _counts_sql(alias: str, at: datetime, is_lasting: bool) -> tuple[str, list]:
    """Return the SQL condition that a membership counts."""
    time = database_time(at)
    if is_lasting:
        return f"({alias}.valid_until IS NULL OR {alias}.valid_until > %s)", [time]
    return in_force_sql(alias, "%s"), [time, time]


def overlap_sql(one: tuple[str, str], other: tuple[str, str]) -> str:
    """Return the SQL condition that two periods overlap. Three periods of which each two overlap have a common
    time, so that comparing pairs is enough.
    """
    (begins, ends), (other_begins, other_ends) = one, other
    return (
        f"({begins} IS NULL OR {other_ends} IS NULL OR {begins} < {other_ends}) AND "
        f"({other_begins} IS NULL OR {ends} IS NULL OR {other_begins} < {ends})"
    )


def among(column: str, keys: Collection[int] | Collection[str] | None) -> tuple[str, list]:
    """Return the SQL condition that a column has one of these values, such as primary keys; true for None."""
    if keys is None:
        return "TRUE", []
    if connection.vendor == "postgresql":
        return f"{column} = ANY(%s)", [list(keys)]
    return f"{column} IN (SELECT value FROM json_each(%s))", [json.dumps(list(keys))]


def _order_by(*columns: str) -> str:
    return ", ".join(f'{column} COLLATE "{byte_order()}"' for column in columns)


def _rows(sql: str, parameters: Sequence, part: Part | None) -> Iterator[tuple]:
    """Yield the rows of a statement. Those of all users and entities are read with a cursor of the server."""
    is_unbounded = part is not None and part.users is None and part.entities is None
    with connection.chunked_cursor() if is_unbounded else connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        while rows := cursor.fetchmany(ROWS_PER_FETCH):
            yield from rows
