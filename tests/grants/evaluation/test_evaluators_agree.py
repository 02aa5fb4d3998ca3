"""One law, many evaluators: the plain reference, the verdict, the explanation and the list filter always agree."""

import dataclasses
import random

import pytest
from django.contrib.auth.models import Group

from entities.models import Entity
from entities.vocabulary import KINDS
from grants.evaluation.engine import answer_questions, check, check_many
from grants.evaluation.entity_filters import can_see, visibility_condition
from grants.evaluation.facts import gather_facts
from grants.models import User
from grants.policies.catalogue import GENERATIONS
from grants.policies.decide import is_permitted
from grants.policies.question import Question
from tests.support.random_tenants import all_questions, random_tenant, reference_is_permitted, store_tenant

SEEDS = range(12)
pytestmark = pytest.mark.django_db


@pytest.fixture(params=SEEDS)
def tenant(request):
    made = random_tenant(request.param)
    store_tenant(made)
    made.seed = request.param
    return made


def test_verdict_and_explanation_agree_with_the_plain_reference(tenant):
    questions = list(all_questions(tenant, dice=random.Random(tenant.seed)))
    expected = [reference_is_permitted(tenant, question) for question in questions]
    assert True in expected and False in expected
    assert [is_permitted(q, facts) for q, facts in zip(questions, gather_facts(questions), strict=True)] == expected
    assert [decision.is_permitted for decision in check_many(questions)] == expected
    assert [answer["decision"] for answer in answer_questions(questions)] == expected


def test_a_decision_is_allowed_exactly_when_an_attempt_is_met_and_carries_no_missing_set(tenant):
    questions = list(all_questions(tenant, dice=random.Random(tenant.seed + 1_000)))
    for decision in check_many(questions):
        assert decision.is_permitted == any(attempt.is_met for attempt in decision.attempts)
        assert decision.sentence.startswith("Allowed: " if decision.is_permitted else "Denied: ")
        if decision.is_permitted:
            assert decision.missing_grants is None


def test_granting_the_missing_set_turns_the_denial_and_nothing_smaller_does(tenant):
    questions = list(all_questions(tenant, dice=random.Random(tenant.seed + 2_000)))
    turned = 0
    for decision in check_many(questions):
        holders = tenant.holders(decision.question.subject_type, decision.question.subject)
        if decision.missing_grants is None:
            continue
        gaps = [(holders[0], address, privilege) for address, privilege in decision.missing_grants]
        assert gaps and not tenant.grants.intersection(gaps)
        with_all = dataclasses.replace(tenant, grants=tenant.grants | set(gaps))
        assert reference_is_permitted(with_all, decision.question), decision.sentence
        for spared in gaps:
            without_one = dataclasses.replace(tenant, grants=tenant.grants | set(gaps) - {spared})
            assert not reference_is_permitted(without_one, decision.question)
        turned += 1
    assert turned


def test_the_list_filter_shows_exactly_what_the_operation_permits(tenant):
    entities = list(Entity.objects.all())
    principals = [("user", user.username, user) for user in User.objects.all()]
    principals += [("group", group.name, group) for group in Group.objects.all()]
    for type_, name, principal in principals:
        for generation in GENERATIONS.values():
            for operation in ("list", "get", "delete", "start", "create", "drop", "delete-all-streams"):
                shown = set(Entity.objects.filter(visibility_condition(principal, generation, operations=[operation])))
                asked = [e for e in entities if operation in KINDS[e.kind].operations]
                questions = [Question(type_, name, operation, e.address, generation.name) for e in asked]
                assert shown == {e for e, q in zip(asked, questions, strict=True) if reference_is_permitted(tenant, q)}


def test_an_entity_is_seen_exactly_where_list_or_get_permits(tenant):
    user = User.objects.order_by("pk").first()
    for entity in Entity.objects.all():
        for generation in GENERATIONS.values():
            seen = [reference_is_permitted(tenant, Question("user", user.username, operation, entity.address, generation.name))
                    for operation in ("list", "get") if operation in KINDS[entity.kind].operations]
            assert can_see(user, entity, generation) == any(seen)


def test_a_thousand_questions_take_one_query(django_assert_num_queries):
    tenant = random_tenant(1)
    store_tenant(tenant)
    questions = list(all_questions(tenant, dice=random.Random(1)))[:1_000]
    list(answer_questions(questions[:1]))
    with django_assert_num_queries(1):
        assert len(list(answer_questions(questions))) == len(questions)
    with django_assert_num_queries(1):
        check(questions[0])
