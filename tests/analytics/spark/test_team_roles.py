"""Roles that people would define agree with plain loops, and recover planted roles in spite of omissions."""

import random
from itertools import chain

import pytest

from analytics.spark.role_cover import Role, fewest_roles
from analytics.spark.team_roles import TEAM_WEIGHT, TYPICAL_SHARE, team_roles

EPSILON = 1e-9


def role_of(assignments, users, typical, surplus):
    chosen = {
        user for user in users if len(assignments[user] & typical) >= (1 - surplus) * len(typical) - EPSILON
    }
    held = chain.from_iterable(assignments[user] for user in chosen)
    permissions = {
        permission
        for permission in set(held)
        if sum(permission in assignments[user] for user in chosen) >= (1 - surplus) * len(chosen) - EPSILON
    }
    return Role(frozenset(chosen), frozenset(permissions)) if len(chosen) > 1 and permissions else None


def typical_of(assignments, seed):
    counts = {}
    for user in seed:
        for permission in assignments[user]:
            counts[permission] = counts.get(permission, 0) + 1
    return {
        permission for permission, count in counts.items() if count >= TYPICAL_SHARE * len(seed) - EPSILON
    }


def reference(assignments, teams, surplus):
    """Return the roles by plain loops."""
    assignments = {user: held for user, held in assignments.items() if held}
    candidates = {}
    for team in teams:
        seed = {user for user in team if user in assignments}
        if len(seed) > 1 and len(seed) >= TYPICAL_SHARE * len(team):
            typical = typical_of(assignments, seed)
            if typical and (role := role_of(assignments, seed, typical, surplus)):
                candidates[role] = TEAM_WEIGHT
    for permission in sorted(set().union(*assignments.values())):
        seed = {user for user, held in assignments.items() if permission in held}
        if len(seed) > 1 and (
            role := role_of(assignments, assignments, typical_of(assignments, seed), surplus)
        ):
            candidates.setdefault(role, 1)
    uncovered, chosen = {user: set(held) for user, held in assignments.items()}, []
    while True:
        gains = {
            role: sum(len(uncovered[user] & role.permissions) for user in role.users) for role in candidates
        }
        worth = {role: gain for role, gain in gains.items() if gain > len(role.users) + len(role.permissions)}
        if not worth:
            return chosen
        # the first of those that replace the most
        role = max(worth, key=lambda role: worth[role] * candidates[role])
        chosen.append(role)
        for user in role.users:
            uncovered[user] -= role.permissions


def planted(seed, omitted, users=120, permissions=300, roles=15):
    """Return assignments that planted roles give, of which a share is missing, and the permissions of each role."""
    dice = random.Random(seed)
    given = [frozenset(dice.sample(range(permissions), dice.randint(5, 20))) for _ in range(roles)]
    return {
        user: {
            permission
            for permission in sorted(frozenset().union(*dice.sample(given, dice.randint(1, 2))))
            if dice.random() >= omitted
        }
        for user in range(users)
    }, set(given)


@pytest.mark.parametrize("surplus", [0.0, 0.1, 0.25])
@pytest.mark.parametrize("seed", range(10))
def test_roles_agree_with_plain_loops(seed, surplus):
    dice = random.Random(seed)
    assignments, _ = planted(seed, 0.1, users=25, permissions=30, roles=4)
    assignments[25] = set()
    teams = [dice.sample(range(26), dice.randint(0, 8)) for _ in range(5)]
    teams.append([user for user in range(25) if 0 in assignments[user]])
    roles = team_roles(assignments, teams, surplus=surplus)
    assert roles and roles == reference(assignments, teams, surplus)
    for role in roles:
        lacking = sum(len(role.permissions - assignments[user]) for user in role.users)
        assert lacking <= surplus * role.assignments + EPSILON


def test_five_percent_omissions_hide_most_planted_roles_from_the_fewest_and_not_from_those_of_people():
    found = {"fewest": 0, "teams": 0, "surplus": 0}
    for seed in range(5):
        assignments, roles = planted(seed, 0.05)
        for name, proposed in (
            ("fewest", fewest_roles(assignments)),
            ("teams", team_roles(assignments)),
            ("surplus", team_roles(assignments, surplus=0.2)),
        ):
            found[name] += len(roles & {role.permissions for role in proposed})
    assert found["fewest"] < 15 and found["teams"] > 45 and found["surplus"] > 60, found


def test_a_team_is_preferred_to_another_role_that_replaces_as_much():
    assignments = {user: {1, 2, 3, 4} for user in range(6)}
    team = [0, 1, 2, 3]
    assert team_roles(assignments)[0].users == frozenset(range(6))
    assert team_roles(assignments, [team])[0].users == frozenset(team)


def test_nothing_is_proposed_without_several_users_with_the_same_grants():
    assert team_roles({}) == team_roles({1: {1, 2, 3}}) == team_roles({1: {1}, 2: {2}}) == []
    # two memberships and one grant would replace two grants
    assert team_roles({1: {1}, 2: {1}}) == []
