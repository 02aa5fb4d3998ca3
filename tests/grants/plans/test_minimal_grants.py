"""The fewest grants that keep what people have: enough, none to spare, and called the smallest only where they are."""

import dataclasses
from itertools import combinations, permutations

import pytest

from entities.address import Address, parse_address
from entities.models import State
from entities.services import ensure_entities
from entities.vocabulary import ANY, KINDS
from grants.changes.services import change_grants
from grants.errors import PlanError
from grants.plans.minimal_grants import minimal_grants
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import Question
from tests.support.cast import SETUP, create_sample_tenant
from tests.support.random_tenants import random_tenant, reference_is_permitted, store_tenant

pytestmark = pytest.mark.django_db

MOST_TRIED = 500
PAIRS = tuple(permutations(GENERATIONS, 2))


def lost_answers(tenant, user, before, after):
    """(address, operation) of live entities, over operations that have a rule in both, by the plain reference."""
    rules = [GENERATIONS[before], GENERATIONS[after]]
    for address, state in tenant.entities.items():
        for operation in KINDS[address.kind].operations if state == State.LIVE else ():
            ruled = all(generation.policy(address.kind, operation).has_rule for generation in rules)
            if ruled and is_permitted(tenant, user, address, operation, before) and not is_permitted(
                    tenant, user, address, operation, after):
                yield address, operation


def is_permitted(tenant, user, address, operation, generation):
    return reference_is_permitted(tenant, Question("user", user, operation, address, generation))


def keeps_all(tenant, user, gaps, lost, generation):
    granted = dataclasses.replace(tenant, grants=tenant.grants | {(f"user:{user}", *gap) for gap in gaps})
    return all(is_permitted(granted, user, *answer, generation) for answer in lost)


def covers(tenant):
    """(user, generation after, lost answers, cover) of everybody who loses something between two generations."""
    for before, after in PAIRS:
        for user in tenant.users:
            if lost := list(lost_answers(tenant, user, before, after)):
                yield user, after, lost, minimal_grants(user, lost, GENERATIONS[after], max_grants=1_000)


@pytest.fixture(params=range(6))
def tenant(request):
    made = random_tenant(request.param)
    store_tenant(made)
    return made


def test_the_grants_keep_all_permissions_and_none_is_superfluous(tenant):
    found = list(covers(tenant))
    for user, after, lost, cover in found:
        assert not {(f"user:{user}", *gap) for gap in cover.grants} & tenant.grants
        assert keeps_all(tenant, user, cover.grants, lost, after)
        for spared in cover.grants:
            assert not keeps_all(tenant, user, set(cover.grants) - {spared}, lost, after), (user, after, spared)
    assert {after for _, after, _, _ in found} == set(GENERATIONS)


def test_the_random_tenants_leave_choices_and_force_grants():
    """Without these the agreement would prove little."""
    made = random_tenant(1)
    store_tenant(made)
    found = [cover for *_, cover in covers(made)]
    assert any(cover.only_way for cover in found)
    assert any(cover.is_smallest for cover in found if cover.only_way < len(cover.grants))


def test_a_solution_marked_smallest_is_the_smallest(tenant):
    """Every smaller set of what could help is tried, where these are few."""
    tried = 0
    for user, after, lost, cover in covers(tenant):
        places = {place for address, _ in lost for place in (address, *address.ancestors)}
        candidates = [(place, privilege) for place in places for privilege in ANY]
        smaller = list(combinations(candidates, len(cover.grants) - 1)) if len(cover.grants) <= 3 else []
        if cover.is_smallest and smaller and len(smaller) <= MOST_TRIED:
            assert not any(keeps_all(tenant, user, gaps, lost, after) for gaps in smaller), (user, after)
            tried += 1
    assert tried


@pytest.fixture
def cast(db):
    return create_sample_tenant()


def test_a_grant_inside_a_namespace_also_makes_the_namespace_visible(cast):
    """In core READ on the entity and its parent reads; in final any grant inside shows the namespace, and one is enough."""
    answers = [(parse_address("namespace:hr"), "list"), (parse_address("dataset:hr.salaries"), "read")]
    cover = minimal_grants("out", answers, GENERATIONS["final"], max_grants=10)
    assert [(str(address), privilege) for address, privilege in cover.grants] == [("dataset:hr.salaries", "READ")]
    assert (cover.only_way, cover.is_smallest) == (1, True)


def test_one_grant_on_the_namespace_is_fewer_than_one_on_each(cast):
    ensure_entities(states={parse_address(f"dataset:hr.d{number}"): "live" for number in range(5)})
    answers = [(parse_address(f"dataset:hr.d{number}"), "drop") for number in range(5)]
    cover = minimal_grants("out", answers, GENERATIONS["existing"], max_grants=10)
    assert [(str(address), privilege) for address, privilege in cover.grants] == [("namespace:hr", "ADMIN")] and cover.is_smallest
    one = minimal_grants("out", answers[:1], GENERATIONS["existing"], max_grants=10)
    assert [str(address) for address, _ in one.grants] == ["dataset:hr.d0"] and one.is_smallest


def test_more_grants_than_the_limit_are_refused_before_they_are_loaded(cast):
    ensure_entities(states={Address("dataset", f"hr.d{number}"): "live" for number in range(20)})
    change_grants(author=SETUP, grant=[("user:out", parse_address("namespace:hr"), "ADMIN")])
    for answers in ([(parse_address("namespace:hr"), "delete")],
                    [(parse_address(f"dataset:hr.d{number}"), "read") for number in range(20)]):
        with pytest.raises(PlanError, match="more than 10 grants would be needed"):
            minimal_grants("out", answers, GENERATIONS["final"], max_grants=10)
        assert len(minimal_grants("out", answers, GENERATIONS["final"], max_grants=21).grants) in (20, 21)
