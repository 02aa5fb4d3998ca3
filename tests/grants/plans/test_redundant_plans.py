"""Plans that take away redundant access change no answer."""

import random
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from grants.change_set import Leave
from grants.errors import PlanError, StaleBase
from grants.models.requests import NamespaceApprovers
from grants.plan_items import changes_of_plan
from grants.plans.permission_effect import plan_effect
from grants.plans.sources.redundant import RedundantPart, redundant_grants, redundant_plan
from grants.plans.staleness import invalidating_line
from grants.policies.catalogue import GENERATIONS
from grants.policies.principals import group_text, type_and_name
from grants.validity import Validity
from tests.support.authors import COMMAND, all_grants
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    apply_plan,
    change_grants,
    create_inverse,
    items_of,
    remove_group,
    remove_member,
    renew_plan,
    set_user_active,
)
from tests.support.random_tenants import all_questions, permitted, random_timed_tenant, store_tenant

ORDERS = "dataset:sales.orders"
DIRECT, THROUGH = ("user:grp", ORDERS, "WRITE"), ("group:operators", ORDERS, "WRITE")


def add_copies_of_group_grants(timed, dice):
    """Give members of groups some grants of the group themselves, for random periods."""
    periods = list(timed.periods.values())
    for principal, address, privilege in sorted(timed.tenant.grants, key=str):
        for user in timed.tenant.groups.get(type_and_name(principal)[1], ()):
            direct = f"user:{user}", address, privilege
            if direct not in timed.tenant.grants and dice.random() < 0.5:
                timed.tenant.grants.add(direct)
                timed.periods[direct] = dice.choice(periods)


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(4))
def test_no_decision_of_a_random_tenant_changes_now_or_later(seed):
    timed, dice, now = random_timed_tenant(seed + 20), random.Random(seed), timezone.now()
    add_copies_of_group_grants(timed, dice)
    store_tenant(timed.tenant, timed.periods)
    questions = [
        question
        for _ in range(3)
        for question in all_questions(timed.tenant, dice=dice)
        if question.subject_type == "user"
    ]
    moments = [now, *(moment for moment in timed.moments if moment > now)]
    before, redundant = permitted(questions, moments), set(redundant_grants().grant_keys())
    assert redundant and len({*map(tuple, before)}) > 1 and True in before[0]
    plan = redundant_plan.create(COMMAND)
    assert plan.effect["revokes"] == len(redundant)
    assert not any(plan_effect(plan, generation).has_effect for generation in GENERATIONS.values())
    apply_plan(plan)
    assert (
        not redundant & {(*key,) for key in redundant_grants().grant_keys()}
        and not redundant_grants().exists()
    )
    assert permitted(questions, moments) == before


def add_groups_within_others(timed, dice):
    """Add to each group one that gives the same, one that gives a part, and one that gives nothing, with some of its
    members for random periods.
    """
    tenant, periods = timed.tenant, list(timed.periods.values())
    for name, members in list(tenant.groups.items()):
        given = sorted((grant for grant in tenant.grants if grant[0] == group_text(name)), key=str)
        for other, copied in ((f"a-{name}", given), (f"z-{name}", given[::2]), (f"no-{name}", [])):
            tenant.groups[other] = [user for user in members if dice.random() < 0.8]
            for user in tenant.groups[other]:
                timed.periods[user, other] = dice.choice([timed.periods[user, name], dice.choice(periods)])
            for _, *what in copied:
                tenant.grants.add((group_text(other), *what))
                period = timed.periods[group_text(name), *what]
                timed.periods[group_text(other), *what] = period if dice.random() < 0.9 else Validity()


@pytest.mark.django_db
@pytest.mark.parametrize("seed", [2, 24])
def test_all_parts_together_change_no_decision_of_a_random_tenant_now_or_later(seed):
    timed, dice, now = random_timed_tenant(seed), random.Random(seed), timezone.now()
    for user, is_active in (("kim", True), ("lou", True), ("gone", False)):
        timed.tenant.users[user] = is_active, True
        for group, members in timed.tenant.groups.items():
            members.append(user)
            timed.periods[user, group] = Validity()
    add_copies_of_group_grants(timed, dice)
    add_groups_within_others(timed, dice)
    store_tenant(timed.tenant, timed.periods)
    questions = list(all_questions(timed.tenant, dice=dice))
    moments = [now, *(moment for moment in timed.moments if moment > now)]
    before = permitted(questions, moments)
    plans = {part: redundant_plan.create(COMMAND, part=part) for part in RedundantPart}
    for plan in plans.values():
        assert not any(plan_effect(plan, generation).has_effect for generation in GENERATIONS.values())
    together, *parts = [
        set(changes_of_plan(plans[part])) for part in ("all", "grants", "memberships", "inactive")
    ]
    assert together == set().union(*parts) and all(parts)
    apply_plan(plans["all"])
    assert permitted(questions, moments) == before
    for part in RedundantPart:
        with pytest.raises(PlanError, match="there is nothing to"):
            redundant_plan.create(COMMAND, part=part)


def leaves(plan):
    return [(change.user, change.group) for change in changes_of_plan(plan) if isinstance(change, Leave)]


@pytest.fixture
def twins(cast):
    """Create two groups that give the same, with the same member."""
    for name in ("twin-a", "twin-b"):
        add_group(name)
        add_member("ned", name)
        change_grants(grant=[(group_text(name), ORDERS, "WRITE")])


def test_of_two_groups_that_give_the_same_the_membership_that_ends_last_remains(twins):
    assert leaves(redundant_plan.create(COMMAND, part="memberships")) == [("ned", "twin-b")]
    add_member("ned", "twin-a", Validity(None, timezone.now() + timedelta(days=1)))
    assert leaves(redundant_plan.create(COMMAND, part="memberships")) == [("ned", "twin-a")]


@pytest.mark.parametrize(
    "change",
    [
        lambda: change_grants(revoke=[("group:twin-a", ORDERS, "WRITE")]),
        lambda: change_grants(grant=[("group:twin-b", ORDERS, "READ")]),
        lambda: remove_member("ned", "twin-a"),
        lambda: remove_group("twin-a", revokes_grants=True),
    ],
    ids=["the other group gives less", "the group gives more", "the other membership", "the other group"],
)
def test_a_plan_that_ends_a_membership_is_stale_if_it_would_have_an_effect(twins, change):
    plan = redundant_plan.create(COMMAND, part="memberships")
    change()
    with pytest.raises(StaleBase):
        apply_plan(plan)


def test_a_membership_in_a_group_with_another_purpose_remains(twins):
    group = Group.objects.get(name="twin-b")
    NamespaceApprovers.objects.create(namespace="sales", group=group)
    with pytest.raises(PlanError, match="every membership has an effect"):
        redundant_plan.create(COMMAND, part="memberships")


def test_the_plan_for_inactive_users_takes_away_their_grants_and_memberships(cast):
    grants = [("user:grp", ORDERS, "WRITE"), ("user:grp", "dataset:hr.people", "READ")]
    change_grants(grant=grants)
    set_user_active("grp", active=False)
    members = {("grp", group) for group in cast["grp"].groups.values_list("name", flat=True)}
    in_sales = redundant_plan.create(COMMAND, part="inactive", namespace="namespace:sales")
    assert ("revoke", *grants[0]) in items_of(in_sales) and not leaves(in_sales)
    plan = redundant_plan.create(COMMAND, part="inactive")
    assert {("revoke", *grant) for grant in grants} <= {*items_of(plan)} and members
    assert members <= {*leaves(plan)}


def test_an_unknown_part_and_memberships_of_a_namespace_are_refused(cast):
    with pytest.raises(PlanError, match="`part` must be one of grants, memberships, inactive, all"):
        redundant_plan.create(COMMAND, part="people")
    with pytest.raises(PlanError, match="a membership belongs to no namespace"):
        redundant_plan.create(COMMAND, part="memberships", namespace="namespace:sales")


@pytest.fixture
def redundant_grant(cast):
    """Make exactly one direct grant redundant."""
    change_grants(grant=[DIRECT, THROUGH])
    assert [
        (principal, str(address), str(privilege))
        for principal, address, privilege in redundant_grants().grant_keys()
    ] == [DIRECT]


def test_a_plan_revokes_the_direct_grants_and_keeps_those_of_the_groups(redundant_grant):
    before = all_grants()
    plan = redundant_plan.create(COMMAND, namespace="namespace:sales")
    assert items_of(plan) == [("revoke", *DIRECT)] and plan.recipe == {
        "namespace": "namespace:sales",
        "part": "grants",
    }
    apply_plan(plan)
    assert before - all_grants() == {DIRECT}
    apply_plan(create_inverse(plan))
    assert all_grants() == before
    with pytest.raises(PlanError, match="no direct grant in namespace:hr is redundant"):
        redundant_plan.create(COMMAND, namespace="namespace:hr")
    with pytest.raises(PlanError, match="is not a namespace"):
        redundant_plan.create(COMMAND, namespace=ORDERS)


@pytest.mark.parametrize(
    "change",
    [
        lambda: change_grants(revoke=[THROUGH]),
        lambda: remove_member("grp", "operators"),
    ],
    ids=["the grant of the group", "the membership"],
)
def test_a_plan_is_stale_without_what_gives_the_privilege_too(redundant_grant, change):
    plan = redundant_plan.create(COMMAND)
    assert invalidating_line(plan) is None
    change()
    with pytest.raises(StaleBase):
        apply_plan(plan)
    with pytest.raises(PlanError, match="no direct grant is redundant"):
        renew_plan(plan)
    assert DIRECT in all_grants()


def test_a_grant_that_lasts_longer_than_that_of_the_group_is_not_redundant(cast):
    tomorrow = timezone.now().replace(microsecond=0) + timedelta(days=1)
    change_grants(grant=[DIRECT, (*THROUGH, Validity(None, tomorrow))])
    assert not redundant_grants().exists()
    add_grant(*DIRECT, Validity(None, tomorrow))
    assert redundant_grants().exists()
