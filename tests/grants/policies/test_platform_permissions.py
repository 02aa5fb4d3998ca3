"""Test the mapping between the permissions of CDAP 6.5 and later and the four privileges."""

from collections import defaultdict

import pytest

from entities.vocabulary import ADMIN, ANY, CONTAINER_KINDS, EXECUTE, KINDS, READ, WRITE, Privilege
from grants.policies.catalogue import GENERATIONS
from grants.policies.catalogue.platform_permissions import MAPPING, Permission, requirement_for
from grants.policies.grammar import FactsRead, HasAtOrBelow, Scope
from grants.policies.policy import mapping_of

CDAP65 = GENERATIONS["cdap65"]

# read from the enumerations in the source of CDAP
SETS = {
    "STANDARD": ["CREATE", "LIST", "GET", "UPDATE", "DELETE"],
    "APPLICATION": ["PREVIEW", "EXECUTE"],
    "ACCESS": ["SET_OWNER", "IMPERSONATE"],
    "INSTANCE": ["TETHER", "HEALTH_CHECK"],
    "NAMESPACE": ["READ_REPOSITORY", "WRITE_REPOSITORY", "UPDATE_REPOSITORY_METADATA"],
}
STANDARD = {"CREATE": {ADMIN}, "LIST": set(ANY), "GET": set(ANY), "UPDATE": {ADMIN}, "DELETE": {ADMIN}}
RUNS = {"PREVIEW": {EXECUTE}, "EXECUTE": {EXECUTE}}
# What gives each permission on each kind, read a second time. LIST is held on the parent.
EXPECTED = {kind: dict(STANDARD) for kind in KINDS}
EXPECTED["dataset"] |= {"GET": {READ}, "UPDATE": {WRITE, ADMIN}}
EXPECTED["securekey"] |= {"GET": {READ}}
for kind in ("application", "program"):
    EXPECTED[kind] |= RUNS
EXPECTED["system_service"] |= {"EXECUTE": {EXECUTE}}
EXPECTED["kerberosprincipal"] |= {"SET_OWNER": {ADMIN}, "IMPERSONATE": {ADMIN}}
EXPECTED["instance"] |= {"TETHER": {ADMIN}, "HEALTH_CHECK": {ADMIN}}
EXPECTED["namespace"] |= dict.fromkeys(SETS["NAMESPACE"], {ADMIN})


def test_the_permissions_are_those_of_the_five_sets():
    sets = defaultdict(list)
    for permission in Permission:
        sets[permission.partition(":")[0]].append(permission.partition(":")[2])
    assert sets == SETS
    assert {row.permission for row in MAPPING} == set(Permission)


@pytest.mark.parametrize("kind", EXPECTED)
def test_each_permission_requires_the_privileges_of_the_second_reading(kind):
    for permission in Permission:
        row, name = mapping_of(MAPPING, permission, kind), permission.partition(":")[2]
        assert (set(row.privileges) if row else None) == EXPECTED[kind].get(name), permission
        if row:
            assert row.scope == (Scope.PARENT if name == "LIST" else Scope.SELF)
            assert row.source.seed == "cdap" and row.source.row == name


def test_a_permission_that_does_not_exist_on_a_kind_is_refused():
    with pytest.raises(ValueError, match="INSTANCE:TETHER does not exist on dataset"):
        requirement_for(Permission.TETHER, "dataset")


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_privilege_gives_exactly_the_permissions_that_it_meets(kind):
    for privilege in Privilege:
        assert CDAP65.given_permissions(privilege, kind) == [
            permission
            for permission in Permission
            if privilege in EXPECTED[kind].get(permission.partition(":")[2], ())
            and (permission is not Permission.LIST or kind in CONTAINER_KINDS)
        ]


def test_only_one_generation_has_platform_permissions():
    assert [name for name, generation in GENERATIONS.items() if generation.platform_permissions] == ["cdap65"]
    assert GENERATIONS["final"].given_permissions(ADMIN, "dataset") == []


def test_listing_asks_on_the_parent_or_filters_what_is_visible():
    for kind in KINDS.values():
        policy = CDAP65.policy(kind.name, "list")
        if policy is None or policy.requirement is None:
            continue
        read = FactsRead(policy.requirement)
        assert all(leaf.scope is Scope.PARENT for leaf in read.held)
        assert read.is_at_or_below or read.held == [requirement_for(Permission.LIST, kind.name)]
    assert CDAP65.policy("namespace", "list").requirement == HasAtOrBelow()


def test_the_older_generations_have_no_rule_for_the_kinds_since_cdap_6_5():
    for kind in ("profile", "system_service", "system_app_entity"):
        for operation in KINDS[kind].operations:
            for name, generation in GENERATIONS.items():
                policy = generation.policy(kind, operation)
                assert policy.has_rule == (name == "cdap65"), (name, kind, operation)
