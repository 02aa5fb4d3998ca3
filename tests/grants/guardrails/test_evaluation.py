"""The violations of guardrails equal those of plain loops on random tenants."""

import random
from dataclasses import replace

import pytest

from entities.models import State
from entities.vocabulary import Privilege
from grants.evaluation.engine import check
from grants.guardrails.evaluation import EVERYTHING, Part, violations
from grants.guardrails.rules import Rule, rule_from_members
from grants.models import Guardrail
from grants.policies.principals import group_text, type_and_name
from grants.policies.question import Question
from tests.support.guardrails import add_guardrail, reference_violations
from tests.support.random_tenants import Tenant, random_tenant, seeds, store_tenant

pytestmark = pytest.mark.django_db


def random_rules(tenant: Tenant, dice: random.Random) -> dict[str, dict]:
    places = sorted(map(str, tenant.entities))
    groups, users = sorted(tenant.groups), sorted(tenant.users)

    def privileges() -> list[str]:
        return dice.sample([str(p) for p in Privilege], dice.randint(1, 3))

    rules: dict[str, dict] = {}
    for number in range(6):
        forbid = {"privileges": privileges(), "within": dice.choice(places)}
        if dice.random() < 0.5:
            forbid["members_of"] = group_text(dice.choice(groups))
        rules[f"forbid-{number}"] = {"forbid": forbid}
        sides = [{"privilege": privileges()[0], "within": dice.choice(places)} for _ in range(2)]
        if sides[0] != sides[1]:
            rules[f"both-{number}"] = {"forbid_both": sides, "level": "warn"}
        subject = {"type": "user", "id": dice.choice(users)}
        kind, _, key = dice.choice(places).partition(":")
        rules[f"expect-{number}"] = {
            "expect": {
                "subject": subject,
                "action": {"name": dice.choice(["READ", "ADMIN"])},
                "resource": {"type": kind, "id": key},
            },
            "decision": dice.random() < 0.5,
        }
    rules["instance"] = {"forbid": {"privileges": ["ADMIN"], "within": "instance:cdap"}, "level": "warn"}
    rules["require"] = {"require": {"privilege": "ADMIN", "on": "kind:namespace", "at_least": 2}}
    rules["require-dataset"] = {"require": {"privilege": "READ", "on": "kind:dataset", "at_least": 1}}
    return rules


@pytest.mark.parametrize("seed", seeds(range(8)))
def test_the_violations_equal_those_of_plain_loops(seed):
    tenant = random_tenant(seed, has_roles=True)
    store_tenant(tenant)
    rules: dict[str, Rule] = {}
    for name, members in random_rules(tenant, random.Random(seed)).items():
        try:
            add_guardrail(name, members)
        except Exception as error:
            assert "contradicts" in str(error)
            continue
        rules[name] = rule_from_members(members)
    assert len(rules) > 15

    def permits(principal, action, address) -> bool:
        subject_type, name = type_and_name(principal)
        return check(Question(subject_type, name, action, address, "core")).is_permitted

    expected = reference_violations(tenant, rules, permits)
    assert [tuple(row) for row in violations()] == expected
    for guardrail in Guardrail.objects.all():
        part = Part(guardrails=[guardrail.pk])
        assert [tuple(row) for row in violations(part)] == [
            row for row in expected if row[0] == guardrail.name
        ]
    assert EVERYTHING == Part()


@pytest.mark.parametrize("seed", seeds(range(4)))
def test_dormant_violations_are_those_of_inactive_users_and_on_deleted_entities(seed):
    tenant = random_tenant(seed, has_roles=True)
    store_tenant(tenant)
    rules: dict[str, Rule] = {}
    for name, members in random_rules(tenant, random.Random(seed)).items():
        if "forbid" in members or "forbid_both" in members:
            add_guardrail(name, members)
            rules[name] = rule_from_members(members)
    awake = replace(
        tenant,
        entities=dict.fromkeys(tenant.entities, State.LIVE),
        users={name: (True, is_principal) for name, (_, is_principal) in tenant.users.items()},
    )
    expected = reference_violations(awake, rules, None)
    assert [tuple(row) for row in violations(Part(with_dormant=True))] == expected
    assert set(reference_violations(tenant, rules, None)) < set(expected)
