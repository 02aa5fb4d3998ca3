"""Check grants against the guardrails that forbid privileges, without listing old violations.

Grants change only what their users, or the members of their groups, hold on the granted entities. So these hits are
compared before and after the grants. Of two privileges together, the other one can be held anywhere, and the user may
hold thousands of them: only whether it is held is read, and only for guardrails with a new hit.

PostgreSQL needs more time to plan one large statement than to execute several small ones, which read the facts.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from django.db import connection

from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.vocabulary import CONTAINER_KINDS
from grants.bulk_rows import database_time
from grants.evaluation.raw_statement import fetch_rows
from grants.guardrails.evaluation import (
    ENTITY_COLUMN,
    EVERYTHING,
    PLACE_COLUMNS,
    Part,
    Violation,
    among,
    among_users,
    forbidden_statement,
    overlap_sql,
    violation_of,
    violations_in,
)
from grants.models import GROUP, USER, Belonging, Form, Guardrail, GuardrailClause, PrincipalType, User
from grants.policies.principals import principal_text
from grants.querysets import active_principal_sql
from grants.validity import Validity, question_time

_CLAUSE, _GUARDRAIL, _ENTITY, _MEMBERSHIP, _USER = (
    model._meta.db_table for model in (GuardrailClause, Guardrail, Entity, Belonging, User)
)
_STATES = f"entity.state IN ('{State.LIVE}', '{State.PLANNED}')"
# by column of a grant, the condition that it has the place of a clause
_IS_PLACE = {column: f"clause.kind = '{kind}'" for kind, column in PLACE_COLUMNS.items()} | {
    ENTITY_COLUMN: f"clause.kind NOT IN {CONTAINER_KINDS}"
}
_ALWAYS = Validity()


class Holding(NamedTuple):
    """A grant that has not ended. holder: type and primary key. through: the written holder. period: its times are as the
    database returns them.
    """

    holder: tuple[str, int]
    through: str
    entity: int
    address: Address
    permission: int
    period: Validity


class PlacedClause(NamedTuple):
    """A clause with the columns of its guardrail.

    group: the guardrail counts only its members. For an expected decision, the subject is `user` or `group`.
    """

    guardrail: int
    name: str
    form: str
    user: int | None
    group: int | None
    side: int
    permission: int
    kind: str
    key: str

    @property
    def place(self) -> Address:
        return Address(self.kind, self.key)


class _Member(NamedTuple):
    """A membership that has not ended. user, group: primary keys. period: as of a Holding."""

    user: int
    name: str
    group: int
    period: Validity


class _Hit(NamedTuple):
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


@frozen
class NewGrants:
    """Grants that are made. part: their users and groups. clauses: those that contain one of their addresses, of the
    guardrails that the grants can violate. entities: the registered entities among the addresses. new: the other addresses.
    """

    part: Part
    clauses: Sequence[PlacedClause]
    entities: Collection[Entity]
    new: Collection[Address]

    def own_holdings(self) -> list[Holding]:
        """Return what the users and groups themselves hold on the entities. Runs at most one query."""
        pks = ((GROUP, self.part.groups), (USER, self.part.users or ()))
        return self._holdings(self.entities, [(holder, *among("holder.id", of)) for holder, of in pks if of])

    def _holdings(
        self, entities: Iterable[Entity], holders: Collection[tuple[PrincipalType, str, list]]
    ) -> list[Holding]:
        """Return the grants on live and planned entities. holders: types, each with an SQL condition and its parameters."""
        addresses = {row.pk: row.address for row in entities if row.state in (State.LIVE, State.PLANNED)}
        if not addresses or not holders:
            return []
        on_entities, entity_keys = among("held.content_object_id", addresses)
        of_clauses, permissions = among("held.permission_id", {clause.permission for clause in self.clauses})
        selects, parameters = [], []
        for holder, condition, values in holders:
            is_active = active_principal_sql("holder") if holder == USER else "TRUE"
            selects.append(f"""
SELECT '{holder.name}', holder.id, holder.{holder.name_column}, held.content_object_id, held.permission_id,
    held.valid_from, held.valid_until
FROM {holder.grant_model._meta.db_table} held
JOIN {holder.model._meta.db_table} holder ON holder.id = held.{holder.id_column}
WHERE {on_entities} AND {of_clauses} AND (held.valid_until IS NULL OR held.valid_until > %s)
    AND {is_active} AND {condition}""")
            parameters += [*entity_keys, *permissions, database_time(question_time()), *values]
        return [
            Holding(
                (holder, pk),
                principal_text(holder, name),
                entity,
                addresses[entity],
                permission,
                Validity(*period),
            )
            for holder, pk, name, entity, permission, *period in fetch_rows(
                " UNION ALL ".join(selects), parameters
            )
        ]

    def new_violations(self, own_before: Collection[Holding]) -> Iterator[Violation]:
        """Yield the violations that the grants added. own_before: `own_holdings` before they were made. Runs at most nine
        queries.
        """
        concerned = among_users("holder.id", self.part, question_time(), is_lasting=True)
        entities = [*self.entities, *entities_at(self.new).values()]
        after = self._holdings(entities, [(GROUP, "TRUE", []), (USER, *concerned)])
        own = {
            *((GROUP.name, pk) for pk in self.part.groups),
            *((USER.name, pk) for pk in self.part.users or ()),
        }
        before = [*own_before, *(holding for holding in after if holding.holder not in own)]
        groups = {pk for (type_name, pk), *_ in (*before, *after) if type_name == GROUP.name}
        groups |= {clause.group for clause in self.clauses if clause.group}
        # all members of the groups that get a grant are concerned
        part = EVERYTHING if groups <= set(self.part.groups) else self.part
        members = _members(groups, part) if groups else []
        was_hit, is_hit = self._hits(before, members), self._hits(after, members)
        new = [hit for key, hit in is_hit.items() if key not in was_hit]
        yield from sorted(hit.violation for hit in new if hit.form == Form.FORBID)
        new = [hit for hit in new if hit.form == Form.FORBID_BOTH]
        if not new:
            return
        elsewhere = _held_sides(
            {hit.guardrail for hit in new}, {hit.user for hit in new}, {holding.entity for holding in after}
        )
        is_held = elsewhere | {hit[:3] for hit in is_hit.values()}
        was_held = elsewhere | {hit[:3] for hit in was_hit.values()}
        new = [hit for hit in new if (hit.guardrail, 1 - hit.side, hit.user) in is_held]
        first = [hit for hit in new if not {(hit.guardrail, side, hit.user) for side in (0, 1)} <= was_held]
        pairs = {hit.violation[:2] for hit in first}
        # a grant inside both places is a hit for each
        yield from sorted({hit.violation for hit in new if hit.violation[:2] not in pairs})
        of_pairs = Part({hit.guardrail for hit in first}, {hit.user for hit in first})
        if statement := forbidden_statement(Form.FORBID_BOTH, of_pairs, is_lasting=True):
            yield from (row for row in violations_in(statement) if row[:2] in pairs)

    def _hits(self, holdings: Iterable[Holding], members: Iterable[_Member]) -> dict[tuple, _Hit]:
        """Return the hits by their key. members: in the groups of holdings and guardrails."""
        of_group: dict[int, list[_Member]] = {}
        periods: dict[tuple[int, int | None], list[Validity]] = {}
        for member in members:
            of_group.setdefault(member.group, []).append(member)
            periods.setdefault((member.user, member.group), []).append(member.period)
        hits: dict[tuple, _Hit] = {}
        for (type_name, pk), through, _, address, permission, period in holdings:
            places = {address, *address.ancestors}
            clauses = [
                clause
                for clause in self.clauses
                if clause.permission == permission and clause.place in places
            ]
            ways = (
                [(pk, through.partition(":")[2], _ALWAYS)]
                if type_name == USER.name
                else [(user, name, own) for user, name, _, own in of_group.get(pk, ())]
            )
            for clause, (user, name, own) in product(clauses, ways):
                limits = periods.get((user, clause.group), ()) if clause.group else (_ALWAYS,)
                if period.overlaps(own) and any(
                    period.overlaps(limit) and own.overlaps(limit) for limit in limits
                ):
                    violation = violation_of(
                        clause.name, name, address.kind, address.key, permission, through
                    )
                    hit = _Hit(clause.guardrail, clause.side, user, clause.form, violation)
                    other = hits.setdefault(hit.key, hit)
                    if through < other.violation.through:
                        hits[hit.key] = hit
        return hits


def clauses_where(condition: str, parameters: Sequence) -> list[PlacedClause]:
    """Return the clauses that meet an SQL condition on `clause` and `guardrail`. Runs one query."""
    return [
        PlacedClause(*row)
        for row in fetch_rows(
            f"""
SELECT guardrail.id, guardrail.name, guardrail.form, guardrail.user_id, guardrail.group_id, clause.side,
    COALESCE(clause.permission_id, 0), clause.kind, clause.key
FROM {_CLAUSE} clause JOIN {_GUARDRAIL} guardrail ON guardrail.id = clause.guardrail_id WHERE {condition}""",
            parameters,
        )
    ]


def has_more_members(groups: Collection[int], number: int) -> bool:
    """Return whether groups have more memberships together. Runs one query."""
    among_groups, keys = among("group_id", groups)
    sql = f"""
SELECT 1 FROM {_MEMBERSHIP} WHERE {among_groups} AND (valid_until IS NULL OR valid_until > %s) LIMIT 1 OFFSET {number}"""
    return bool(fetch_rows(sql, [*keys, database_time(question_time())]))


def _members(groups: Collection[int], part: Part) -> list[_Member]:
    """Return the memberships in groups of the active principals of a part. Runs one query."""
    at = question_time()
    among_groups, keys = among("member.group_id", groups)
    is_concerned, users = among_users("holder.id", part, at, is_lasting=True)
    sql = f"""
SELECT holder.id, holder.username, member.group_id, member.valid_from, member.valid_until
FROM {_MEMBERSHIP} member JOIN {_USER} holder ON holder.id = member.user_id
WHERE {among_groups} AND (member.valid_until IS NULL OR member.valid_until > %s)
    AND {active_principal_sql("holder")} AND {is_concerned}"""
    rows = fetch_rows(sql, [*keys, database_time(at), *users])
    return [_Member(user, name, group, Validity(*period)) for user, name, group, *period in rows]


def _held_sides(
    guardrails: Collection[int], users: Collection[int], outside: Collection[int]
) -> set[tuple[int, int, int]]:
    """Return which of two privileges users hold now or later: guardrail, side and user. All are primary keys.

    outside: entities that are left out. Runs at most three queries.
    """
    at = database_time(question_time())
    of_guardrails, guardrail_keys = among("clause.guardrail_id", guardrails)
    kinds = fetch_rows(
        f"SELECT DISTINCT clause.kind FROM {_CLAUSE} clause WHERE {of_guardrails}", guardrail_keys
    )
    columns = {PLACE_COLUMNS.get(kind, ENTITY_COLUMN) for (kind,) in kinds}
    is_outside, outside_keys = among("entity.id", outside)
    of_users, user_keys = among("id", users)
    of_members, member_keys = among("user_id", users)
    overlap = overlap_sql(
        ("held.valid_from", "held.valid_until"), ("holder.valid_from", "holder.valid_until")
    )

    def select(holder: PrincipalType, names: str, holders: str, condition: str) -> str:
        """Return the statement for the clauses and holders with a grant in the place of the clause."""
        # with LIMIT, PostgreSQL joins neither all grants nor all entities
        held = " OR ".join(
            f"""{_IS_PLACE[column]} AND (
    SELECT 1 FROM {holder.grant_model._meta.db_table} held
    JOIN {_ENTITY} entity ON entity.id = held.content_object_id AND {_STATES}
    WHERE held.{holder.id_column} = holder.id AND held.permission_id = clause.permission_id AND NOT {is_outside}
        AND {f"held.{column} = clause.place" if column else "TRUE"}
        AND (held.valid_until IS NULL OR held.valid_until > %s) AND {condition} LIMIT 1
) IS NOT NULL"""
            for column in columns
        )
        return f"SELECT clause.guardrail_id, clause.side, {names} FROM clause CROSS JOIN ({holders}) holder WHERE {held}"

    # many users have few groups
    groups = f"""SELECT DISTINCT group_id AS id, valid_from, valid_until FROM {_MEMBERSHIP}
    WHERE {of_members} AND (valid_until IS NULL OR valid_until > %s)"""
    sql = f"""
WITH clause AS {"MATERIALIZED" if connection.vendor == "postgresql" else ""} (
    SELECT guardrail_id, side, permission_id, kind, (
        SELECT place.id FROM {_ENTITY} place WHERE place.kind = clause.kind AND place.key = clause.key
    ) AS place FROM {_CLAUSE} clause WHERE {of_guardrails}
)
{select(GROUP, "NULL, holder.id, holder.valid_from, holder.valid_until", groups, overlap)} UNION ALL
{select(USER, "holder.id, NULL, NULL, NULL", f"SELECT id FROM {_USER} WHERE {of_users}", "TRUE")}"""
    of_columns = [*outside_keys, at] * len(columns)
    held: set[tuple[int, int, int]] = set()
    through: dict[tuple[int, Validity], list[tuple[int, int]]] = {}
    for guardrail, side, user, group, *limits in fetch_rows(
        sql, [*guardrail_keys, *member_keys, at, *of_columns, *user_keys, *of_columns]
    ):
        if user:
            held.add((guardrail, side, user))
        else:
            through.setdefault((group, Validity(*limits)), []).append((guardrail, side))
    if through:
        for user, _, group, period in _members({group for group, _ in through}, Part(users=users)):
            held |= {(*side, user) for side in through.get((group, period), ())}
    return held
