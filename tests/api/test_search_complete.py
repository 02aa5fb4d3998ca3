"""Each search returns exactly what evaluations permit: for users and groups, in every generation and with any
page size.
"""

import random
from collections import Counter

import pytest

from entities.address import Address
from entities.vocabulary import CONTAINER_KINDS, KINDS, Privilege
from grants.evaluation import authzen_search, principal_filters
from grants.evaluation.authzen_search import search_entities, search_operations, search_principals
from grants.evaluation.facts import gather_facts
from grants.policies.catalogue import GENERATIONS
from grants.policies.decide import is_permitted
from grants.policies.question import Question, context_members
from tests.support.random_tenants import _members, random_tenant, seeds, stored_for_several_tests

SEEDS = seeds(range(2))
pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module", params=SEEDS)
def stored_tenant(request, django_db_setup, django_db_blocker):
    """A tenant that no test changes, with the decisions that tests needed: stored once for all tests."""
    with stored_for_several_tests(
        random_tenant(request.param, has_patterns=True, has_roles=True), django_db_blocker
    ) as created:
        created.seed, created.decisions = request.param, {}
        yield created


@pytest.fixture
def tenant(stored_tenant):
    """The stored tenant with new dice, so that every strategy searches for the same."""
    stored_tenant.dice = random.Random(stored_tenant.seed)
    return stored_tenant


STRATEGIES = {
    "collected": (2_000, 5_000, 50_000, 20_000),
    "among the first": (-1, 3, 50_000, 20_000),
    "one by one": (-1, 0, -1, -1),
    "all": (-1, 1, -1, 5),
}


@pytest.fixture(params=STRATEGIES)
def strategy(request, monkeypatch):
    """Force each search strategy: from the grants, and along the entities or principals."""
    force_strategy(monkeypatch, request.param)


def force_strategy(monkeypatch, strategy):
    few, first, many, inside = STRATEGIES[strategy]
    monkeypatch.setattr(authzen_search, "FEW_GRANTS", few)
    monkeypatch.setattr(authzen_search, "MAX_COLLECTED", (few, many))
    monkeypatch.setattr(authzen_search, "MAX_CHECKED", (first, first))
    monkeypatch.setattr(principal_filters, "MAX_GRANTS_INSIDE", inside)


def operations():
    """Yield two operations or privileges of each kind, in some generation, for each requirement that a search
    depends on.
    """
    for kind in KINDS:
        counts = Counter()
        for operation in (*KINDS[kind].operations, *map(str, Privilege)):
            for generation in GENERATIONS:
                policy = Question("user", "", operation, Address(kind, ""), generation).policy
                requirement = repr(policy and policy.requirement)
                counts[requirement] += 1
                if counts[requirement] <= 2:
                    yield kind, operation, generation


def permitted_questions(tenant, questions):
    """Return the permitted questions. Each question is decided once for all strategies."""
    new = [question for question in questions if question not in tenant.decisions]
    tenant.decisions.update(
        (question, is_permitted(question, facts))
        for question, facts in zip(new, gather_facts(new), strict=True)
    )
    return [question for question in questions if tenant.decisions[question]]


def all_pages(find, question, size):
    ids, after = [], ""
    while True:
        page = find(question, after=after, max_rows=size)
        assert not set(ids).intersection(page.ids), "a page repeats results of another page"
        ids += page.ids
        assert page.total in (None, len(ids) if not page.has_more else page.total)
        if not page.has_more:
            return ids
        after = page.ids[-1]


def test_a_resource_search_finds_exactly_the_registered_entities_with_a_permitted_decision(tenant, strategy):
    subjects = (
        [("user", name) for name in tenant.users]
        + [("group", name) for name in tenant.groups]
        + [("user", "nobody")]
    )
    match_count = 0
    for kind, operation, generation in operations():
        subject_type, subject = tenant.dice.choice(subjects)
        context = _members(tenant, tenant.dice, context_members(generation, kind, operation))
        questions = [
            Question(subject_type, subject, operation, address, generation, **context)
            for address in tenant.entities
            if address.kind == kind
        ]
        expected = sorted(question.target.key for question in permitted_questions(tenant, questions))
        search = Question(subject_type, subject, operation, Address(kind, ""), generation, **context)
        assert all_pages(search_entities, search, tenant.dice.choice([1, 2, 1_000])) == expected, search
        match_count += len(expected)
    assert match_count


def test_a_subject_search_finds_exactly_the_active_principals_with_a_permitted_decision(tenant, strategy):
    match_count = 0
    for kind, operation, generation in operations():
        targets = [address for address in tenant.entities if address.kind == kind]
        target = tenant.dice.choice([*targets, Address("namespace", "unregistered")])
        if target.kind != kind:
            continue
        context = _members(tenant, tenant.dice, context_members(generation, kind, operation))
        roles = tenant.role_groups.keys()
        for subject_type, prefix, names in (
            ("user", "", tenant.users),
            ("group", "", tenant.groups.keys() - roles),
            ("group", "role:", roles),
        ):
            questions = [
                Question(subject_type, name, operation, target, generation, **context) for name in names
            ]
            expected = {question.subject for question in permitted_questions(tenant, questions)}
            ids = all_pages(
                search_principals,
                Question(subject_type, prefix, operation, target, generation, **context),
                2,
            )
            assert len(ids) == len(set(ids)) and set(ids) == expected, (kind, operation, generation, target)
            match_count += len(expected)
    assert match_count


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("operation", ["list", "delete", "delete-all-streams"])
def test_a_subject_search_on_a_container_considers_the_entities_inside(
    tenant, strategy, generation, operation
):
    unregistered = Address("namespace", "unregistered")
    for target in [*(a for a in tenant.entities if a.kind in CONTAINER_KINDS), unregistered]:
        if operation not in KINDS[target.kind].operations:
            continue
        questions = [Question("user", name, operation, target, generation) for name in tenant.users]
        expected = {question.subject for question in permitted_questions(tenant, questions)}
        assert (
            set(all_pages(search_principals, Question("user", "", operation, target, generation), 3))
            == expected
        )


def test_an_action_search_finds_exactly_the_permitted_operations_and_privileges(tenant):
    for target in tenant.entities:
        for generation in GENERATIONS:
            name = tenant.dice.choice(list(tenant.users))
            questions = [
                Question("user", name, str(operation), target, generation)
                for operation in (*KINDS[target.kind].operations, *Privilege)
            ]
            expected = [question.operation for question in permitted_questions(tenant, questions)]
            for size in (1, 100):
                assert all_pages(search_operations, questions, size) == expected


def test_every_search_strategy_returns_the_same_pages(tenant, monkeypatch):
    questions = [
        ("dataset", "list", "final"),
        ("namespace", "list", "final"),
        ("stream", "delete", "existing"),
        ("program", "start", "existing"),
        ("program", "get", "core"),
    ]
    for kind, operation, generation in questions:
        for subject in tenant.users:
            question = Question("user", subject, operation, Address(kind, ""), generation)
            pages = set()
            for strategy in STRATEGIES:
                force_strategy(monkeypatch, strategy)
                page = search_entities(question, after="", max_rows=3)
                pages.add((tuple(page.ids), page.has_more))
            assert len(pages) == 1
