"""Test minimal grants: they are enough, none of them is superfluous, and `is_smallest` is true only for
smallest solutions.
"""

import dataclasses
from itertools import combinations, permutations

import pytest

from entities.address import Address
from entities.models import State
from entities.services import ensure_entities
from entities.vocabulary import ANY, KINDS
from grants.errors import PlanError
from grants.plans.regrants.compute import Prefer, Regrants, RegrantScope, compute_regrants
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import Question
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_grant
from tests.support.random_tenants import random_tenant, reference_is_permitted, seeds, store_tenant

pytestmark = pytest.mark.django_db

MAX_TRIED_SETS = 500
GENERATION_PAIRS = tuple(permutations(GENERATIONS, 2))


def lost_permissions(tenant, user, before, after):
    """Yield (address, operation) that are permitted before and denied after, by the reference.

    Only live entities and operations with a rule in both generations are considered.
    """
    rules = [GENERATIONS[before], GENERATIONS[after]]
    for address, state in tenant.entities.items():
        for operation in KINDS[address.kind].operations if state == State.LIVE else ():
            has_rules = all(generation.policy(address.kind, operation).has_rule for generation in rules)
            if (
                has_rules
                and is_permitted(tenant, user, address, operation, before)
                and not is_permitted(tenant, user, address, operation, after)
            ):
                yield address, operation


def is_permitted(tenant, user, address, operation, generation):
    return reference_is_permitted(tenant, Question("user", user, operation, address, generation))


def gives_all(tenant, user, grants, lost, generation):
    """Return whether the user has all lost permissions again with these grants."""
    granted = dataclasses.replace(
        tenant, grants=tenant.grants | {(f"user:{user}", *grant) for grant in grants}
    )
    return all(is_permitted(granted, user, *permission, generation) for permission in lost)


def solutions(tenant):
    """Yield (user, generation after, lost permissions, regrants) for each user who loses permissions."""
    for before, after in GENERATION_PAIRS:
        for user in tenant.users:
            if lost := list(lost_permissions(tenant, user, before, after)):
                yield user, after, lost, fewest(user, before, after)


def fewest(user, before, after, max_grants=1_000) -> Regrants:
    return compute_regrants(
        GENERATIONS[before],
        GENERATIONS[after],
        prefer=Prefer.FEWEST,
        scope=RegrantScope(frozenset({user})),
        max_grants=max_grants,
    )


def grants_of(regrants) -> list:
    return [grant for _, *grant in regrants.grants]


@pytest.fixture(params=seeds(range(6)))
def tenant(request):
    stored = random_tenant(request.param)
    store_tenant(stored)
    return stored


def test_the_grants_give_all_permissions_and_none_is_superfluous(tenant):
    all_solutions = list(solutions(tenant))
    for user, after, lost, minimal in all_solutions:
        assert not {(f"user:{user}", *grant) for grant in grants_of(minimal)} & tenant.grants
        assert gives_all(tenant, user, grants_of(minimal), lost, after)
        for grant in map(tuple, grants_of(minimal)):
            assert not gives_all(tenant, user, set(map(tuple, grants_of(minimal))) - {grant}, lost, after), (
                user,
                after,
                grant,
            )
    assert {after for _, after, _, _ in all_solutions} == set(GENERATIONS)


def test_the_random_tenants_need_both_forced_and_selected_grants():
    """Without both, the other tests would prove little."""
    tenant = random_tenant(1)
    store_tenant(tenant)
    found = [minimal for *_, minimal in solutions(tenant)]
    assert any(minimal.only_way for minimal in found)
    assert any(minimal.is_smallest for minimal in found if minimal.only_way < len(minimal.grants))


def test_a_solution_marked_smallest_is_the_smallest(tenant):
    """If there are at most MAX_TRIED_SETS smaller sets of grants, try each of them."""
    checked = 0
    for user, after, lost, minimal in solutions(tenant):
        addresses = {container for address, _ in lost for container in (address, *address.ancestors)}
        candidates = [(address, privilege) for address in addresses for privilege in ANY]
        smaller_sets = (
            list(combinations(candidates, len(minimal.grants) - 1)) if len(minimal.grants) <= 3 else []
        )
        if minimal.is_smallest and smaller_sets and len(smaller_sets) <= MAX_TRIED_SETS:
            assert not any(gives_all(tenant, user, grants, lost, after) for grants in smaller_sets), (
                user,
                after,
            )
            checked += 1
    assert checked


@pytest.fixture
def cast(db):
    create_sample_tenant()
    add_grant("user:out", "namespace:hr", "ADMIN")


def test_more_grants_than_the_limit_are_refused(cast):
    ensure_entities(states={Address("dataset", f"hr.d{number}"): "live" for number in range(20)})
    with pytest.raises(PlanError, match="more than 10 grants would be needed"):
        fewest("out", "existing", "final", max_grants=10)
    assert len(fewest("out", "existing", "final", max_grants=30).grants) in range(20, 30)
