"""Test the access levels: that they are complete and follow from the rules of the generations."""

import pytest

from entities.vocabulary import ADMIN, ANY, EXECUTE, KINDS, READ, WRITE
from grants.policies.catalogue import FINAL, GENERATIONS
from grants.policies.grammar import (
    Always,
    Given,
    HasAtOrBelow,
    HasOnAllLive,
    Parameter,
    Scope,
    all_of,
    any_of,
    has,
    on,
)
from grants.policies.levels import LEVELS, Level, level_of, operations_by_level, required_level


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=list(GENERATIONS))
@pytest.mark.parametrize("kind", KINDS)
def test_each_operation_with_a_rule_has_exactly_one_level(generation, kind):
    grouped = operations_by_level(generation, kind)

    listed = [operation for operations in grouped.values() for operation in operations]
    assert sorted(listed) == sorted(
        operation for operation in KINDS[kind].operations if generation.policy(kind, operation).has_rule
    )
    assert list(grouped) == [level for level in LEVELS if level in grouped]
    for level, operations in grouped.items():
        assert {level_of(generation, kind, operation) for operation in operations} == {level}


@pytest.mark.parametrize(
    ("requirement", "level"),
    [
        (has(READ), Level.READS),
        (has(EXECUTE), Level.RUNS),
        (on(Scope.NAMESPACE, WRITE), Level.WRITES),
        (has(ADMIN), Level.ADMINISTERS),
        (has(*ANY), Level.SEES),
        (HasAtOrBelow(), Level.SEES),
        (Always(), Level.SEES),
        (has(ADMIN, READ), Level.READS),
        (any_of(has(ADMIN), has(WRITE)), Level.WRITES),
        (all_of(has(READ), on(Scope.NAMESPACE, ADMIN)), Level.ADMINISTERS),
        (HasOnAllLive(ADMIN), Level.ADMINISTERS),
        (all_of(has(WRITE), Given(Parameter.OWNER, on(Scope.OWNER, ADMIN))), Level.WRITES),
    ],
)
def test_a_requirement_has_the_weakest_level_that_can_meet_it(requirement, level):
    assert required_level(requirement) == level


def test_the_levels_of_a_dataset_separate_reading_writing_and_administration():
    grouped = operations_by_level(FINAL, "dataset")

    assert grouped[Level.READS] == ["read"] and grouped[Level.WRITES] == ["write"]
    assert "drop" in grouped[Level.ADMINISTERS] and "list" in grouped[Level.SEES]


def test_an_operation_without_a_rule_has_no_level():
    assert level_of(FINAL, "kerberosprincipal", "query-as") is None
    assert level_of(FINAL, "dataset", "no-such-operation") is None
