"""A user who gets the access of a colleague without a namespace has the colleague's decisions minus the namespace."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from django.utils import timezone

from grants.evaluation.engine import check_many
from grants.plans.sources.like import like_plan
from grants.validity import at_time
from tests.support.authors import COMMAND
from tests.support.changes import apply_plan
from tests.support.random_tenants import (
    all_questions,
    random_tenant,
    random_timed_tenant,
    reference_is_permitted,
    store_tenant,
)

pytestmark = pytest.mark.django_db


def like_without(source, namespace):
    return like_plan.create(author=COMMAND, source=source, target="newcomer", without=[str(namespace)])


def subject_with_groups(tenant):
    """Return the active user who is in most groups, and the namespace in which the user's groups hold most."""
    active = [name for name, state in tenant.users.items() if state == (True, True)]
    user = max(active, key=lambda name: sum(name in members for members in tenant.groups.values()))
    reached = Counter(
        address.namespace
        for holder, address, _ in tenant.grants
        if address.namespace and holder in tenant.holders("user", user)
    )
    return user, reached.most_common(1)[0][0]


@pytest.mark.parametrize("seed", range(8))
def test_without_a_namespace_the_user_has_the_decisions_of_the_colleague_minus_the_namespace(seed):
    tenant = random_tenant(seed, has_roles=True)
    source, namespace = subject_with_groups(tenant)
    tenant.users["newcomer"] = (True, True)
    store_tenant(tenant, has_periods=False)
    plan = like_without(source, namespace)
    assert plan.title.endswith(f"like user:{source} without {namespace}")
    apply_plan(plan)
    tenant.grants = {grant for grant in tenant.grants if grant[1].namespace != namespace}
    questions = [
        replace(question, subject_type="user", subject=source)
        for question in all_questions(tenant, dice=random.Random(seed))
    ]
    answers = check_many([replace(question, subject="newcomer") for question in questions])
    assert [answer.is_permitted for answer in answers] == [
        reference_is_permitted(tenant, question) for question in questions
    ]


@pytest.mark.parametrize("seed", range(4))
def test_without_a_namespace_the_user_never_has_more_than_the_colleague_at_any_time(seed):
    timed = random_timed_tenant(seed)
    source, namespace = subject_with_groups(timed.tenant)
    timed.tenant.users["newcomer"] = (True, True)
    store_tenant(timed.tenant, timed.periods)
    apply_plan(like_without(source, namespace))
    questions = [
        replace(question, subject_type="user", subject=source)
        for question in all_questions(timed.tenant, dice=random.Random(seed))
    ]
    for moment in timed.moments:
        if moment < timezone.now():
            continue
        with at_time(moment):
            answers = check_many([replace(question, subject="newcomer") for question in questions])
        at = timed.at(moment)
        at.grants = {grant for grant in at.grants if grant[1].namespace != namespace}
        extra = [
            question
            for question, answer in zip(questions, answers, strict=True)
            if answer.is_permitted and not reference_is_permitted(at, question)
        ]
        assert not extra
