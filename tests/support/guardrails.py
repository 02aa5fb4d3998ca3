"""Write guardrails in tests, and evaluate them with a reference: loops over lists."""

import itertools
from collections.abc import Iterator

from entities.address import Address, parse_address
from entities.models import State
from entities.vocabulary import Privilege
from grants.change_set import ChangeSet, SetException, SetGuardrail
from grants.changes import Shown, apply
from grants.guardrails.rules import Rule, rule_from_members
from grants.journal import Author
from grants.models import Form
from grants.policies.principals import type_and_name
from grants.policies.times import format_time
from tests.support.authors import COMMAND
from tests.support.random_tenants import Tenant

FORBID = {"forbid": {"privileges": ["WRITE"], "within": "namespace:sales"}}


def add_guardrail(name: str, members: dict, *, author: Author = COMMAND):
    """Write a guardrail, whatever violates it."""
    change = SetGuardrail(name, rule_from_members(members).text)
    return apply(ChangeSet.of(change), author=author, shown=Shown(violations=1_000_000))


def add_exception(
    name: str, *, subject: str = "", place: str = "", owner: str = "ada", until, author=COMMAND
):
    change = SetException(
        name, subject, place, owner, until if isinstance(until, str) else format_time(until)
    )
    return apply(ChangeSet.of(change), author=author)


def reference_violations(tenant: Tenant, rules: dict[str, Rule], permits) -> list[tuple[str, ...]]:
    """Return the violations of the rules in a tenant, sorted. permits: (principal, action, address) -> decision."""
    return sorted(row for name, rule in rules.items() for row in _rows(tenant, name, rule, permits))


def _rows(tenant: Tenant, name: str, rule: Rule, permits) -> Iterator[tuple[str, ...]]:
    match rule.form:
        case Form.FORBID:
            yield from (
                (name, f"user:{user}", str(address), str(privilege), through)
                for user in _people(tenant, rule)
                for address, privilege, through in _held(tenant, user, rule.clauses[0])
            )
        case Form.FORBID_BOTH:
            for user in _people(tenant, rule):
                sides = [set(_held(tenant, user, clause)) for clause in rule.clauses]
                if all(sides):
                    for address, privilege, through in set.union(*sides):
                        yield name, f"user:{user}", str(address), str(privilege), through
        case Form.REQUIRE:
            (privilege,), kind = rule.clauses[0].privileges, rule.clauses[0].kind
            for address, state in tenant.entities.items():
                if address.kind != kind or state == State.DELETED:
                    continue
                holders = {
                    user
                    for user in tenant.users
                    for holder in tenant.holders("user", user) or ()
                    if (holder, address, privilege) in tenant.grants
                }
                if len(holders) < rule.at_least:
                    yield name, "", str(address), str(privilege), ""
        case Form.EXPECT:
            place = rule.clauses[0].place
            if permits(rule.principal, rule.action, parse_address(place)) != rule.decision:
                yield name, rule.principal, place, rule.action, ""


def _people(tenant: Tenant, rule: Rule) -> list[str]:
    group = type_and_name(rule.principal)[1]
    return [user for user in tenant.users if not rule.principal or user in tenant.groups[group]]


def _held(tenant: Tenant, user: str, clause) -> Iterator[tuple[Address, Privilege, str]]:
    place = Address(clause.kind, clause.key)
    holders = sorted(tenant.holders("user", user) or ())
    for (address, state), privilege in itertools.product(tenant.entities.items(), clause.privileges):
        if state == State.DELETED or place not in (address, *address.ancestors):
            continue
        through = [holder for holder in holders if (holder, address, privilege) in tenant.grants]
        if through:
            yield address, privilege, through[0]
