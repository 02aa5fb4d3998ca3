"""The fold over requirements: every algebra is complete, and a decision reads no more facts than it needs."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import analytics
import authzconsole
import grants
from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.policies.decide import is_met
from grants.policies.grammar import (
    Algebra,
    Always,
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


def algebras() -> Iterator[type[Algebra]]:
    """Yield every class of the source that derives from `Algebra`."""
    for package in (grants, analytics, authzconsole):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.rpartition(".")[2] not in ("wsgi", "celery") and ".migrations" not in module.name:
                path = Path(package.__path__[0]).parent / (module.name.replace(".", "/") + ".py")
                if path.exists() and "Algebra[" in path.read_text():
                    import_module(module.name)
    remaining = list(Algebra.__subclasses__())
    while remaining:
        algebra = remaining.pop()
        remaining += algebra.__subclasses__()
        if algebra.__module__.partition(".")[0] in ("grants", "analytics", "authzconsole"):
            yield algebra


def test_every_algebra_has_a_value_for_every_node_and_is_listed_in_the_grammar():
    found = list(algebras())
    assert len(found) > 3
    documentation = import_module("grants.policies.grammar").__doc__
    for algebra in found:
        if not inspect.isabstract(algebra):
            assert f"`{algebra.__module__}.{algebra.__qualname__}`" in documentation


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
    assert read.at_or_below
    assert read.all_live == [HasOnAllLive(Privilege.ADMIN, "stream")]
    assert read.parameters == [Parameter.OWNER]
