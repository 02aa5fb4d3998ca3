"""Plans that revoke redundant direct grants change no answer."""

import random
from datetime import timedelta

import pytest
from django.utils import timezone

from grants.errors import PlanError, StaleBase
from grants.evaluation.engine import check_many
from grants.plans.permission_effect import plan_effect
from grants.plans.sources.redundant import redundant_grants, redundant_plan
from grants.plans.staleness import invalidating_line
from grants.policies.catalogue import GENERATIONS
from grants.validity import Validity, at_time
from tests.support.authors import COMMAND, all_grants
from tests.support.changes import (
    add_grant,
    apply_plan,
    change_grants,
    create_inverse,
    items_of,
    remove_member,
    renew_plan,
)
from tests.support.random_tenants import all_questions, random_timed_tenant, store_tenant

ORDERS = "dataset:sales.orders"
DIRECT, THROUGH = ("user:grp", ORDERS, "WRITE"), ("group:operators", ORDERS, "WRITE")


def permitted(questions, moments):
    answers = []
    for moment in moments:
        with at_time(moment):
            answers.append([decision.is_permitted for decision in check_many(questions)])
    return answers


def add_copies_of_group_grants(timed, dice):
    """Give members of groups some grants of the group themselves, for random periods."""
    periods = list(timed.periods.values())
    for principal, address, privilege in sorted(timed.tenant.grants, key=str):
        for user in timed.tenant.groups.get(principal.removeprefix("group:"), ()):
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
    assert items_of(plan) == [("revoke", *DIRECT)] and plan.recipe == {"namespace": "namespace:sales"}
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
