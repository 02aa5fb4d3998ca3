"""Each search finds exactly what the evaluations permit: for users and groups, in every generation, whatever the page size."""

import random

import pytest

from entities.address import Address
from entities.vocabulary import CONTAINER_KINDS, KINDS, Privilege
from grants.evaluation import authzen_search as searching
from grants.evaluation import principal_filters
from grants.evaluation.authzen_search import search_entities, search_operations, search_principals
from grants.evaluation.facts import gather_facts
from grants.policies.catalogue import GENERATIONS
from grants.policies.decide import is_permitted
from grants.policies.question import Question, context_members
from tests.support.random_tenants import _members, random_tenant, store_tenant

SEEDS = range(2)
pytestmark = pytest.mark.django_db


@pytest.fixture(params=SEEDS)
def tenant(request):
    made = random_tenant(request.param)
    store_tenant(made)
    made.dice = random.Random(request.param)
    return made


WAYS = {"collected": (2_000, 5_000, 50_000, 20_000), "among the first": (-1, 3, 50_000, 20_000), "one by one": (-1, 0, -1, -1),
        "all": (-1, 1, -1, 5)}


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Every way of looking: from the grants, and along the entities or principals."""
    take(monkeypatch, request.param)


def take(monkeypatch, way):
    few, first, many, inside = WAYS[way]
    monkeypatch.setattr(searching, "FEW_GRANTS", few)
    monkeypatch.setattr(searching, "MAX_COLLECTED", (few, many))
    monkeypatch.setattr(searching, "MAX_WALKED", (first, first))
    monkeypatch.setattr(principal_filters, "MAX_GRANTS_INSIDE", inside)


def operations():
    """Every operation and privilege of every kind in every generation that has a rule for it."""
    for kind in KINDS:
        for operation in (*KINDS[kind].operations, *map(str, Privilege)):
            for generation in GENERATIONS.values():
                yield kind, operation, generation.name


def permitted(questions):
    return [question for question, facts in zip(questions, gather_facts(questions), strict=True) if is_permitted(question, facts)]


def all_pages(find, question, size):
    ids, after = [], ""
    while True:
        found = find(question, after=after, max_rows=size)
        assert not set(ids).intersection(found.ids), "a page repeats what another showed"
        ids += found.ids
        assert found.total in (None, len(ids) if not found.has_more else found.total)
        if not found.has_more:
            return ids
        after = found.ids[-1]


def test_a_resource_search_finds_every_registered_entity_that_the_operation_is_permitted_on(tenant, way):
    subjects = [("user", name) for name in tenant.users] + [("group", name) for name in tenant.groups] + [("user", "nobody")]
    met = 0
    for kind, operation, generation in operations():
        subject_type, subject = tenant.dice.choice(subjects)
        given = _members(tenant, tenant.dice, context_members(generation, kind, operation))
        asked = [Question(subject_type, subject, operation, address, generation, **given)
                 for address in tenant.entities if address.kind == kind]
        expected = sorted(question.target.key for question in permitted(asked))
        whole = Question(subject_type, subject, operation, Address(kind, ""), generation, **given)
        assert all_pages(search_entities, whole, tenant.dice.choice([1, 2, 1_000])) == expected, whole
        met += len(expected)
    assert met


def test_a_subject_search_finds_every_active_principal_to_whom_the_operation_is_permitted(tenant, way):
    met = 0
    for kind, operation, generation in operations():
        targets = [address for address in tenant.entities if address.kind == kind]
        target = tenant.dice.choice([*targets, Address("namespace", "unregistered")])
        if target.kind != kind:
            continue
        given = _members(tenant, tenant.dice, context_members(generation, kind, operation))
        for subject_type, names in (("user", tenant.users), ("group", tenant.groups)):
            asked = [Question(subject_type, name, operation, target, generation, **given) for name in names]
            expected = {question.subject for question in permitted(asked)}
            ids = all_pages(search_principals, Question(subject_type, "", operation, target, generation, **given), 2)
            assert len(ids) == len(set(ids)) and set(ids) == expected, (kind, operation, generation, target)
            met += len(expected)
    assert met


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("operation", ["list", "delete", "delete-all-streams"])
def test_a_subject_search_on_every_container_looks_inside_it(tenant, way, generation, operation):
    unregistered = Address("namespace", "unregistered")
    for target in [*(a for a in tenant.entities if a.kind in CONTAINER_KINDS), unregistered]:
        if operation not in KINDS[target.kind].operations:
            continue
        asked = [Question("user", name, operation, target, generation) for name in tenant.users]
        expected = {question.subject for question in permitted(asked)}
        assert set(all_pages(search_principals, Question("user", "", operation, target, generation), 3)) == expected


def test_an_action_search_finds_every_operation_and_privilege_that_is_permitted(tenant):
    for target in tenant.entities:
        for generation in GENERATIONS:
            name = tenant.dice.choice(list(tenant.users))
            asked = [Question("user", name, str(operation), target, generation)
                     for operation in (*KINDS[target.kind].operations, *Privilege)]
            expected = [question.operation for question in permitted(asked)]
            for size in (1, 100):
                assert all_pages(search_operations, asked, size) == expected


def test_every_way_gives_the_same_pages(tenant, monkeypatch):
    asked = [("dataset", "list", "final"), ("namespace", "list", "final"), ("stream", "delete", "existing"),
             ("program", "start", "existing"), ("program", "get", "core")]
    for kind, operation, generation in asked:
        for subject in tenant.users:
            question = Question("user", subject, operation, Address(kind, ""), generation)
            pages = set()
            for way in WAYS:
                take(monkeypatch, way)
                found = search_entities(question, after="", max_rows=3)
                pages.add((tuple(found.ids), found.has_more))
            assert len(pages) == 1
