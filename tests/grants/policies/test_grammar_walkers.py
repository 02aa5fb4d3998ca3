"""Every walker of the requirement grammar raises `UnknownExpression` for a node type that it does not handle.

The walkers are found in the source: functions that match on grammar nodes or test for one with `isinstance`.
A function that is found and not listed here fails the test, as does a listed function that no longer exists.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest

from analytics.spark.engine import rules
from authzconsole.rest.framework.requirements import requirement_as_json
from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.access import paths, requirements
from grants.effects import masks
from grants.evaluation import candidates, entity_filters, facts, principal_filters, visibility
from grants.evaluation.entity_filters import FilterContext
from grants.evidence import timeline
from grants.lifecycle import missing_grants
from grants.policies import grammar, wording
from grants.policies.grammar import AllOf, AnyOf, Expression, UnknownExpression
from grants.policies.policy import Policy
from grants.policies.question import Question
from grants.policies.source import Source

ROOT = Path(__file__).parents[3]
PACKAGES = ("entities", "grants", "analytics", "authzconsole")
NODES = {node.__name__ for node in get_args(Expression)}


@dataclass(frozen=True, slots=True)
class HasEverywhere:
    """A node type that no walker handles."""


class UnknownQuestion(Question):
    """A question with a policy that requires an unknown node."""

    @property
    def policy(self) -> Policy:
        return Policy("dataset", "read", HasEverywhere(), Source("000", "", ""))


class NoHolders:
    """A source of masks without users."""

    everyone = 0


class NoFacts:
    """Facts of a known subject without grants."""

    is_subject_known = True


TARGET = parse_address("dataset:sales.orders")
QUESTION = Question("user", "alice", "read", TARGET, "final")
CONTEXT = FilterContext((), ["dataset"])

# By module and function. Each walker is called with a node.
WALKERS: dict[str, Callable[[Expression], object]] = {
    "grants.policies.grammar.leaves": lambda node: list(grammar.leaves(node)),
    "grants.policies.wording.requirement_in_words": wording.requirement_in_words,
    "grants.evaluation.entity_filters.combined_condition": lambda node: entity_filters.combined_condition(
        node, lambda part: entity_filters.requirement_condition(part, CONTEXT), QUESTION.has_parameter
    ),
    "grants.evaluation.entity_filters.requirement_condition": lambda node: (
        entity_filters.requirement_condition(node, CONTEXT)
    ),
    "grants.evaluation.candidates.candidate_queries": lambda node: candidates.candidate_queries(
        node, CONTEXT
    ),
    "grants.evaluation.candidates._cover": lambda node: candidates._cover(node, CONTEXT),
    "grants.evaluation.candidates._is_exact": candidates._is_exact,
    "grants.evaluation.principal_filters._condition": lambda node: principal_filters._condition(
        node, principal_filters.QuestionContext(QUESTION, None, False)
    ),
    "grants.evaluation.visibility._is_reached_by_grants": visibility._is_reached_by_grants,
    "grants.access.paths.ways_to_meet": lambda node: paths.ways_to_meet(node, QUESTION, NoFacts()),
    "grants.access.requirements.any_of_requirements": lambda node: requirements.any_of_requirements(
        [node], "dataset"
    ),
    "grants.effects.masks.users_meeting": lambda node: masks.users_meeting(node, NoHolders()),
    "grants.evidence.timeline.met_period": lambda node: timeline.met_period(
        node, QUESTION, timeline.UserTimeline({}, ()), timeline.TargetTimeline((1, 2))
    ),
    "grants.lifecycle.missing_grants._has_one_smallest_set": missing_grants._has_one_smallest_set,
    "grants.lifecycle.missing_grants._streamed_missing_grants": lambda node: list(
        missing_grants._streamed_missing_grants(node, QUESTION, None, ())
    ),
    "authzconsole.rest.framework.requirements.requirement_as_json": requirement_as_json,
    "analytics.spark.engine.rules._requirement": lambda node: rules._requirement(node, "dataset", {}),
    "analytics.spark.engine.rules.admin_requirement": rules.admin_requirement,
    "analytics.spark.engine.rules.plain_fact": rules.plain_fact,
}

# Functions that see only single nodes that a walker has already accepted, by that walker.
AFTER_A_WALKER = {
    "grants.evidence.holdings.__init__": "grants.policies.grammar.leaves",
    "grants.policies.wording._with_parentheses": "grants.policies.wording.requirement_in_words",
    "grants.evaluation.engine.add": "grants.policies.grammar.leaves",
    "grants.evaluation.facts._collect_lookups": "grants.policies.grammar.leaves",
    "grants.evaluation.principal_filters.question_context": "grants.policies.grammar.leaves",
    "grants.evaluation.principal_filters.with_listed_principals": "grants.policies.grammar.leaves",
    "grants.access.loading._addresses": "grants.policies.grammar.leaves",
    "grants.access.loading._load_all_live": "grants.policies.grammar.leaves",
    "grants.access.requirements._alternatives": "grants.policies.grammar.leaves",
    "grants.access.requirements._is_implied": "grants.policies.grammar.leaves",
    "grants.access.requirements._without_parameters": "grants.policies.grammar.leaves",
    "grants.plans.minimal_grants.permitting_container": "grants.policies.grammar.leaves",
    "grants.plans.minimal_grants._all_live_leaves": "grants.policies.grammar.leaves",
    "grants.effects.kind_rules._kind_rules": "grants.policies.grammar.leaves",
    "grants.plans.regrants.compute._candidates": "grants.policies.grammar.leaves",
    "grants.plans.regrants.compute._numbers_at": "grants.policies.grammar.leaves",
    "grants.plans.regrants.user_cover._alternatives_inside": "grants.policies.grammar.leaves",
    "grants.plans.regrants.user_cover._can_meet": "grants.policies.grammar.leaves",
    "grants.evaluation.hidden_containers.requires_all_live": "grants.policies.grammar.leaves",
    "analytics.spark.engine.rules.is_met_without_grants": "analytics.spark.engine.rules._requirement",
}

# These walkers return without visiting the parts of some nodes.
IGNORE_SOME_PARTS = {
    "grants.evaluation.candidates._is_exact",
    "grants.lifecycle.missing_grants._has_one_smallest_set",
    "analytics.spark.engine.rules.plain_fact",
}


def has_node_class(tree: ast.AST) -> bool:
    return any(
        isinstance(name, ast.Name)
        and name.id in NODES
        or isinstance(name, ast.Attribute)
        and name.attr in NODES
        for name in ast.walk(tree)
    )


def is_walker(function: ast.FunctionDef) -> bool:
    """Return whether the function matches on node types, or tests for one with `isinstance` or a comparison
    of classes.
    """
    for node in ast.walk(function):
        if isinstance(node, ast.MatchClass) and has_node_class(node.cls):
            return True
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "isinstance"
            and has_node_class(node.args[1])
        ):
            return True
        if isinstance(node, ast.Compare) and any(
            isinstance(operand, ast.Name) and operand.id in NODES
            for operand in (node.left, *node.comparators)
        ):
            return True
    return False


def walkers_in_source() -> Iterator[str]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            source = path.read_text()
            if any(name in source for name in NODES):
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                for node in ast.walk(ast.parse(source)):
                    if isinstance(node, ast.FunctionDef) and is_walker(node):
                        yield f"{module}.{node.name}"


def test_every_walker_is_listed():
    assert set(walkers_in_source()) - {"grants.policies.grammar.fold"} == set(WALKERS) | set(AFTER_A_WALKER)
    assert set(AFTER_A_WALKER.values()) <= set(WALKERS)


@pytest.mark.parametrize("name", WALKERS)
def test_a_walker_raises_for_an_unknown_node(name):
    with pytest.raises(UnknownExpression, match="HasEverywhere"):
        WALKERS[name](HasEverywhere())


@pytest.mark.parametrize("composed", [AllOf, AnyOf])
@pytest.mark.parametrize("name", sorted(set(WALKERS) - IGNORE_SOME_PARTS))
def test_a_walker_raises_for_an_unknown_node_inside_another(name, composed):
    with pytest.raises(UnknownExpression):
        WALKERS[name](composed((HasEverywhere(),)))


def test_facts_of_a_question_with_an_unknown_node_are_not_gathered():
    with pytest.raises(UnknownExpression):
        facts.gather_facts([UnknownQuestion("user", "alice", "read", TARGET, "final")])


# one node of each type; if a node has parts, every walker handles them
SAMPLES = {
    grammar.Has: grammar.has(Privilege.READ),
    grammar.HasAtOrBelow: grammar.HasAtOrBelow(),
    grammar.HasOnAllLive: grammar.HasOnAllLive(Privilege.ADMIN),
    grammar.Always: grammar.Always(),
    AllOf: AllOf((grammar.has(Privilege.READ),)),
    AnyOf: AnyOf((grammar.has(Privilege.READ),)),
    grammar.Given: grammar.Given(grammar.Parameter.OWNER, grammar.has(Privilege.READ)),
}


# These walkers handle only some node types on purpose, and raise for the others.
HANDLE_SOME_NODES = {
    "grants.evaluation.entity_filters.combined_condition",
    "grants.lifecycle.missing_grants._streamed_missing_grants",
    "analytics.spark.engine.rules.admin_requirement",
    "analytics.spark.engine.rules.plain_fact",
}


def test_every_node_type_has_a_sample():
    assert set(SAMPLES) == set(get_args(Expression))


@pytest.mark.parametrize("node", SAMPLES.values(), ids=lambda node: type(node).__name__)
@pytest.mark.parametrize("name", sorted(set(WALKERS) - HANDLE_SOME_NODES))
def test_a_walker_handles_every_node_type(name, node):
    try:
        WALKERS[name](node)
    except UnknownExpression as error:
        pytest.fail(f"{name}: {error}")
    except Exception:
        # The walker handles the node, but needs something that this test does not provide, such as a
        # database.
        pass
