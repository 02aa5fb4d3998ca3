"""Test that a summary of a decision lists the first missing grants and counts the others."""

import itertools
import random
from dataclasses import dataclass
from functools import partial

import pytest

from entities.address import Address, parse_address
from entities.models import Entity, State
from entities.selectors import entity_at
from grants.evaluation.engine import check, check_summary
from grants.evaluation.entity_filters import visibility_condition
from grants.evaluation.missing_summary import visible_entities_without_privilege
from grants.evaluation.visibility import visibility_of
from grants.models import User
from grants.policies.catalogue import GENERATIONS
from grants.policies.decide import EntitiesWithoutPrivilege
from grants.policies.explain import ALL_LIVE, Attempt, Decision, redact
from grants.policies.grammar import FactsRead
from grants.policies.policy import Generation
from grants.policies.question import Question
from tests.support.random_tenants import Tenant, random_tenant, seeds, store_tenant, stored_for_several_tests

pytestmark = pytest.mark.django_db


@dataclass
class StoredTenant:
    """A stored tenant. decisions: the complete decision of every question with a rule over all live entities
    in a namespace.
    """

    seed: int
    decisions: list[Decision]

    @property
    def questions(self) -> list[Question]:
        return [decision.question for decision in self.decisions]


@pytest.fixture(scope="module", params=seeds(range(4)))
def tenant(request, django_db_setup, django_db_blocker):
    """Store a tenant and compute the complete decisions, once for all tests. No test changes the tenant."""
    with stored_for_several_tests(
        random_tenant(request.param, has_patterns=True), django_db_blocker
    ) as random_data:
        with django_db_blocker.unblock():
            stored = StoredTenant(
                request.param,
                [check(question) for question in questions_about_all_live_entities(random_data)],
            )
        yield stored


def questions_about_all_live_entities(tenant: Tenant) -> list[Question]:
    """Return every question about a namespace with a rule over all live entities, for every subject."""
    subjects = [("user", name) for name in (*tenant.users, "nobody")] + [
        ("group", name) for name in tenant.groups
    ]
    namespaces = [address for address in tenant.entities if address.kind == "namespace"]
    operations = ("delete", "delete-all-streams", "delete-all-dataset-modules")
    questions = []
    for generation, namespace, operation in itertools.product(GENERATIONS.values(), namespaces, operations):
        requirement = generation.policy("namespace", operation).requirement
        if FactsRead(requirement).all_live:
            questions += [Question(*subject, operation, namespace, generation.name) for subject in subjects]
    return questions


def nodes(attempts) -> list[Attempt]:
    return [node for attempt in attempts for node in (attempt, *nodes(attempt.parts))]


def assert_is_summary(summary: Decision, full: Decision, max_listed: int) -> None:
    """Assert that the summary equals the complete decision, except that it counts all missing grants but the
    first.
    """
    for name in ("is_permitted", "sentence", "reason", "source"):
        assert getattr(summary, name) == getattr(full, name)
    for node, full_node in zip(nodes(summary.attempts), nodes(full.attempts), strict=True):
        for name in ("requirement", "is_met", "words", "grants", "checked_count"):
            assert getattr(node, name) == getattr(full_node, name)
        is_shortened = node.requirement == ALL_LIVE
        assert node.missing_grants == (
            full_node.missing_grants[:max_listed] if is_shortened else full_node.missing_grants
        )
        assert len(node.missing_grants) + node.unlisted_count == len(full_node.missing_grants)
    assert (summary.missing_grants is None) == (full.missing_grants is None)
    if full.missing_grants is not None:
        assert summary.missing_grants[:max_listed] == full.missing_grants[:max_listed]
        assert len(summary.missing_grants) + summary.unlisted_count == len(full.missing_grants)


@pytest.mark.parametrize("max_listed", [1, 3, 1_000])
def test_a_summary_agrees_with_the_complete_decision(tenant, max_listed):
    shortened = 0
    for full in tenant.decisions:
        summary = check_summary(full.question, max_listed)
        assert_is_summary(summary, full, max_listed)
        shortened += summary.unlisted_count > 0
    assert shortened or max_listed > 1


def expected_redaction(full: Decision, visible: set[Address]) -> tuple[str, list, list]:
    """Return the expected redaction for a reader who sees only the entities `visible`, computed by loops over
    lists.

    Return the sentence, the missing grants, and the missing grants and the number of checked entities of each
    attempt.
    """
    on_all_live = {
        address
        for node in nodes(full.attempts)
        if node.requirement == ALL_LIVE
        for address, _ in node.missing_grants
    }
    if on_all_live <= visible:
        return (
            full.sentence,
            full.missing_grants,
            [(node.missing_grants, node.checked_count) for node in nodes(full.attempts)],
        )
    redacted_sentence = (
        f"Denied: {full.question.principal} lacks privileges on entities that you may not see."
    )
    attempts = []
    for node in nodes(full.attempts):
        is_redacted = (
            node.requirement == ALL_LIVE and not {address for address, _ in node.missing_grants} <= visible
        )
        visible_missing = tuple(grant for grant in node.missing_grants if grant[0] in visible)
        attempts.append((visible_missing, 0) if is_redacted else (node.missing_grants, node.checked_count))
    return full.sentence if full.is_permitted else redacted_sentence, None, attempts


def visible_summary(
    question: Question, reader: User, generation: Generation, max_listed: int, attempt: Attempt
) -> EntitiesWithoutPrivilege | None:
    visibility = visibility_of(reader, generation, inside=entity_at(attempt.address))
    return visible_entities_without_privilege(question, attempt, visibility, max_listed)


def visible_addresses(reader: User, generation: Generation) -> set[Address]:
    rows = Entity.objects.filter(visibility_condition(reader, generation)).order_by()
    return {Address(kind, key) for kind, key in rows.values_list("kind", "key")}


@pytest.mark.parametrize("few_grants", [5_000, -1])
def test_a_redacted_summary_lists_only_entities_that_its_reader_sees(tenant, few_grants, monkeypatch):
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS", few_grants)
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS_INSIDE", few_grants)
    dice, max_listed, redacted = random.Random(tenant.seed), 2, 0
    readers = list(User.objects.order_by("pk"))
    visible = {
        (reader, name): visible_addresses(reader, GENERATIONS[name])
        for reader in readers
        for name in GENERATIONS
    }
    for full in tenant.decisions:
        reader, generation = dice.choice(readers), GENERATIONS[dice.choice(list(GENERATIONS))]
        visible_entities = partial(visible_summary, full.question, reader, generation, max_listed)
        summary = redact(check_summary(full.question, max_listed), visible_entities)
        sentence, missing, attempts = expected_redaction(full, visible[reader, generation.name])
        assert summary.sentence == sentence and (summary.missing_grants is None) == (missing is None)
        for node, (grants, total) in zip(nodes(summary.attempts), attempts, strict=True):
            expected = grants[:max_listed] if node.requirement == ALL_LIVE else grants
            assert (node.missing_grants, node.checked_count) == (expected, total)
            assert node.unlisted_count == len(grants) - len(expected)
        redacted += missing is None and not summary.is_permitted
    assert redacted


def test_a_summary_takes_at_most_six_queries(tenant, django_assert_max_num_queries):
    for question in tenant.questions[:20]:
        with django_assert_max_num_queries(6):
            check_summary(question, 3)


@pytest.mark.parametrize("neighbour", ["AB1", "Ab1", "ab_1", "ab10"])
def test_a_summary_lists_no_entities_of_a_similar_namespace(neighbour):
    tenant = Tenant(users={"ann": (True, True)})
    for namespace in ("ab1", neighbour):
        addresses = [f"namespace:{namespace}", *(f"dataset:{namespace}.d{number}" for number in range(3))]
        tenant.entities |= {parse_address(address): State.LIVE for address in addresses}
    store_tenant(tenant)
    question = Question("user", "ann", "delete", parse_address("namespace:ab1"), "final")
    summary, full = check_summary(question, 2), check(question)
    assert not full.is_permitted and len(full.missing_grants) == 4
    assert_is_summary(summary, full, 2)
