"""Roles cover assignments exactly, and there are few of them."""

import os
import random
from itertools import combinations
from pathlib import Path

import pytest

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
    """Return the fewest roles by trying all sets of maximal roles."""
    users = [user for user, held in assignments.items() if held]
    candidates = set()
    for size in range(1, len(users) + 1):
        for chosen in combinations(users, size):
            shared = frozenset.intersection(*(frozenset(assignments[user]) for user in chosen))
            if shared:
                candidates.add(frozenset((u, p) for u in users if shared <= assignments[u] for p in shared))
    wanted = pairs(assignments)
    size = 0
    while True:
        if any(frozenset().union(*chosen) == wanted for chosen in combinations(candidates, size)):
            return size
        size += 1


@pytest.mark.parametrize("seed", range(15))
def test_roles_give_exactly_the_assignments(seed):
    assignments = random_assignments(seed, users=12, permissions=20, share=0.1 + seed / 20)
    roles = fewest_roles(assignments)
    assert covered(roles) == pairs(assignments) and len(set(roles)) == len(roles)
    assert all(role.assignments == len(role.users) * len(role.permissions) > 0 for role in roles)
    assert roles == fewest_roles(dict(reversed(assignments.items())))


@pytest.mark.parametrize("seed", range(12))
def test_small_tenants_get_the_minimum_number_of_roles(seed):
    assignments = random_assignments(seed, users=4, permissions=5, share=0.5)
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
