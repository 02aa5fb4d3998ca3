"""Test that all evaluators of requirements agree: the reference, decisions, explanations and list filters."""

import dataclasses
import itertools
import random

import pytest
from django.contrib.auth.models import Group

from entities.models import Entity
from entities.vocabulary import KINDS
from grants.evaluation.engine import answer_questions, check, check_many
from grants.evaluation.entity_filters import visibility_condition
from grants.evaluation.facts import gather_facts
from grants.models import User
from grants.policies.catalogue import GENERATIONS
from grants.policies.decide import is_permitted
from grants.policies.question import Question
from tests.support.random_tenants import (
    all_questions,
    random_tenant,
    reference_is_permitted,
    seeds,
    stored_for_several_tests,
)

SEEDS = seeds(range(12))
FILTERED_OPERATIONS = ("list", "get", "delete", "start", "create", "drop", "delete-all-streams")
pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module", params=SEEDS)
def tenant(request, django_db_setup, django_db_blocker):
    """Store a tenant, once for all tests. No test changes it."""
    with stored_for_several_tests(
        random_tenant(request.param, has_patterns=True, has_roles=True, has_later_kinds=True),
        django_db_blocker,
    ) as stored:
        stored.seed = request.param
        yield stored


def test_decisions_and_explanations_agree_with_the_reference(tenant):
    questions = list(all_questions(tenant, dice=random.Random(tenant.seed)))
    expected = [reference_is_permitted(tenant, question) for question in questions]
    assert True in expected and False in expected
    assert [
        is_permitted(q, facts) for q, facts in zip(questions, gather_facts(questions), strict=True)
    ] == expected
    assert [decision.is_permitted for decision in check_many(questions)] == expected
    assert [answer["decision"] for answer in answer_questions(questions)] == expected


def test_a_question_is_permitted_exactly_if_an_attempt_is_met_and_then_has_no_missing_grants(tenant):
    questions = list(all_questions(tenant, dice=random.Random(tenant.seed + 1_000)))
    for decision in check_many(questions):
        assert decision.is_permitted == any(attempt.is_met for attempt in decision.attempts)
        assert decision.sentence.startswith("Permitted: " if decision.is_permitted else "Denied: ")
        if decision.is_permitted:
            assert decision.missing_grants is None


def test_the_missing_grants_turn_a_denial_into_a_permission_and_none_is_superfluous(tenant):
    questions = list(all_questions(tenant, dice=random.Random(tenant.seed + 2_000)))
    checked = 0
    for decision in check_many(questions):
        holders = tenant.holders(decision.question.subject_type, decision.question.subject)
        if decision.missing_grants is None:
            continue
        missing = [(holders[0], address, privilege) for address, privilege in decision.missing_grants]
        assert missing and not tenant.grants.intersection(missing)
        with_all = dataclasses.replace(tenant, grants=tenant.grants | set(missing))
        assert reference_is_permitted(with_all, decision.question), decision.sentence
        for grant in missing:
            without_one = dataclasses.replace(tenant, grants=tenant.grants | set(missing) - {grant})
            assert not reference_is_permitted(without_one, decision.question)
        checked += 1
    assert checked


def test_the_list_filter_returns_exactly_the_entities_with_permission(tenant):
    entities = list(Entity.objects.all())
    principals = [("user", user.username, user) for user in User.objects.all()]
    principals += [("group", group.name, group) for group in Group.objects.all()]
    for (type_, name, principal), (generation, operation) in itertools.product(
        principals, different_filters()
    ):
        filtered = set(
            Entity.objects.filter(visibility_condition(principal, generation, operations=[operation]))
        )
        questions = {
            e: Question(type_, name, operation, e.address, generation.name)
            for e in entities
            if operation in KINDS[e.kind].operations
        }
        assert filtered == {
            e for e, question in questions.items() if reference_is_permitted(tenant, question)
        }


def different_filters():
    """Return (generation, operation) for each filter: several generations have the same requirements for an
    operation.
    """
    filters = {}
    for operation, generation in itertools.product(FILTERED_OPERATIONS, GENERATIONS.values()):
        requirements = [
            repr(policy and policy.requirement)
            for kind in KINDS
            for policy in [generation.policy(kind, operation)]
            if operation in KINDS[kind].operations
        ]
        filters.setdefault((operation, *requirements), (generation, operation))
    return list(filters.values())


@pytest.mark.parametrize("tenant", [2], indirect=True)
def test_a_thousand_questions_take_one_query(tenant, django_assert_num_queries):
    questions = list(all_questions(tenant, dice=random.Random(1)))[:1_000]
    list(answer_questions(questions[:1]))
    with django_assert_num_queries(1):
        assert len(list(answer_questions(questions))) == len(questions)
    with django_assert_num_queries(1):
        check(questions[0])
