"""Evaluate guardrails in SQL: all of them over the whole tenant, or those that a change can affect.

One statement evaluates all guardrails of a form. Rows of all users and entities are streamed, so that memory does not
grow with the tenant. The grants that count for a user are those of `GRANT_SOURCES`.

A violation exists now, or `is_lasting`: now or at a later time, by grants and memberships that have not ended. A
change is checked with the latter, so that a period that begins later avoids no guardrail. The two privileges of
`forbid_both` then need not be held at the same time.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import chain
from typing import NamedTuple

from django.contrib.auth.models import Permission
from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import DateTimeField, F, Q, QuerySet, Value
from django.db.models.functions import Cast, Collate

from entities.address import Address
from entities.models import Entity, State
from entities.selectors import entities_at
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
# from the columns of a held grant to the place of a clause that contains its entity
_PLACES = (
    "place.id = held.e",
    "place.id = held.in_namespace",
    "place.id = held.in_application",
    "place.kind = 'instance'",
)
_ANY_PLACE = (
    "place.id IN (held.e, held.in_namespace, held.in_application, "
    f"(SELECT root.id FROM {_ENTITY} root WHERE root.kind = 'instance'))"
)
# the columns of the periods of a held grant, of the membership through which it counts, and of the membership in
# the group of a guardrail
_GRANT_PERIOD = "held.begins", "held.ends"
_THROUGH_PERIOD = "held.member_begins", "held.member_ends"
_MEMBER_PERIOD = "member.valid_from", "member.valid_until"


# SQL and its parameters
Statement = tuple[str, list]


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


@dataclass(frozen=True, slots=True)
class Part:
    """The part of the tenant to evaluate; None is everything.

    guardrails, clauses: primary keys. users: primary keys of users; `groups` adds the members of groups. entities:
    primary keys. outside: primary keys of entities that are left out. with_dormant: include the grants of inactive users
    and on deleted entities. They count again when the user is activated or the entity is recreated. Only for guardrails
    that forbid privileges.
    """

    guardrails: Collection[int] | None = None
    users: Collection[int] | None = None
    groups: Collection[int] = ()
    entities: Collection[int] | None = None
    clauses: Collection[int] | None = None
    outside: Collection[int] = ()
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


def violations_of_form(form: Form, part: Part = EVERYTHING) -> Iterator[Violation]:
    """Yield the violations of the guardrails of one form, sorted."""
    match form:
        case Form.REQUIRE:
            return too_few(part)
        case Form.EXPECT:
            return unexpected_decisions(part)
    return forbidden_privileges(form, part)


def forbidden_privileges(form: Form, part: Part = EVERYTHING) -> Iterator[Violation]:
    """Yield the violations of the guardrails that forbid privileges, sorted. form: one of the two."""
    if statement := forbidden_statement(form, part):
        yield from violations_in(statement, part)


def violations_in(statement: Statement, part: Part | None = None) -> Iterator[Violation]:
    """Yield the violations that a statement of `forbidden_statement` finds. part: of the statement; the rows of
    all users and entities are streamed.
    """
    for row in _rows(*statement, part):
        yield _violation(*row)


def _violation(name: str, user: str, kind: str, key: str, permission: int, through: str) -> Violation:
    return Violation(name, f"user:{user}", f"{kind}:{key}", str(privilege_of(permission)), through)


def forbidden_statement(form: Form, part: Part, *, is_lasting: bool = False) -> Statement | None:
    """Return the statement for the violations of the guardrails that forbid privileges; None if there can be none.

    The database is read only for the places of the guardrails: the statement can be executed before and after a
    change.
    """
    if part.is_empty:
        return None
    try:
        sql, parameters = _hits((form,), part, is_lasting)
    except EmptyResultSet:
        # no grant can be in a place of these guardrails
        return None
    if form == Form.FORBID_BOTH:
        sql = (
            "SELECT sides.*, MIN(side) OVER held_by AS first_side, MAX(side) OVER held_by AS last_side "
            f"FROM ({sql}) sides WINDOW held_by AS (PARTITION BY r, u)"
        )
    condition = "WHERE first_side <> last_side" if form == Form.FORBID_BOTH else ""
    sql = f"""{_named_hits(sql, condition)}
ORDER BY {_order_by("guardrail.name", "users.username", "entity.kind || ':' || entity.key", "permission.codename")}"""
    return sql, parameters


def _named_hits(hits: str, condition: str = "", columns: Sequence[str] = ()) -> str:
    """Return the statement for hits with names, and with the first way to each. columns: more columns of the hits, which
    are returned before the primary keys of guardrail and user.
    """
    more, through = "".join(f", {column}" for column in columns), f'MIN(through COLLATE "{byte_order()}")'
    keys = "".join(f", found.{column}" for column in (*columns, "r", "u")) if columns else ""
    return f"""
SELECT guardrail.name, users.username, entity.kind, entity.key, p, through{keys} FROM (
    SELECT r, u, e, p, {through} AS through{more} FROM ({hits}) hits {condition} GROUP BY r, u, e, p{more}
) found
JOIN {_GUARDRAIL} guardrail ON guardrail.id = found.r
JOIN {_USER} users ON users.id = found.u
JOIN {_ENTITY} entity ON entity.id = found.e
JOIN {_PERMISSION} permission ON permission.id = found.p"""


class Hit(NamedTuple):
    """A held privilege that meets a clause of a guardrail. guardrail, user: primary keys. violation: for the first of
    two privileges, as if the other one were held too.
    """

    guardrail: int
    side: int
    user: int
    form: str
    violation: Violation

    @property
    def key(self) -> tuple:
        """The identity: another way to the same privilege is no other hit."""
        return *self[:3], self.violation.key


def lasting_hits(part: Part) -> dict[tuple, Hit]:
    """Return the hits of the guardrails that forbid privileges, by their key. part: of few users and entities.

    Runs one query.
    """
    if part.is_empty:
        return {}
    sql, parameters = _hits((Form.FORBID, Form.FORBID_BOTH), part, is_lasting=True)
    hits = {}
    for *names, side, form, guardrail, user in _rows(
        _named_hits(sql, columns=("side", "form")), parameters, part
    ):
        hit = Hit(guardrail, side, user, form, _violation(*names))
        hits[hit.key] = hit
    return hits


def held_sides(part: Part) -> set[tuple[int, int, int]]:
    """Return which of two privileges users hold now or later: guardrail, side and user. part: of few users.

    Runs three queries.
    """
    if part.is_empty:
        return set()
    try:
        sql, parameters = _hits((Form.FORBID_BOTH,), part, is_lasting=True)
    except EmptyResultSet:
        return set()
    return set(_rows(f"SELECT DISTINCT r, side, u FROM ({sql}) hits", parameters, part))


def too_few(part: Part = EVERYTHING) -> Iterator[Violation]:
    """Yield the entities with fewer holders than a guardrail requires, sorted."""
    if part.is_empty:
        return
    at = question_time()
    required = GuardrailClause.objects.filter(guardrail__form=Form.REQUIRE)
    kinds, permissions = _distinct(required, "kind"), _distinct(required, "permission_id")
    if not kinds:
        return
    where: dict = {"entity_kind__in": kinds, "permission_id__in": permissions}
    entity_condition, entity_parameters = _among("entity.id", part.entities)
    if part.entities is not None:
        where["content_object__pk__among"] = list(part.entities)
    held, held_parameters = _union(
        _held_grants(source, at, Q(**where), is_lasting=False) for source in GRANT_SOURCES[USER.name]
    )
    guardrail_condition, guardrail_parameters = _among("guardrail.id", part.guardrails)
    sql = f"""
SELECT guardrail.name, entity.kind, entity.key, clause.permission_id
FROM {_GUARDRAIL} guardrail
JOIN {_CLAUSE} clause ON clause.guardrail_id = guardrail.id
JOIN {_ENTITY} entity ON entity.kind = clause.kind AND entity.state <> '{State.DELETED}'
LEFT JOIN (
    SELECT e, p, COUNT(DISTINCT u) AS number FROM ({held}) held GROUP BY e, p
) holders ON holders.e = entity.id AND holders.p = clause.permission_id
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


def _hits(forms: Collection[Form], part: Part, is_lasting: bool) -> tuple[str, list]:
    """Return the statement for the held privileges that meet a clause: guardrail, form, side, user, entity, privilege
    and the principal that gives it.
    """
    at = question_time()
    where: dict = {} if part.with_dormant else {"content_object__state__in": (State.LIVE, State.PLANNED)}
    if part.entities is not None:
        where["content_object__pk__among"] = list(part.entities)
    is_outside = ~Q(content_object__pk__among=list(part.outside)) if part.outside else Q()
    within = _within_clauses(part) if part.guardrails is not None and part.entities is None else (Q(),)
    sources = []
    for source in GRANT_SOURCES[USER.name]:
        users = {} if part.users is None else {f"{source.subject}__in": _users(part, is_lasting)}
        sources += [
            _held_grants(
                source,
                at,
                Q(**where, **users) & is_outside & is_within,
                is_lasting=is_lasting,
                with_inactive=part.with_dormant,
            )
            for is_within in within
        ]
    counts, counts_parameters = _counts_sql("member", at, is_lasting)
    guardrails, guardrail_parameters = _among("clause.guardrail_id", part.guardrails)
    clauses, clause_parameters = _among("clause.id", part.clauses)
    rest_parameters = [*guardrail_parameters, *clause_parameters, *counts_parameters]
    names = ", ".join(f"'{form}'" for form in forms)

    def select(held: str, place: str) -> str:
        return f"""
SELECT clause.guardrail_id AS r, guardrail.form AS form, clause.side AS side, held.u AS u, held.e AS e, held.p AS p,
    held.h AS through
FROM {held}
JOIN {_ENTITY} place ON {place}
JOIN {_CLAUSE} clause ON clause.kind = place.kind AND clause.key = place.key AND clause.permission_id = held.p
JOIN {_GUARDRAIL} guardrail ON guardrail.id = clause.guardrail_id AND guardrail.form IN ({names})
WHERE {_overlap(_GRANT_PERIOD, _THROUGH_PERIOD)} AND {guardrails} AND {clauses} AND (
    guardrail.group_id IS NULL OR EXISTS (
        SELECT 1 FROM {_MEMBERSHIP} member WHERE member.group_id = guardrail.group_id AND member.user_id = held.u
        AND {counts} AND {_overlap(_GRANT_PERIOD, _MEMBER_PERIOD)} AND {_overlap(_THROUGH_PERIOD, _MEMBER_PERIOD)}
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
        for place in _PLACES:
            selects.append(select(f"({sql}) held", place))
            parameters += [*source_parameters, *rest_parameters]
    return " UNION ALL ".join(selects), parameters


def _users(part: Part, is_lasting: bool) -> QuerySet:
    """Return the users of a part, and the members of its groups."""
    condition = Q(pk__among=list(part.users or ()))
    if part.groups:
        members = memberships_among(part.groups, is_lasting=is_lasting)
        condition |= Q(pk__in=members.values("user_id"))
    return User.objects.filter(condition).values("pk")


def _within_clauses(part: Part) -> tuple[Q, ...]:
    """Return conditions of which one is true if a grant is inside a place of the guardrails, one for each index of
    grants. Runs two queries.
    """
    clauses = GuardrailClause.objects.filter(guardrail__pk__among=list(part.guardrails or ())).order_by()
    if part.clauses is not None:
        clauses = clauses.filter(pk__in=part.clauses)
    rows = set(clauses.values_list("kind", "key", "permission_id"))
    privileges = Q(permission_id__in={permission for *_, permission in rows})
    places = {Address(kind, key) for kind, key, _ in rows}
    if any(place.kind == "instance" for place in places):
        return (privileges,)
    pks = [entity.pk for entity in entities_at(places).values()]
    columns = ("content_object", "namespace", "application")
    return (
        tuple(privileges & Q(**{f"{column}__pk__among": pks}) for column in columns)
        if pks
        else (Q(pk__in=()),)
    )


def _held_grants(
    source: GrantSource, at: datetime, where: Q, *, is_lasting: bool, with_inactive: bool = False
) -> tuple[str, tuple]:
    """Return the statement for the grants that count for active users: user (u), entity (e), permission (p), holder
    (h), containers and periods. with_inactive: also those of inactive users.
    """
    is_principal = principal_condition if with_inactive else active_principal_condition
    condition = is_principal(f"{source.subject}__") & where
    if is_lasting:
        condition &= not_over_condition(at)
        if source.membership:
            path = f"{source.membership}valid_until"
            condition &= Q(**{f"{path}__isnull": True}) | Q(**{f"{path}__gt": at})
    else:
        condition &= Q(**source.in_force(at))
    no_time = Cast(Value(None), DateTimeField())
    rows = source.holder.held_grants.filter(condition).order_by()
    values = rows.values(
        u=F(source.subject),
        e=F("content_object_id"),
        p=F("permission_id"),
        h=principal_expression(source.holder.name, source.holder.name_path),
        in_namespace=F("namespace_id"),
        in_application=F("application_id"),
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


def _union(selects: Iterable[tuple[str, tuple]]) -> tuple[str, list]:
    pairs = list(selects)
    return " UNION ALL ".join(sql for sql, _ in pairs), list(chain.from_iterable(row for _, row in pairs))


def _counts_sql(alias: str, at: datetime, is_lasting: bool) -> tuple[str, list]:
    """Return the SQL condition that a membership counts."""
    time = database_time(at)
    if is_lasting:
        return f"({alias}.valid_until IS NULL OR {alias}.valid_until > %s)", [time]
    return in_force_sql(alias, "%s"), [time, time]


def _overlap(one: tuple[str, str], other: tuple[str, str]) -> str:
    """Return the SQL condition that two periods overlap. Three periods of which each two overlap have a common
    time, so that comparing pairs is enough.
    """
    (begins, ends), (other_begins, other_ends) = one, other
    return (
        f"({begins} IS NULL OR {other_ends} IS NULL OR {begins} < {other_ends}) AND "
        f"({other_begins} IS NULL OR {ends} IS NULL OR {other_begins} < {ends})"
    )


def _among(column: str, keys: Collection[int] | None) -> tuple[str, list]:
    """Return the SQL condition that a column has one of these primary keys; true for None."""
    if keys is None:
        return "TRUE", []
    if connection.vendor == "postgresql":
        return f"{column} = ANY(%s)", [list(keys)]
    return f"{column} IN (SELECT value FROM json_each(%s))", [json.dumps(list(keys))]


def _order_by(*columns: str) -> str:
    return ", ".join(f'{column} COLLATE "{byte_order()}"' for column in columns)


def _distinct(clauses: QuerySet, column: str) -> list:
    return list(clauses.order_by().values_list(column, flat=True).distinct())


def _rows(sql: str, parameters: Sequence, part: Part | None) -> Iterator[tuple]:
    """Yield the rows of a statement. Those of all users and entities are read with a cursor of the server."""
    is_unbounded = part is not None and part.users is None and part.entities is None
    with connection.chunked_cursor() if is_unbounded else connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        while rows := cursor.fetchmany(ROWS_PER_FETCH):
            yield from rows
