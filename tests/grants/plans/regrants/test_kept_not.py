"""Test the list of permissions that a plan of regrants does not keep: complete, and with true reasons."""

import re

import pytest

from entities.address import parse_address
from entities.models import State
from entities.vocabulary import ANY
from grants.plans.regrants.compute import Prefer, RegrantScope, compute_regrants, create_plan_of_regrants
from grants.plans.regrants.kept_not import kept_not_of_plan, kept_not_rows
from grants.policies.catalogue import GENERATIONS
from tests.grants.plans.regrants.test_compute import PAIRS, permissions, with_grants
from tests.support.authors import COMMAND
from tests.support.cast import create_sample_tenant
from tests.support.changes import change_grants
from tests.support.random_tenants import random_tenant, seeds, store_tenant

pytestmark = pytest.mark.django_db

WAY = re.compile(
    r"(?:: |^)((?:(?:READ|WRITE|EXECUTE|ADMIN) on \S+(?:, | and )?)+) would also give (\S+) on (\S+?)"
    r"(?: and [\d,]+ more permissions?)?\.$"
)


@pytest.mark.parametrize("prefer", Prefer)
@pytest.mark.parametrize("seed", seeds(range(4)))
def test_the_rows_are_those_of_the_reference_and_the_named_grants_give_what_the_reason_says(seed, prefer):
    tenant = random_tenant(seed + 40, has_patterns=True)
    store_tenant(tenant)
    for before, after in PAIRS[seed::4]:
        rules = GENERATIONS[before], GENERATIONS[after]
        regrants = compute_regrants(*rules, prefer=prefer, max_grants=10_000)
        rows = list(
            kept_not_rows(*rules, regrants.grants, scope=RegrantScope(), namespaces=regrants.kept_not_in)
        )
        permitted, now = permissions(tenant, before, after), permissions(tenant, after, before)
        then = permissions(with_grants(tenant, regrants.grants), after, before)
        assert {(row.user, parse_address(row.entity), row.operation) for row in rows} == permitted - then
        assert len(rows) == len(permitted - then) == sum(regrants.kept_not_in.values())
        for row in rows[::7]:
            match = WAY.search(row.why)
            if not match:
                others = "No grant permits it", "together with", "in other namespaces", "such as"
                assert any(part in row.why for part in others), row.why
                continue
            grants = {
                (row.user, parse_address(target), privilege)
                for privilege, target in re.findall(r"([A-Z]+) on (\S+?)(?=,| and |$)", match[1])
            }
            result = permissions(with_grants(tenant, grants), after, before, [row.user])
            assert (row.user, parse_address(row.entity), row.operation) in result, row
            assert (row.user, parse_address(match[3]), match[2]) in result - permitted - now, row


def test_a_page_of_rows_starts_at_any_row_and_reads_only_the_namespaces_with_rows(django_assert_num_queries):
    create_sample_tenant()
    change_grants(grant=[("user:out", "namespace:sales", privilege) for privilege in ANY])
    plan, regrants = create_plan_of_regrants(
        author=COMMAND, before=GENERATIONS["final"], after=GENERATIONS["existing"]
    )
    rows = list(kept_not_of_plan(plan))
    assert len(rows) == regrants.counts["kept_not"] > 3 and plan.recipe["kept_not_in"] == sorted(
        regrants.kept_not_in
    )
    for first_row in (1, 3, len(rows) - 1, len(rows)):
        assert list(kept_not_of_plan(plan, first_row)) == rows[first_row:]
    # items, permissions, users, memberships, the outside, the namespaces, and each namespace with rows
    namespaces = len(plan.recipe["kept_not_in"])
    with django_assert_num_queries(8 + 3 * namespaces):
        list(kept_not_of_plan(plan))


def test_a_permission_that_no_grant_gives_has_this_reason():
    tenant = random_tenant(41)
    store_tenant(tenant)
    live = [address for address, state in tenant.entities.items() if state == State.LIVE]
    assert live
    reasons = {
        row.why
        for before, after in PAIRS
        for row in kept_not_rows(
            GENERATIONS[before],
            GENERATIONS[after],
            compute_regrants(
                GENERATIONS[before], GENERATIONS[after], prefer=Prefer.FEWEST, max_grants=10_000
            ).grants,
            scope=RegrantScope(),
        )
    }
    assert all(reason.startswith("No grant permits it in generation") for reason in reasons)
