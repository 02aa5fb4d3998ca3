"""Plans that replace direct grants by groups change no answer."""

import random
from collections import defaultdict
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from analytics.spark.role_cover import fewest_roles
from entities.address import parse_address
from entities.vocabulary import READ, WRITE
from grants.errors import PlanError, PrincipalError, StalePlan
from grants.models import GroupGrant, UserGrant
from grants.plans.permission_effect import plan_effect
from grants.plans.sources.roles import ProposedRole, role_plan
from grants.policies.catalogue import GENERATIONS
from grants.validity import Validity
from tests.support.authors import COMMAND, all_grants
from tests.support.changes import add_grant, add_group, add_member, apply_plan, create_inverse, renew_plan
from tests.support.random_tenants import all_questions, permitted, random_timed_tenant, store_tenant

ORDERS, CUSTOMERS = parse_address("dataset:sales.orders"), parse_address("dataset:sales.customers")


def share_grants(timed, dice):
    """Give users direct grants of others, most of them without limits, and make a group of two users."""
    direct = [grant for grant in sorted(timed.tenant.grants, key=str) if grant[0].startswith("user:")]
    periods = list(timed.periods.values())
    for user in timed.tenant.users:
        for _, *what in dice.sample(direct, len(direct) * 2 // 3):
            grant = f"user:{user}", *what
            if grant not in timed.tenant.grants or dice.random() < 0.7:
                timed.tenant.grants.add(grant)
                timed.periods[grant] = Validity() if dice.random() < 0.8 else dice.choice(periods)


def proposed(tenant, dice):
    """Return the fewest roles for the direct grants, without regard to periods, and random roles that may not fit the grants."""
    everything = sorted({tuple(what) for _, *what in tenant.grants}, key=str)
    held = defaultdict(set)
    for principal, *what in tenant.grants:
        if principal.startswith("user:"):
            held[principal.removeprefix("user:")].add(everything.index(tuple(what)))
    roles = [(role.users, role.permissions) for role in fewest_roles(held)]
    roles += [
        (dice.sample(sorted(held), 2), dice.sample(range(len(everything)), min(5, len(everything))))
        for _ in range(5)
    ]
    return [
        ProposedRole(
            number, f"role-{number}", frozenset(users), frozenset(map(everything.__getitem__, permissions))
        )
        for number, (users, permissions) in enumerate(roles, start=1)
    ]


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(4))
def test_no_decision_of_a_random_tenant_changes_now_or_later(seed):
    timed, dice, now = random_timed_tenant(seed + 40), random.Random(seed), timezone.now()
    share_grants(timed, dice)
    tenant = timed.tenant
    store_tenant(tenant, timed.periods)
    questions = [
        question
        for _ in range(3)
        for question in all_questions(tenant, dice=dice)
        if question.subject_type == "user"
    ]
    moments = [now, *(moment for moment in timed.moments if moment > now)]
    before, direct = permitted(questions, moments), UserGrant.objects.count()
    assert True in before[0] and False in before[0]
    plan = role_plan.create(COMMAND, run=1, roles=proposed(tenant, dice))
    assert plan.effect["groups"] and plan.effect["revokes"] > 5 and "remain" in plan.recipe["note"]
    assert not any(plan_effect(plan, generation).has_effect for generation in GENERATIONS.values())
    apply_plan(plan)
    assert UserGrant.objects.count() == direct - plan.effect["revokes"]
    assert permitted(questions, moments) == before
    apply_plan(create_inverse(plan))
    assert UserGrant.objects.count() == direct and permitted(questions, moments) == before


def role(users, *permissions, number=1, group="readers"):
    return ProposedRole(number, group, frozenset(users), frozenset(permissions))


@pytest.fixture
def shared(cast):
    """Give `dee` and `out` the same three grants; one of `out` ends."""
    for user in ("dee", "out"):
        add_grant(f"user:{user}", ORDERS, READ)
        add_grant(f"user:{user}", CUSTOMERS, READ)
    add_grant("user:dee", ORDERS, WRITE)
    add_grant("user:out", ORDERS, WRITE, Validity(None, timezone.now() + timedelta(days=5)))


BOTH = ("dee", "out")
ALL_THREE = ((ORDERS, READ), (CUSTOMERS, READ), (ORDERS, WRITE))


def test_a_grant_with_an_end_remains_direct_and_the_plan_says_so(shared):
    plan = role_plan.create(COMMAND, run=7, roles=[role(BOTH, *ALL_THREE)])
    assert plan.recipe == {
        "run": 7,
        "roles": [1],
        "note": "Direct grants of 1 permission of the roles remain: not all users of the role hold the permission now and "
        "without an end.",
    }
    apply_plan(plan)
    assert {grant for grant in all_grants() if "sales.orders" in grant[1] and grant[2] == "WRITE"} >= {
        ("user:dee", "dataset:sales.orders", "WRITE"),
        ("user:out", "dataset:sales.orders", "WRITE"),
    }
    assert ("group:readers", "dataset:sales.orders", "READ") in all_grants()
    assert not {
        grant for grant in all_grants() if grant[0] in ("user:dee", "user:out") and grant[2] == "READ"
    }


def test_a_grant_that_two_roles_give_is_revoked_once(shared):
    roles = [
        role(BOTH, (ORDERS, READ), (CUSTOMERS, READ)),
        role(["dee"], (ORDERS, READ), (ORDERS, WRITE), number=2, group="writers"),
    ]
    plan = role_plan.create(COMMAND, run=1, roles=roles)
    assert (plan.effect["groups"], plan.effect["joins"], plan.effect["grants"], plan.effect["revokes"]) == (
        2,
        3,
        4,
        5,
    )


def test_a_group_with_exactly_these_users_is_used_and_another_one_is_refused(shared):
    add_group("readers")
    add_member("dee", "readers")
    with pytest.raises(
        PlanError, match="not exactly the users of role 1 without an end: choose another name"
    ):
        role_plan.create(COMMAND, run=1, roles=[role(BOTH, *ALL_THREE)])
    add_member("out", "readers")
    plan = role_plan.create(COMMAND, run=1, roles=[role(BOTH, *ALL_THREE)])
    assert (plan.effect["groups"], plan.effect["joins"], plan.effect["grants"]) == (0, 0, 2)
    add_member("ned", "readers")
    with pytest.raises(StalePlan):
        apply_plan(plan)
    with pytest.raises(PlanError, match="run the analysis again"):
        renew_plan(plan)
    assert not GroupGrant.objects.filter(group__name="readers").exists()


def test_a_membership_that_ends_does_not_count_as_one_of_the_role(shared):
    add_group("readers")
    add_member("dee", "readers")
    add_member("out", "readers", Validity(None, timezone.now() + timedelta(days=1)))
    with pytest.raises(PlanError, match="not exactly the users"):
        role_plan.create(COMMAND, run=1, roles=[role(BOTH, *ALL_THREE)])


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ([role(["dee", "ned"], (ORDERS, WRITE))], "there is nothing to replace"),
        ([role(["dee", "nobody"], (ORDERS, READ))], "there is nothing to replace"),
        ([], "there is nothing to replace"),
        (
            [role(BOTH, (ORDERS, READ)), role(["dee"], (ORDERS, READ), number=2)],
            "roles 1 and 2 have the same group readers",
        ),
        ([role(BOTH, (ORDERS, READ), group="")], "name"),
        ([role(BOTH, (ORDERS, READ), group="OPERATORS")], "name"),
    ],
)
def test_roles_that_cannot_become_groups_are_refused(shared, roles, message):
    with pytest.raises((PlanError, PrincipalError), match=message):
        role_plan.create(COMMAND, run=1, roles=roles)
    assert not Group.objects.filter(name="readers").exists()
