"""The analysis of guardrails, and a plain reference, agree on random tenants."""

import random
from collections import defaultdict

import pytest

from grants.evaluation.engine import check
from grants.guardrails.evaluation import violations
from grants.guardrails.rules import rule_from_members
from grants.policies.principals import type_and_name
from grants.policies.question import Question
from tests.grants.guardrails.test_evaluation import random_rules
from tests.support.analyses import SEEDS_AND_SIZES, SPARSE, sparse_tenant, tables_of
from tests.support.guardrails import add_guardrail, reference_violations
from tests.support.random_tenants import random_tenant, random_timed_tenant, store_tenant

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("folder"),
]


def add_rules(tenant, seed):
    """Add random guardrails that do not contradict each other. Return their rules by name."""
    rules = {}
    for name, members in random_rules(tenant, random.Random(seed)).items():
        try:
            add_guardrail(name, members)
        except Exception as error:
            assert "contradicts" in str(error)
            continue
        rules[name] = rule_from_members(members)
    return rules


def permits(principal, action, address):
    subject_type, name = type_and_name(principal)
    return check(Question(subject_type, name, action, address, "core")).is_permitted


def check_tables(rules, expected):
    tables = tables_of("guardrails")
    assert tables["rows"] == expected
    by_name = defaultdict(list)
    for row in expected:
        by_name[row[0]].append(row)
    assert tables["guardrails"] == [
        (
            name,
            str(rules[name].level),
            len(by_name[name]),
            len({row[1] for row in by_name[name]} - {""}),
            len({row[2] for row in by_name[name]}),
        )
        for name in sorted(rules)
    ]


@pytest.mark.parametrize(("seed", "size"), SEEDS_AND_SIZES, indirect=["size"])
def test_the_violations_equal_those_of_plain_loops(spark, seed, size):
    tenant = random_tenant(seed)
    store_tenant(tenant)
    rules = add_rules(tenant, seed)
    expected = reference_violations(tenant, rules, permits)
    assert len(rules) > 15 and expected
    check_tables(rules, expected)


def test_the_violations_of_a_tenant_with_periods_equal_those_of_the_evaluation_in_sql(spark):
    timed = random_timed_tenant(21)
    store_tenant(timed.tenant, timed.periods)
    rules = add_rules(timed.tenant, 21)
    check_tables(rules, [tuple(row) for row in violations()])


@pytest.mark.parametrize("name", SPARSE)
def test_the_violations_of_a_tenant_in_which_a_part_is_missing(spark, name):
    tenant = sparse_tenant(name)
    store_tenant(tenant, has_periods=False)
    members = {"require": {"privilege": "ADMIN", "on": "kind:namespace", "at_least": 2}}
    add_guardrail("two-admins", members)
    rules = {"two-admins": rule_from_members(members)}
    check_tables(rules, reference_violations(tenant, rules, permits))


def test_a_tenant_without_guardrails_has_no_violations(spark):
    store_tenant(random_tenant(1))
    assert tables_of("guardrails") == {"rows": [], "guardrails": []}
