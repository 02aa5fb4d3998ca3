"""The fold over requirements: the only code that matches on nodes. A decision reads no more facts than it needs."""

import ast
from collections.abc import Iterator
from importlib import import_module
from inspect import isabstract
from pathlib import Path
from typing import get_args

import pytest

from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.policies.decide import is_met
from grants.policies.grammar import (
    Algebra,
    Always,
    Expression,
    FactsRead,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    Parameter,
    all_of,
    any_of,
    has,
)
from grants.policies.question import Question

QUESTION = Question("user", "alice", "read", parse_address("dataset:sales.orders"), "final")


ROOT = Path(__file__).parents[3]
GRAMMAR = ROOT / "grants/policies/grammar.py"
NODES = {node.__name__ for node in get_args(Expression)}


def source_files() -> Iterator[tuple[Path, ast.Module]]:
    """Yield the files of the source that import the grammar."""
    for package in ("entities", "grants", "analytics", "authzconsole"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            if "grants.policies.grammar" in text:
                yield path, ast.parse(text)


def class_names(node: ast.AST) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)} | {
        name.attr for name in ast.walk(node) if isinstance(name, ast.Attribute)
    }


def matches_on_nodes(tree: ast.AST) -> bool:
    """Return whether the code has a `match` or an `isinstance` with a class of the grammar."""
    return any(
        isinstance(node, ast.MatchClass)
        and class_names(node.cls) & NODES
        or isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("isinstance", "type")
        and class_names(node) & NODES
        for node in ast.walk(tree)
    )


def test_only_the_fold_matches_on_nodes():
    matching = {path for path, tree in source_files() if path != GRAMMAR and matches_on_nodes(tree)}
    assert not matching
    (fold,) = (
        node
        for node in ast.walk(ast.parse(GRAMMAR.read_text()))
        if isinstance(node, ast.FunctionDef) and matches_on_nodes(node)
    )
    assert fold.name == "fold"


def algebras() -> list[type[Algebra]]:
    """Return the classes of the source that derive from `Algebra`, directly or not."""
    for path, tree in source_files():
        if any(isinstance(node, ast.ClassDef) for node in ast.walk(tree)):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    found, remaining = [], [Algebra]
    while remaining:
        remaining += (derived := remaining.pop().__subclasses__())
        found += derived
    return found


def test_every_algebra_has_a_value_for_every_node_and_is_listed_in_the_grammar():
    documentation = import_module("grants.policies.grammar").__doc__
    for algebra in algebras():
        name = f"{algebra.__module__}.{algebra.__qualname__}"
        # an abstract class, such as one with the nodes that two algebras have in common, has complete subclasses
        assert algebra.__subclasses__() if isabstract(algebra) else f"`{name}`" in documentation, name


class NoFacts:
    """Facts that no evaluation may read."""

    is_subject_known = True

    def privileges_on(self, address):
        pytest.fail("the decision does not depend on this fact")


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (any_of(Always(), has(Privilege.READ)), True),
        (all_of(any_of(), has(Privilege.READ)), False),
        (Given(Parameter.OWNER, has(Privilege.READ)), True),
    ],
    ids=["any_of", "all_of", "given"],
)
def test_a_decision_stops_at_the_first_part_that_decides(requirement, expected):
    assert is_met(requirement, QUESTION, NoFacts()) is expected


def test_the_facts_that_a_requirement_reads_are_those_of_its_leaves():
    requirement = all_of(
        any_of(has(Privilege.READ), HasAtOrBelow()),
        Given(Parameter.OWNER, all_of(HasOnAllLive(Privilege.ADMIN, "stream"), Always())),
    )
    read = FactsRead(requirement)
    assert read.held == [Has((Privilege.READ,))]
    assert read.is_at_or_below
    assert read.all_live == [HasOnAllLive(Privilege.ADMIN, "stream")]
    assert read.parameters == [Parameter.OWNER]
