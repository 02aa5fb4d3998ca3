"""Test that who-can and what-can list exactly what the engine permits, with the grants by which it does."""

import dataclasses

import pytest
from django.db.models import Q

from entities.address import parse_address
from entities.models import State
from entities.vocabulary import KINDS, Privilege
from grants.access.loading import ways_of
from grants.access.requirements import operations_by_requirement
from grants.access.what_can import all_permissions, kinds_in_byte_order
from grants.access.who_can import all_access
from grants.evaluation.facts import gather_facts
from grants.models import User
from grants.policies.catalogue import GENERATIONS
from grants.policies.decide import is_permitted
from grants.policies.question import Question
from tests.support.random_tenants import random_tenant, reference_is_permitted, seeds, store_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture(params=seeds([1, 3]))
def tenant(request):
    stored = random_tenant(request.param, has_roles=True)
    store_tenant(stored)
    return stored


def without(tenant, paths):
    grants = {(path.principal, parse_address(path.entity), Privilege[path.privilege]) for path in paths}
    assert grants <= tenant.grants, "each path is a stored grant"
    return dataclasses.replace(tenant, grants=tenant.grants - grants)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_who_can_lists_what_is_permitted_with_the_grants_without_which_it_is_not(tenant, generation):
    checked = 0
    for address in [
        *tenant.entities,
        parse_address("dataset:ns0.unregistered"),
        parse_address("namespace:unregistered"),
    ]:
        operations = [*KINDS[address.kind].operations, *map(str, Privilege)]
        questions = [
            Question("user", user, operation, address, generation)
            for user in sorted(tenant.users)
            for operation in sorted(operations)
        ]
        expected = [
            (q.subject, q.operation)
            for q, facts in zip(questions, gather_facts(questions), strict=True)
            if is_permitted(q, facts)
        ]
        access = list(all_access(address, GENERATIONS[generation], operations))
        assert [(one.user, operation) for one in access for operation in one.ways] == expected
        for one in access:
            for operation, ways in one.ways.items():
                question, paths = Question("user", one.user, operation, address, generation), list(ways)
                assert paths == ways.listed_paths == sorted(set(paths)) and ways.is_complete
                remaining = without(tenant, paths)
                needs_no_grant = reference_is_permitted(dataclasses.replace(tenant, grants=set()), question)
                assert reference_is_permitted(remaining, question) == needs_no_grant
                for path in paths:
                    is_only = not reference_is_permitted(without(tenant, [path]), question)
                    assert (path in ways.only) == is_only, (question, path)
                checked += len(paths)
    assert checked


@pytest.mark.parametrize("generation", GENERATIONS)
def test_what_can_lists_what_is_permitted(tenant, generation):
    live = sorted(
        (str(address), address) for address, state in tenant.entities.items() if state == State.LIVE
    )
    for subject_type, subject in [("user", user) for user in tenant.users] + [
        ("group", group) for group in tenant.groups
    ]:
        questions = [
            Question(subject_type, subject, operation, address, generation)
            for _, address in live
            for operation in sorted(KINDS[address.kind].operations)
        ]
        expected = [(str(q.target), q.operation) for q in questions if reference_is_permitted(tenant, q)]
        assert list(all_permissions(subject_type, subject, GENERATIONS[generation])) == expected
        datasets = [row for row in expected if row[0].startswith("dataset:")]
        assert list(all_permissions(subject_type, subject, GENERATIONS[generation], ["dataset"])) == datasets


@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_ways_of_groups_agree_with_decisions(tenant, generation):
    questions = [
        Question("group", group, operation, address, generation)
        for address in tenant.entities
        for operation in KINDS[address.kind].operations
        for group in [*tenant.groups, "nobody"]
    ]
    for question, ways in zip(questions, ways_of(questions), strict=True):
        assert (ways is not None) == reference_is_permitted(tenant, question)
        if ways is not None:
            assert {path.principal for path in ways} <= {*tenant.holders("group", question.subject)}


def test_paths_that_are_not_loaded_are_read_when_they_are_needed(tenant):
    for generation in GENERATIONS.values():
        for address in [a for a in tenant.entities if a.kind in ("namespace", "application")]:
            grouped = operations_by_requirement(generation, address.kind)
            questions = [
                Question("user", user, same[0], address, generation.name)
                for user in tenant.users
                for same in grouped.values()
            ]
            for full, few in zip(ways_of(questions), ways_of(questions, paths_per_holder=1), strict=True):
                assert (full is None) == (few is None)
                if full is not None:
                    assert list(few) == list(full) and set(few.listed_paths) <= set(full.listed_paths)
                    # among the listed paths, exactly those are marked without which the operation is denied
                    assert few.only == full.only.intersection(few.listed_paths)


def test_kinds_are_in_the_order_of_their_addresses():
    kinds = kinds_in_byte_order()
    assert sorted(f"{kind}:x" for kind in KINDS) == [f"{kind}:x" for kind in kinds]


def test_all_users_are_listed_for_an_operation_that_needs_no_grant(tenant):
    address = next(address for address in tenant.entities if address.kind == "namespace")
    names = set(User.objects.filter(Q(is_active=True, is_principal=True)).values_list("username", flat=True))
    access = list(all_access(address, GENERATIONS["core"], ["list"]))
    assert {one.user for one in access} == names
    assert all(list(one.ways["list"]) == [] for one in access)
