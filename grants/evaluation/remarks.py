"""Add to explanations what the policies of a platform have and grants cannot express.

A remark never changes a decision. A permission gets the remarks that the platform may permit less, on what met its
requirement; a denial gets those that it may permit more, on what is missing.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from operator import attrgetter

from django.contrib.auth.models import Group
from django.db import connection

from entities.address import Address, ancestor_kinds, parse_grantable
from entities.frozen import frozen
from entities.patterns import matches, reveals
from entities.vocabulary import ANY, KINDS
from grants.bulk_rows import ROWS_PER_STATEMENT, database_time
from grants.evaluation.raw_statement import fetch_rows
from grants.models import GROUP, USER, Belonging, Remark, RemarkPart, RoleGroup, User
from grants.policies.explain import ALL_LIVE, INCOMPLETE_REMARK, Decision
from grants.policies.principals import principal_sql, type_and_name
from grants.validity import in_force_sql, question_time

# of an explanation
MAX_REMARKS = 20
# of the parts of remarks that are compared with a batch of decisions
MAX_ROWS = 10_000
_ALL = frozenset(map(str, ANY))


@frozen
class _Place:
    """Where a decision depends on these privileges. with_contents: also on those on everything inside the address, of one
    kind or of any.
    """

    address: Address
    privileges: frozenset[str]
    with_contents: bool = False
    kind: str | None = None

    def includes(self, address: Address) -> bool:
        """Return whether what is said about this address or pattern is about the place."""
        if address.kind == "" or address == self.address:
            return True
        # `?` does not match the `*` of another pattern, which stands for any number of characters
        if matches(address, self.address) and not (self.address.is_pattern and "?" in address.key):
            return True
        if not self.with_contents or self.kind not in (None, address.kind):
            return False
        if self.address.kind == "instance":
            return True
        if address.is_pattern:
            return reveals(address, self.address)
        return address.kind in KINDS and self.address in address.ancestors


# the parts of each remark, by subject in written form; of those about everybody, the subject is empty
_Rows = Mapping[str, Mapping[tuple[str, int], list[Remark]]]
_COLUMNS = ("source", "number", "part", "kind", "key", "privileges", "gives", "text")


def namespace_of(address: Address) -> str:
    """Return the name of the namespace of an address or pattern; empty if there is none, or several."""
    name, _, _ = address.key.partition(".")
    has_one = "namespace" in (address.kind, *ancestor_kinds(address.kind))
    return name if has_one and not re.search(r"[*?]", name) else ""


def replace_remarks(remarks: Collection[Remark], *sources: str) -> None:
    """Store these remarks for the first source, in place of those of all of these sources."""
    Remark.objects.filter(source__in=sources).delete()
    for remark in remarks:
        remark.source = sources[0]
    Remark.objects.bulk_create(remarks, batch_size=ROWS_PER_STATEMENT)


def with_remarks(decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions, in order, with their remarks.

    In an earlier state there are none, because the policies of that time are not known. Runs one query if the
    requirement of one of them was evaluated, otherwise none.
    """
    places = [list(_places(decision)) for decision in decisions]
    if not any(places):
        return list(decisions)
    rows, is_complete = _rows(decisions, [place for its in places for place in its])
    rest = () if is_complete else (INCOMPLETE_REMARK,)
    return [
        replace(decision, remarks=(*_texts(decision, its, rows), *rest)) if its else decision
        for decision, its in zip(decisions, places, strict=True)
    ]


def _places(decision: Decision) -> Iterator[_Place]:
    """Yield where another privilege could change the decision, and the grants that met a part of its requirement."""
    attempts = list(decision.attempts)
    while attempts:
        attempt = attempts.pop()
        attempts += attempt.parts
        if attempt.address is None or attempt.is_met != decision.is_permitted:
            continue
        privileges, is_all_live = frozenset(map(str, attempt.privileges)), attempt.requirement == ALL_LIVE
        has_contents = is_all_live or (attempt.requirement == "at or below" and not attempt.is_met)
        yield _Place(attempt.address, privileges, has_contents, attempt.kind if is_all_live else None)
        for grant in attempt.grants if attempt.requirement == "at or below" else ():
            yield _Place(grant.entity, privileges)
            if grant.pattern:
                yield _Place(parse_grantable(grant.pattern), privileges)


def _rows(decisions: Iterable[Decision], places: Collection[_Place]) -> tuple[_Rows, bool]:
    """Return at most MAX_ROWS rows about the subjects of the decisions that may be about one of the places, and whether
    these are all. Runs one query.
    """
    subjects = {decision.question.principal for decision in decisions}
    users, groups = (
        [name for type_, name in map(type_and_name, subjects) if type_ == wanted.name]
        for wanted in (USER, GROUP)
    )
    is_anywhere = any(place.with_contents and place.address.kind == "instance" for place in places)
    namespaces = [] if is_anywhere else list({"", *(namespace_of(place.address) for place in places)})
    lists = [namespaces, ["", *subjects], users, groups]
    where, *names = lists if connection.vendor == "postgresql" else map(json.dumps, lists)
    at = database_time(question_time())
    parameters = [where, names[0], where, names[1], at, at, where, names[2], at, at, MAX_ROWS + 1]
    result: dict[str, dict[tuple[str, int], list[Remark]]] = defaultdict(lambda: defaultdict(list))
    rows = fetch_rows(_statement(connection.vendor, is_anywhere), parameters)
    for subject, *values in rows[:MAX_ROWS]:
        remark = Remark(**dict(zip(_COLUMNS, values, strict=True)))
        result[subject][remark.source, remark.number].append(remark)
    return result, len(rows) <= MAX_ROWS


@cache
def _statement(vendor: str, is_anywhere: bool) -> str:
    """Return the statement. Its rows begin with the subject; that of remarks about everybody is empty."""

    def among(column: str) -> str:
        is_postgresql = vendor == "postgresql"
        return f"{column} {'= ANY(CAST(%s AS text[]))' if is_postgresql else 'IN (SELECT value FROM json_each(%s))'}"

    user = principal_sql(USER.name, "u.username")
    group, member = (principal_sql(GROUP.name, f"{alias}.name") for alias in "gm")
    columns = ", ".join(f"r.{column}" for column in _COLUMNS)
    users, groups, belongings, inclusions = (
        model._meta.db_table for model in (User, Group, Belonging, RoleGroup)
    )
    # the statement for all namespaces has the parameter, too
    rows = f"FROM {Remark._meta.db_table} r"
    where = f"WHERE ({among('r.namespace')}{' OR TRUE' * is_anywhere})"
    return f"""
SELECT r.principal, {columns} {rows} {where} AND {among("r.principal")}
UNION SELECT {user}, {columns} {rows} JOIN {groups} g ON r.principal = {group} JOIN {belongings} b ON b.group_id = g.id
JOIN {users} u ON u.id = b.user_id {where} AND {among("u.username")} AND {in_force_sql("b", "%s")}
UNION SELECT {member}, {columns} {rows} JOIN {groups} g ON r.principal = {group} JOIN {inclusions} i ON i.role_id = g.id
JOIN {groups} m ON m.id = i.group_id {where} AND {among("m.name")} AND {in_force_sql("i", "%s")}
LIMIT %s"""


def _texts(decision: Decision, places: Collection[_Place], rows: _Rows) -> tuple[str, ...]:
    """Return the remarks about a decision, sorted, and how many more there are above MAX_REMARKS."""
    everybody, own = rows.get("", {}), rows.get(decision.question.principal, {})
    texts = set()
    for remark in everybody.keys() | own.keys():
        parts = [
            part
            for part in (*everybody.get(remark, ()), *own.get(remark, ()))
            if part.gives != decision.is_permitted
        ]
        for place in places:
            if text := _text_at(place, [part for part in parts if place.includes(part.address)]):
                texts.add(text)
                break
    listed = sorted(texts)
    more = [f"The platform has {len(listed) - MAX_REMARKS:,} more policies that may change this answer."] * (
        len(listed) > MAX_REMARKS
    )
    return (*listed[:MAX_REMARKS], *more)


def _text_at(place: _Place, parts: Collection[Remark]) -> str:
    """Return the text of a remark with these parts at a place; empty if it is not about a privilege there."""
    for item in sorted(parts, key=attrgetter("text")):
        if not item.text:
            continue
        others = [part for part in parts if part.address == item.address or not place.with_contents]
        privileges = item.privilege_names & place.privileges
        if item.part == RemarkPart.RESTRICTED_ITEM:
            restrictions = _privileges(others, RemarkPart.RESTRICTION)
            # a requirement of any privilege can depend on each of the restrictions
            privileges = (
                privileges if restrictions and place.privileges == _ALL else privileges & restrictions
            )
        if privileges - _privileges(others, RemarkPart.EXCEPTION):
            return item.text
    return ""


def _privileges(parts: Iterable[Remark], part: RemarkPart) -> frozenset[str]:
    return frozenset().union(*(row.privilege_names for row in parts if row.part == part))
