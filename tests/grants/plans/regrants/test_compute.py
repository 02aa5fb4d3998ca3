"""Test regrants: no side effects by default, nothing left out that could be kept without them, and exact
counts.
"""

import dataclasses
from itertools import combinations, permutations

import pytest

from entities.models import State
from entities.vocabulary import ANY, KINDS
from grants.plans.regrants.compute import Prefer, compute_regrants
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import Question
from tests.support.random_tenants import random_tenant, reference_is_permitted, seeds, store_tenant

pytestmark = pytest.mark.django_db

PAIRS = list(permutations(GENERATIONS, 2))


def permissions(tenant, generation, other, users=None):
    """Return the permitted (user, address, operation), of live entities and operations with a rule in both
    generations.
    """
    rules = [GENERATIONS[generation], GENERATIONS[other]]
    return {
        (user, address, operation)
        for address, state in tenant.entities.items()
        if state == State.LIVE
        for operation in KINDS[address.kind].operations
        if all((policy := rule.policy(address.kind, operation)) and policy.has_rule for rule in rules)
        for user in (tenant.users if users is None else users)
        if reference_is_permitted(tenant, Question("user", user, operation, address, generation))
    }


def with_grants(tenant, grants):
    return dataclasses.replace(
        tenant, grants=tenant.grants | {(f"user:{user}", *grant) for user, *grant in grants}
    )


@pytest.mark.parametrize("prefer", Prefer)
@pytest.mark.parametrize("seed", seeds(range(6)))
def test_the_counts_are_those_of_the_reference_and_the_default_has_no_side_effects(seed, prefer):
    tenant = random_tenant(seed)
    store_tenant(tenant)
    for number, (before, after) in enumerate(PAIRS):
        if number % 6 != seed:
            continue
        regrants = compute_regrants(GENERATIONS[before], GENERATIONS[after], prefer=prefer, max_grants=10_000)
        granted = with_grants(tenant, regrants.grants)
        permitted, now, then = (
            permissions(tenant, before, after),
            permissions(tenant, after, before),
            permissions(granted, after, before),
        )
        assert regrants.counts == {
            "kept": len(permitted & then),
            "kept_not": len(permitted - then),
            "beyond_gained": len(then - permitted - now),
            "beyond_lost": len(now - then),
        }, (before, after)
        assert regrants.activation == {
            "given": len(now - permitted),
            "taken": len(permitted - now),
            "given_with_plan": len(then - permitted),
            "taken_with_plan": len(permitted - then),
        }, (before, after)
        assert regrants.lost == len(permitted - now) and len(set(regrants.grants)) == len(regrants.grants)
        assert not tenant.grants & {(f"user:{user}", *grant) for user, *grant in regrants.grants}
        if prefer == Prefer.NARROWEST:
            assert then <= permitted | now, (before, after)


@pytest.mark.parametrize("seed", seeds([0, 1, 3, 4, 5, 6, 7]))
def test_nothing_is_left_out_that_could_be_kept_without_side_effects(seed):
    """Every set of up to two further grants on live entities that keeps one more permission has a side
    effect.
    """
    tenant = random_tenant(seed + 100)
    store_tenant(tenant)
    live = [address for address, state in tenant.entities.items() if state == State.LIVE]
    before, after = (
        PAIRS[seed % len(PAIRS)]
        if seed < 4
        else ("existing", ["final", "proposed", "core", "final"][seed - 4])
    )
    regrants = compute_regrants(GENERATIONS[before], GENERATIONS[after], max_grants=10_000)
    granted = with_grants(tenant, regrants.grants)
    for user in tenant.users:
        permitted, now = (
            permissions(tenant, name, other, [user]) for name, other in ((before, after), (after, before))
        )
        then = permissions(granted, after, before, [user])
        left_out = permitted - then
        if not left_out:
            continue
        near = {near for _, address, _ in left_out for near in (address, *address.ancestors)}
        grants = [
            (user, address, privilege)
            for address in live
            for privilege in ANY
            if address in near or (address.namespace in near and privilege == ANY[0])
        ]
        for size in (1, 2):
            for more in list(combinations(grants, size))[:30]:
                result = permissions(with_grants(granted, more), after, before, [user])
                assert result <= then or not result <= permitted | now, (before, after, more)
