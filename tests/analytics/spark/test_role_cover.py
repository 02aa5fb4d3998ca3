"""Roles cover assignments exactly, and there are few of them."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from analytics.spark import role_cover, role_kernel
from analytics.spark.role_cover import fewest_roles

DATA = Path(os.environ.get("ROLE_MINING_DATA", "../shared/data/role-mining"))
# the published minimum numbers of roles
MINIMA = {"hc": 14, "domino": 20, "emea": 34}


def random_assignments(seed, users=8, permissions=8, share=0.4):
    dice = random.Random(seed)
    return {
        user: {permission for permission in range(permissions) if dice.random() < share}
        for user in range(users)
    }


def planted_assignments(seed, users, permissions, roles):
    """Return assignments that `roles` roles give."""
    dice = random.Random(seed)
    planted = [dice.sample(range(permissions), dice.randint(2, 20)) for _ in range(roles)]
    return {
        user: {permission for role in dice.sample(planted, dice.randint(1, 3)) for permission in role}
        for user in range(users)
    }


def pairs(assignments):
    return {(user, permission) for user, held in assignments.items() for permission in held}


def covered(roles):
    return {(user, permission) for role in roles for user in role.users for permission in role.permissions}


def minimum(assignments):
    """Return the fewest of all maximal roles that cover the assignments, by an integer program without limits."""
    shared = {frozenset(held) for held in assignments.values() if held}
    waiting = list(shared)
    while waiting:
        one = waiting.pop()
        for found in {one & other for other in shared} - shared - {frozenset()}:
            shared.add(found)
            waiting.append(found)
    wanted = sorted(pairs(assignments))
    covers = [
        [permission in role and role <= assignments[user] for role in sorted(shared, key=sorted)]
        for user, permission in wanted
    ]
    ones = np.ones(len(shared))
    return round(
        milp(
            ones, constraints=LinearConstraint(np.array(covers), lb=1), integrality=ones, bounds=Bounds(0, 1)
        ).fun
    )


@pytest.mark.parametrize("seed", range(15))
def test_roles_give_exactly_the_assignments(seed):
    assignments = random_assignments(seed, users=12, permissions=20, share=0.1 + seed / 20)
    roles = fewest_roles(assignments)
    assert covered(roles) == pairs(assignments) and len(set(roles)) == len(roles)
    assert all(role.assignments == len(role.users) * len(role.permissions) > 0 for role in roles)
    assert roles == fewest_roles(dict(reversed(assignments.items())))


@pytest.mark.parametrize("seed", range(12))
def test_small_tenants_get_the_minimum_number_of_roles(seed):
    assignments = random_assignments(seed, users=8, permissions=9, share=0.2 + seed / 20)
    assert len(fewest_roles(assignments)) == minimum(assignments)


def test_nobody_with_a_permission_needs_no_role():
    assert fewest_roles({}) == [] and fewest_roles({1: [], 2: set()}) == []


def test_one_user_needs_one_role():
    (role,) = fewest_roles({7: [1, 2, 3]})
    assert (role.users, role.permissions) == ({7}, {1, 2, 3})


@pytest.mark.parametrize("roles", [12, 60])
def test_planted_roles_are_found(roles):
    assignments = planted_assignments(roles, users=300, permissions=800, roles=roles)
    assert len(fewest_roles(assignments)) <= roles


@pytest.mark.parametrize("name", MINIMA)
def test_the_data_sets_of_the_literature_get_the_published_minimum(name):
    path = DATA / f"{name}.txt"
    if not path.exists():
        pytest.skip(f"{path} does not exist")
    assignments = {}
    for line in path.read_text().splitlines():
        user, permission = map(int, line.split())
        assignments.setdefault(user, set()).add(permission)
    roles = fewest_roles(assignments)
    assert covered(roles) == pairs(assignments) and len(roles) == MINIMA[name]


def nested_assignments(seed, users, permissions, roles, omitted=0.0):
    """Return assignments of roles that often contain other roles, with a share of the assignments missing."""
    dice = random.Random(seed)
    planted = []
    for _ in range(roles):
        role = set(dice.sample(range(permissions), dice.randint(1, 12)))
        if planted and dice.random() < 0.6:
            role |= dice.choice(planted)
        planted.append(role)
    return {
        user: {
            permission
            for permission in sorted(set().union(*dice.sample(planted, dice.randint(1, 4))))
            if dice.random() >= omitted
        }
        for user in range(users)
    }


@pytest.mark.parametrize("roles", [20, 60, 120])
def test_nested_roles_are_found(roles):
    assignments = nested_assignments(roles, users=8 * roles, permissions=5 * roles, roles=roles)
    found = fewest_roles(assignments)
    assert covered(found) == pairs(assignments) and len(found) <= roles


@pytest.mark.parametrize("omitted", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("seed", range(5))
def test_tenants_with_nested_roles_get_the_minimum_number_of_roles(seed, omitted):
    assignments = nested_assignments(seed, users=24, permissions=24, roles=7, omitted=omitted)
    found = fewest_roles(assignments)
    assert covered(found) == pairs(assignments) and len(found) == minimum(assignments)


@pytest.mark.parametrize(("name", "limit"), [("MAX_LISTED", 10), ("MAX_ROLES", 5), ("MAX_COMPARED", 10)])
def test_a_kernel_above_a_limit_is_covered_with_few_more_roles(name, limit, monkeypatch):
    assignments = nested_assignments(1, users=150, permissions=100, roles=20, omitted=0.01)
    fewest = len(fewest_roles(assignments))
    monkeypatch.setattr(role_kernel, name, limit)
    found = fewest_roles(assignments)
    assert covered(found) == pairs(assignments) and fewest <= len(found) <= 1.2 * fewest


def test_a_search_that_ends_early_proposes_no_role_twice(monkeypatch):
    assignments = nested_assignments(12, users=80, permissions=80, roles=20, omitted=0.1)
    monkeypatch.setattr(role_cover, "SELECTION_NODES", 0)
    monkeypatch.setattr(role_kernel, "MAX_LISTED", 0)
    found = fewest_roles(assignments)
    assert covered(found) == pairs(assignments) and len(found) == len(set(found))


def test_listed_roles_never_make_the_result_worse(monkeypatch):
    """With many listed roles, the search for the fewest ends early."""
    assignments = nested_assignments(0, users=40, permissions=40, roles=10, omitted=0.1)
    listed = len(fewest_roles(assignments))
    monkeypatch.setattr(role_kernel, "MAX_LISTED", 0)
    assert listed <= len(fewest_roles(assignments))
