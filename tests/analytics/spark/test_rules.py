"""Reading from an expression on which entities ADMIN is needed; needs no session."""

from types import SimpleNamespace

import pytest

from analytics.spark.engine import rules
from analytics.spark.engine.rules import AdminNeeded, admin_needed, admin_needed_to_delete_namespace
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


class Unforeseen:
    """A node that the grammar does not have."""


@pytest.mark.parametrize("expression", [
    Unforeseen(), all_of(has(ADMIN), Unforeseen()), any_of(has(ADMIN), Unforeseen())], ids=["node", "all", "any"])
def test_a_node_that_is_not_in_the_grammar_is_refused(monkeypatch, expression):
    policy = SimpleNamespace(requirement=expression)
    monkeypatch.setattr(rules, "generation_by_name", lambda name: SimpleNamespace(policy=lambda kind, operation: policy))
    for compile_rule_set in (lambda: rules.visibility_rules("any"), lambda: rules.impact_rules("one", "other"),
                             lambda: rules.admin_needed_to_delete_namespace("any")):
        with pytest.raises(UnknownExpression):
            compile_rule_set()


@pytest.mark.parametrize("compiled", [
    lambda rule_set: rules.compile_rules(rule_set, {"namespace": 0}), rules.is_met_without_grants,
    lambda rule_set: rules.kinds_known_from_grants(rule_set, rules.CompiledRules((), ())),
])
def test_a_requirement_that_is_not_known_is_refused(compiled):
    rule_set = rules.RuleSet((rules.Rule("namespace", "get", ("any", ()), ("most", ())),), (Unforeseen(),))
    with pytest.raises((UnknownExpression, ValueError), match="is not a"):
        compiled(rule_set)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_generation_says_what_deleting_a_namespace_needs(generation):
    assert admin_needed_to_delete_namespace(generation).on_namespace


def test_parts_joined_by_and_add_up():
    assert admin_needed(all_of(has(ADMIN), HasOnAllLive(ADMIN, "stream"), HasOnAllLive(ADMIN, "dataset"))) == AdminNeeded(
        True, frozenset({"stream", "dataset"}))


def test_every_kind_is_more_than_some_kinds():
    assert admin_needed(all_of(HasOnAllLive(ADMIN, "stream"), HasOnAllLive(ADMIN))) == AdminNeeded(False, None)


@pytest.mark.parametrize("expression", [
    has(READ), has(ADMIN, READ), on(Scope.INSTANCE, ADMIN), HasOnAllLive(READ), HasAtOrBelow(), Always(), None,
    any_of(has(ADMIN), HasOnAllLive(ADMIN)), all_of(has(ADMIN), any_of(has(ADMIN))),
], ids=str)
def test_a_requirement_that_is_no_count_of_admin_is_refused(expression):
    with pytest.raises(UnknownExpression):
        admin_needed(expression)
