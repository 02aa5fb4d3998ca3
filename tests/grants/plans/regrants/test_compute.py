"""Test regrants: no side effects by default, nothing left out that could be kept without them, and exact
counts.
"""

import dataclasses
from datetime import UTC, datetime, timedelta
from itertools import combinations, permutations

import pytest
from django.utils import timezone

from entities.address import Address
from entities.models import State
from entities.services import ensure_entities
from entities.vocabulary import ANY, KINDS
from grants.errors import PlanError
from grants.models import Membership
from grants.plans.regrants.compute import MAX_ENDS, Prefer, RegrantScope, compute_regrants
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import Question
from grants.validity import Validity
from tests.support.changes import add_grant, add_group, add_member, add_user, change_grants
from tests.support.random_tenants import (
    random_tenant,
    random_timed_tenant,
    reference_is_permitted,
    seeds,
    store_tenant,
)

pytestmark = pytest.mark.django_db

PAIRS = list(permutations(GENERATIONS, 2))
MAX_TRIED_SETS = 500
FOREVER = datetime(9999, 12, 31, tzinfo=UTC)


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
    tenant = random_tenant(seed, has_patterns=True)
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
    tenant = random_tenant(seed + 100, has_patterns=True)
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


@pytest.mark.parametrize("seed", seeds(range(8)))
def test_a_grant_ends_with_the_access_that_it_keeps(seed):
    """While it lasts, something that the user may do before the change is lost without it. Later, nothing is."""
    timed = random_timed_tenant(seed)
    store_tenant(timed.tenant, timed.periods)
    now = timezone.now()
    later = [*sorted(moment for moment in timed.moments if moment > now), now + timedelta(days=1_000)]
    for number, (before, after) in enumerate(PAIRS):
        if number % 4 != seed % 4:
            continue
        for prefer in Prefer:
            regrants = compute_regrants(
                GENERATIONS[before], GENERATIONS[after], prefer=prefer, max_grants=10_000
            )
            for moment in later:
                tenant = timed.at(moment)
                in_force = {row for row in regrants.grants if moment < regrants.ends.get(row, FOREVER)}
                permitted = permissions(tenant, before, after)
                then = permissions(with_grants(tenant, in_force), after, before)
                with_all = permissions(with_grants(tenant, regrants.grants), after, before)
                assert permitted & with_all <= then, (before, after, prefer, moment)
                for row in in_force:
                    last = regrants.ends.get(row, FOREVER) - timedelta(microseconds=1)
                    if moment in (last, later[-1]):
                        without = permissions(with_grants(tenant, in_force - {row}), after, before, [row[0]])
                        assert permissions(tenant, before, after, [row[0]]) & then - without, (row, moment)


def test_with_many_ends_a_grant_ends_too_early_rather_than_too_late(cast):
    ends = [timezone.now() + timedelta(days=days) for days in range(1, 40)]
    for number, end in enumerate(ends):
        add_user(f"u{number:02}")
        add_grant(f"user:u{number:02}", "application:sales.shop", "ADMIN", Validity(None, end))
    regrants = fewest("existing", "final", *(f"u{number:02}" for number in range(len(ends))))
    assert set(regrants.ends) == set(regrants.grants) != set()
    assert 1 < len(set(regrants.ends.values())) <= MAX_ENDS
    assert all(end <= ends[int(row[0][1:])] for row, end in regrants.ends.items())


def test_a_grant_does_not_end_with_the_membership_of_someone_else(cast):
    """nat needs the grant until the membership begins, nia is a member with grants to keep, and the membership of nox has
    ended.
    """
    now, day = timezone.now(), timedelta(days=1)
    for name in ("nia", "nat", "nox"):
        add_user(name)
    add_group("team")
    add_grant("user:nat", "application:sales.shop", "ADMIN")
    needed = fewest("existing", "final", "nat").grants
    change_grants(grant=[("group:team", address, privilege) for _, address, privilege in needed])
    add_grant("user:nia", "namespace:sales", "ADMIN")
    add_member("nia", "team")
    add_member("nox", "team")
    add_member("nat", "team", Validity(now + day, None))
    Membership.objects.filter(user__username="nox").update(valid_until=now - day)
    regrants = fewest("existing", "final", "nat", "nia")
    assert set(needed) < set(regrants.grants) and regrants.ends == {}


def fewest(before, after, *users, max_grants=1_000):
    return compute_regrants(
        GENERATIONS[before],
        GENERATIONS[after],
        prefer=Prefer.FEWEST,
        scope=RegrantScope(frozenset(users)),
        max_grants=max_grants,
    )


def solutions(tenant):
    """Yield (generation after, lost permissions, regrants) for each user who loses permissions."""
    for before, after in PAIRS:
        for user in tenant.users:
            lost = permissions(tenant, before, after, [user]) - permissions(tenant, after, before, [user])
            if lost:
                yield after, lost, fewest(before, after, user)


def gives_all(tenant, grants, lost, generation):
    """Return whether these grants give all lost permissions back."""
    granted = with_grants(tenant, grants)
    return all(
        reference_is_permitted(granted, Question("user", user, operation, address, generation))
        for user, address, operation in lost
    )


@pytest.mark.parametrize("seed", seeds(range(6)))
def test_the_fewest_grants_give_everything_none_is_superfluous_and_no_smaller_set_does(seed):
    """Of the solutions marked as smallest, those with few smaller sets are compared with each of them."""
    tenant = random_tenant(seed, has_patterns=True)
    store_tenant(tenant)
    generations, compared = set(), 0
    for after, lost, minimal in solutions(tenant):
        generations.add(after)
        assert not tenant.grants & {(f"user:{user}", *grant) for user, *grant in minimal.grants}
        assert gives_all(tenant, minimal.grants, lost, after)
        for grant in minimal.grants:
            assert not gives_all(tenant, set(minimal.grants) - {grant}, lost, after), (after, grant)
        candidates = {
            (user, container, privilege)
            for user, address, _ in lost
            for container in (address, *address.ancestors)
            for privilege in ANY
        }
        smaller_sets = len(minimal.grants) <= 3 and list(combinations(candidates, len(minimal.grants) - 1))
        if minimal.is_smallest and smaller_sets and len(smaller_sets) <= MAX_TRIED_SETS:
            assert not any(gives_all(tenant, grants, lost, after) for grants in smaller_sets), (lost, after)
            compared += 1
    assert generations == set(GENERATIONS) and compared


def test_the_random_tenants_need_both_forced_and_selected_grants():
    """Without both, the test above would prove little."""
    tenant = random_tenant(1)
    store_tenant(tenant)
    found = [minimal for *_, minimal in solutions(tenant)]
    assert any(minimal.only_way for minimal in found)
    assert any(minimal.is_smallest for minimal in found if minimal.only_way < len(minimal.grants))


def test_more_grants_than_the_limit_are_refused(cast):
    add_grant("user:out", "namespace:hr", "ADMIN")
    ensure_entities(states={Address("dataset", f"hr.d{number}"): "live" for number in range(20)})
    with pytest.raises(PlanError, match="more than 10 grants would be needed"):
        fewest("existing", "final", "out", max_grants=10)
    assert len(fewest("existing", "final", "out", max_grants=30).grants) in range(20, 30)
