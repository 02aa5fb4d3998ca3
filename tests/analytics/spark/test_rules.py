"""Rule sets: the entities on which an expression requires ADMIN, and errors for unknown nodes.

Needs no Spark session.
"""

from types import SimpleNamespace

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
    UnknownExpression,
    all_of,
    any_of,
    has,
    on,
)

ADMIN, READ = Privilege.ADMIN, Privilege.READ


class UnknownNode:
    """Not a node of the grammar."""


@pytest.mark.parametrize(
    "expression",
    [UnknownNode(), all_of(has(ADMIN), UnknownNode()), any_of(has(ADMIN), UnknownNode())],
    ids=["node", "all", "any"],
)
def test_an_unknown_node_raises_unknown_expression(monkeypatch, expression):
    policy = SimpleNamespace(requirement=expression)
    monkeypatch.setattr(
        rules, "generation_by_name", lambda name: SimpleNamespace(policy=lambda kind, operation: policy)
    )
    for compile_rule_set in (
        lambda: rules.visibility_rules("any"),
        lambda: rules.impact_rules("one", "other"),
        lambda: rules.namespace_deletion_requirement("any"),
    ):
        with pytest.raises(UnknownExpression):
            compile_rule_set()


@pytest.mark.parametrize(
    "use_rule_set",
    [
        lambda rule_set: rules.compile_rules(rule_set, {"namespace": 0}),
        rules.is_met_without_grants,
        lambda rule_set: rules.kinds_listed_by_grants(rule_set, rules.CompiledRules((), ())),
    ],
)
def test_an_unknown_requirement_raises_an_error(use_rule_set):
    rule_set = rules.RuleSet((rules.Rule("namespace", "get", ("any", ()), ("most", ())),), (UnknownNode(),))
    with pytest.raises((UnknownExpression, ValueError), match="is not a"):
        use_rule_set(rule_set)


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
def test_a_requirement_of_anything_but_admin_raises_unknown_expression(expression):
    with pytest.raises(UnknownExpression):
        admin_requirement(expression)
