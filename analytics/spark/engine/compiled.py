"""A compiled rule set: rules and facts as plain numbers and tuples, which Python workers understand without the console's code.

A requirement is a tuple: `("held", fact numbers)` is met where one of the facts is true, `("all", requirements)` where all of
them are met, `("any", requirements)` where one of them is met.
"""

import sys
from dataclasses import dataclass
from typing import Any

from pyspark import cloudpickle

# Python workers, above all on a cluster, may not have this package installed.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

Requirement = tuple[str, tuple[Any, ...]]
MET: Requirement = ("all", ())
UNMET: Requirement = ("any", ())


@dataclass(frozen=True, slots=True)
class CompiledFact:
    """How grants make a fact true.

    form: which grants count for a target.
        `self`, `application`, `namespace`, `instance`: a grant on the target itself or on that container of it
        `below`: for a container, a grant on it or on anything inside it
        `anywhere`: a grant anywhere in the family of the target
        `precomputed`: precomputed fact rows list the holders
    privileges: a mask with one bit for each privilege number. kinds: the kind numbers whose rules use the fact.
    """

    form: str
    privileges: int
    kinds: frozenset[int]


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """kind: a kind number, or rows.NONE for a rule that is evaluated under another number."""

    kind: int
    before: Requirement
    after: Requirement


@dataclass(frozen=True, slots=True)
class CompiledRules:
    """Rules and facts, each numbered by its position."""

    rules: tuple[CompiledRule, ...]
    facts: tuple[CompiledFact, ...]

    @property
    def privileges(self) -> int:
        """The mask of the privileges that at least one fact uses."""
        mask = 0
        for fact in self.facts:
            mask |= fact.privileges
        return mask

    def has_form(self, *forms: str) -> bool:
        return any(fact.form in forms for fact in self.facts)


@dataclass(frozen=True, slots=True)
class LiveNamespaces:
    """Evaluate live namespaces only. name: of one namespace; empty for all namespaces."""

    name: str = ""


def fact_numbers(requirement: Requirement) -> set[int]:
    """Return the numbers of the facts in a requirement. Raise ValueError for an unknown requirement."""
    match requirement:
        case "held", numbers:
            return set(numbers)
        case ("all" | "any"), parts:
            return set().union(*map(fact_numbers, parts))
    raise ValueError(f"`{requirement[0]}` is not a requirement")
