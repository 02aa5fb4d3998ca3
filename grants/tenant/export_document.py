"""Export principals, entities and grants as a tenant document.

Lines are ordered by type, then by the bytes of their identity, on every database. Exporting, importing into
an empty console and exporting again gives the same bytes.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import CharField, F, Q, QuerySet, Value
from django.db.models.functions import Collate, Concat

from entities.models import Entity
from entities.vocabulary import Privilege
from grants.bulk_rows import ROWS_PER_FETCH, stream_rows
from grants.consistent_read import consistent_read
from grants.grant_attributes import GrantAttributes
from grants.guardrails.rules import rule_of, with_rules
from grants.models import (
    GROUP,
    USER,
    GrantQuerySet,
    Guardrail,
    GuardrailException,
    RoleGroup,
    User,
    privilege_of,
)
from grants.policies.principals import ROLE_PREFIX, group_text, principal_text
from grants.querysets import memberships_of_principals, principal_condition
from grants.validity import VALIDITY_COLUMNS, format_time

_PRIVILEGE_ORDER = {privilege: position for position, privilege in enumerate(Privilege)}

# Escape the line breaks of Unicode, because some readers split lines at them.
_SEPARATORS = {ord(separator): f"\\u{ord(separator):04x}" for separator in "\x85\u2028\u2029"}


def export_tenant(stream) -> int:
    """Write the document to a binary stream. Return the number of its lines."""
    count = 0
    for line in tenant_lines():
        stream.write(line.encode() + b"\n")
        count += 1
    return count


def tenant_lines() -> Iterator[str]:
    """Yield the lines of the document without line ends, all from one revision."""
    with consistent_read():
        for lines_of_one_type in _LINE_TYPES:
            for members in lines_of_one_type():
                yield json.dumps(members, ensure_ascii=False, separators=(",", ":")).translate(_SEPARATORS)


def _entities() -> Iterator[dict]:
    rows = Entity.objects.order_by(_in_byte_order(_address_of()))
    for kind, key, state, description in stream_rows(rows, "kind", "key", "state", "description"):
        line = {"type": "entity", "id": f"{kind}:{key}", "state": state}
        yield {**line, "description": description} if description else line


def _users() -> Iterator[dict]:
    rows = User.objects.principals().order_by(_in_byte_order(F("username")))
    for name, active, email in stream_rows(rows, "username", "is_active", "email"):
        line = {"type": "user", "name": name, "active": active}
        yield {**line, "email": email} if email else line


def _groups() -> Iterator[dict]:
    for name, members in _with_members(~_is_role(), memberships_of_principals().filter(~_is_role("group__"))):
        yield {"type": "group", "name": name, "members": [_member(*row) for row in members]}


def _roles() -> Iterator[dict]:
    rows = RoleGroup.objects.order_by(_in_byte_order(F("group__name")))
    groups_of = defaultdict(list)
    for role, *member in rows.values_list("role__name", "group__name", *VALIDITY_COLUMNS):
        groups_of[role].append(member)
    for name, members in _with_members(_is_role(), memberships_of_principals().filter(_is_role("group__"))):
        users = [_member(principal_text("user", user), *period) for user, *period in members]
        groups = [_member(group_text(group), *period) for group, *period in groups_of.get(name, ())]
        yield {"type": "role", "name": name.removeprefix(ROLE_PREFIX), "members": [*users, *groups]}


def _is_role(path: str = "") -> Q:
    return Q(**{f"{path}name__startswith": ROLE_PREFIX})


def _with_members(condition: Q, memberships: QuerySet) -> Iterator[tuple[str, Iterable[list]]]:
    """Yield the name of each group with its members, each a name and the columns of the period."""
    members = stream_rows(
        memberships.order_by(_in_byte_order(F("group__name")), _in_byte_order(F("user__username"))),
        "group__name",
        "user__username",
        *VALIDITY_COLUMNS,
    )
    members_by_group = groupby(members, key=itemgetter(0))
    name, names = next(members_by_group, (None, ()))
    for (group,) in stream_rows(Group.objects.filter(condition).order_by(_in_byte_order(F("name"))), "name"):
        if group == name:
            yield group, [row for _, *row in names]
            name, names = next(members_by_group, (None, ()))
        else:
            yield group, ()


def _member(name: str, *period: datetime | None) -> str | dict:
    """Return a member: a name, or an object if the membership has limits."""
    times = _times(period)
    return {"name": name, **times} if times else name


def _times(period: Iterable[datetime | None]) -> dict[str, str]:
    return {
        column: format_time(time)
        for column, time in zip(VALIDITY_COLUMNS, period, strict=True)
        if time is not None
    }


def _group_grants() -> Iterator[dict]:
    return _grants(GROUP.grants)


def _user_grants() -> Iterator[dict]:
    return _grants(USER.grants.filter(principal_condition("user__")))


def _grants(grants: GrantQuerySet) -> Iterator[dict]:
    """Yield one line for each principal, entity, set of attributes and period."""
    holder = grants.principal_type
    rows = grants.annotate(address=_address_of("content_object__"))
    identity = (holder.name_path, "address", *GrantAttributes._fields)
    ordered = rows.order_by(
        *(_in_byte_order(F(column)) for column in identity),
        *(F(column).asc(nulls_first=True) for column in VALIDITY_COLUMNS),
    )
    key_length = len(identity) + len(VALIDITY_COLUMNS)
    for (name, address, *values), grants in groupby(
        stream_rows(ordered, *identity, *VALIDITY_COLUMNS, "permission_id"), key=itemgetter(slice(key_length))
    ):
        *values, valid_from, valid_until = values
        privileges = sorted(
            (privilege_of(permission) for *_, permission in grants), key=_PRIVILEGE_ORDER.__getitem__
        )
        attributes = {
            member: value for member, value in zip(GrantAttributes._fields, values, strict=True) if value
        }
        yield {
            "type": "grant",
            "principal": principal_text(holder.name, name),
            "entity": address,
            "privileges": privileges,
            **_times((valid_from, valid_until)),
            **attributes,
        }


def _guardrails() -> Iterator[dict]:
    rows = with_rules(Guardrail.objects.prefetch_related("exceptions__user", "exceptions__group"))
    for guardrail in rows.order_by(_in_byte_order(F("name"))).iterator(chunk_size=ROWS_PER_FETCH):
        line = {"type": "guardrail", "name": guardrail.name, **rule_of(guardrail).members}
        exceptions = sorted(map(_exception, guardrail.exceptions.all()), key=json.dumps)
        yield {**line, "exceptions": exceptions} if exceptions else line


def _exception(row: GuardrailException) -> dict[str, str]:
    who = {name: value for name, value in (("principal", row.principal), ("within", row.place)) if value}
    return {**who, "owner": row.owner, "valid_until": format_time(row.valid_until), "reason": row.reason}


_LINE_TYPES = (_entities, _users, _groups, _roles, _group_grants, _user_grants, _guardrails)


def _address_of(path: str = "") -> Concat:
    return Concat(f"{path}kind", Value(":"), f"{path}key", output_field=CharField())


def _in_byte_order(expression) -> Collate:
    """Return the expression with a collation that sorts by the bytes of the UTF-8 text, on every database."""
    return Collate(expression, "C" if connection.vendor == "postgresql" else "BINARY")
