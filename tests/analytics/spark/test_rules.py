"""Rule sets: the entities on which an expression requires ADMIN, and errors for unknown requirements.

Needs no Spark session.
"""

import pytest

from analytics.spark.engine import rules
from analytics.spark.engine.rules import AdminRequirement, admin_requirement, namespace_deletion_requirement
from entities.vocabulary import Privilege
from grants.policies.catalogue import GENERATIONS
from grants.policies.grammar import (
    Always,
    HasAtOrBelow,
    HasOnAllLive,
    Scope,
    all_of,
    any_of,
    has,
    on,
)

ADMIN, READ = Privilege.ADMIN, Privilege.READ


def test_an_unknown_requirement_raises_an_error():
    rule_set = rules.RuleSet(
        (rules.Rule("namespace", "get", ("any", ()), ("most", (0,))),), (rules.Fact("self", ("ADMIN",)),)
    )
    with pytest.raises(ValueError, match="is not a"):
        rules.compile_rules(rule_set, {"namespace": 0})


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_generation_requires_admin_on_a_namespace_to_delete_it(generation):
    assert namespace_deletion_requirement(generation).on_namespace


def test_the_entities_of_the_parts_of_all_of_are_combined():
    expression = all_of(has(ADMIN), HasOnAllLive(ADMIN, "stream"), HasOnAllLive(ADMIN, "dataset"))
    assert admin_requirement(expression) == AdminRequirement(True, frozenset({"stream", "dataset"}))


def test_every_kind_combined_with_some_kinds_is_every_kind():
    assert admin_requirement(all_of(HasOnAllLive(ADMIN, "stream"), HasOnAllLive(ADMIN))) == AdminRequirement(
        False, None
    )


@pytest.mark.parametrize(
    "expression",
    [
        has(READ),
        has(ADMIN, READ),
        on(Scope.INSTANCE, ADMIN),
        HasOnAllLive(READ),
        HasAtOrBelow(),
        Always(),
        None,
        any_of(has(ADMIN), HasOnAllLive(ADMIN)),
        all_of(has(ADMIN), any_of(has(ADMIN))),
    ],
    ids=str,
)
def test_a_requirement_of_anything_but_admin_raises_an_error(expression):
    with pytest.raises(ValueError):
        admin_requirement(expression)
