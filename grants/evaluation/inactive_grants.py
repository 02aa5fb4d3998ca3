"""Add to explanations of denials the grants that begin later or have ended.

Only grants on the addresses that the requirement names are looked up, not those inside a container: an
account can be told all of its own grants on an address that it named.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain

from django.db import connection

from entities.address import Address
from entities.vocabulary import KIND_ORDER, Privilege
from grants.bulk_rows import database_time
from grants.evaluation.facts import FEW_ROWS, Relation, inactive_grants_statement
from grants.evaluation.raw_statement import fetch_rows
from grants.models import permission_ids, privilege_of
from grants.policies.explain import Attempt, Decision, InactiveGrant
from grants.validity import question_time

# the type and the name of a subject, and an address
_Lookup = tuple[str, str, Address]


def with_inactive_grants(decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions, in order; denials with the grants that would meet a part of the requirement at
    another time.

    Runs one query if a question is denied by its requirement, otherwise none.
    """
    lookups: dict[_Lookup, int] = {}
    for decision in decisions:
        question = decision.question
        for address in _unmet_privileges(decision):
            lookups.setdefault((question.subject_type, question.subject, address), len(lookups))
    if not lookups:
        return list(decisions)
    grants = _inactive_grants(lookups)
    return [
        replace(decision, inactive_grants=_of_decision(decision, grants)) if decision.attempts else decision
        for decision in decisions
    ]


def _unmet_privileges(decision: Decision) -> dict[Address, set[Privilege]]:
    """Return the privileges by address.

    Each would meet a part of the requirement that denied the question.
    """
    privileges: dict[Address, set[Privilege]] = {}
    attempts = [] if decision.is_permitted else list(decision.attempts)
    while attempts:
        attempt = attempts.pop()
        attempts += attempt.parts
        if _is_unmet_leaf(attempt) and attempt.address is not None:
            privileges.setdefault(attempt.address, set()).update(attempt.privileges)
    return privileges


def _is_unmet_leaf(attempt: Attempt) -> bool:
    return not attempt.is_met and attempt.requirement in ("has", "at or below")


def _of_decision(
    decision: Decision, grants: dict[_Lookup, dict[Privilege, InactiveGrant]]
) -> tuple[InactiveGrant, ...]:
    question = decision.question
    found = [
        grant
        for address, privileges in _unmet_privileges(decision).items()
        for privilege, grant in grants.get((question.subject_type, question.subject, address), {}).items()
        if privilege in privileges
    ]
    return tuple(sorted(found, key=_order))


def _inactive_grants(lookups: dict[_Lookup, int]) -> dict[_Lookup, dict[Privilege, InactiveGrant]]:
    """Return for each lookup and privilege the grant that begins first, or else the one that ended last.

    Runs one query.
    """
    at, numbered = question_time(), list(lookups)
    text, parameters = _statement(numbered, at)
    grants: dict[_Lookup, dict[Privilege, InactiveGrant]] = {}
    for number, permission, principal, *limits in fetch_rows(text, parameters):
        lookup, privilege = numbered[number], privilege_of(permission)
        begins, ends = _times(limits[::2]), _times(limits[1::2])
        valid_from, valid_until = max(begins, default=None), min(ends, default=None)
        if valid_from and valid_until and valid_from >= valid_until:
            # the membership ends before the grant begins, or the other way round
            continue
        grant = InactiveGrant(
            principal,
            lookup[2],
            privilege,
            valid_from,
            valid_until,
            valid_from is not None and valid_from > at,
        )
        known = grants.setdefault(lookup, {}).setdefault(privilege, grant)
        if _preference(grant) < _preference(known):
            grants[lookup][privilege] = grant
    return grants


def _statement(lookups: list[_Lookup], at: datetime) -> tuple[str, list]:
    relations, parameters = [], []
    rows_by_type: dict[str, list[tuple]] = {}
    for number, (subject_type, name, address) in enumerate(lookups):
        rows_by_type.setdefault(subject_type, []).append((number, name, address.kind, address.key))
    for subject_type, rows in rows_by_type.items():
        is_few = len(rows) <= FEW_ROWS
        parameters += [*(chain.from_iterable(rows) if is_few else [json.dumps(rows)]), database_time(at)]
        relations.append(Relation(subject_type, "held", len(rows) if is_few else 0))
    return inactive_grants_statement(connection.vendor, tuple(relations)), parameters


def _times(values: Sequence) -> list[datetime]:
    """Return the times without None. SQLite returns texts, which are in UTC."""
    times = (
        datetime.fromisoformat(value) if isinstance(value, str) else value
        for value in values
        if value is not None
    )
    return [time if time.tzinfo else time.replace(tzinfo=UTC) for time in times]


def _preference(grant: InactiveGrant) -> tuple[bool, float]:
    """Order grants: first those that begin later, by their beginning, then those that have ended, the last
    first.
    """
    time = grant.time.timestamp()
    return not grant.begins_later, time if grant.begins_later else -time


def _order(grant: InactiveGrant) -> tuple:
    kind = KIND_ORDER.get(grant.entity.kind, len(KIND_ORDER))
    return *_preference(grant), kind, grant.entity.key, permission_ids()[grant.privilege]
