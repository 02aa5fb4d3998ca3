"""A compiled rule set: rules and facts as plain numbers and tuples, which Python workers can read without the
console's code.

A requirement is a tuple: `("held", fact numbers)` is met if at least one of the facts is held, `("all",
requirements)` if all of the requirements are met, `("any", requirements)` if at least one of them is met.
"""

from typing import Any

from entities.frozen import frozen

Requirement = tuple[str, tuple[Any, ...]]
MET: Requirement = ("all", ())
UNMET: Requirement = ("any", ())


@frozen
class CompiledFact:
    """Which grants make a fact true.

    form: which grants count for a target.
        `self`, `application`, `namespace`, `instance`: a grant on the target itself, or on its application,
        and so on
        `below`: for a container, a grant on it or on anything inside it
        `anywhere`: a grant anywhere in the subtree of the target
        `precomputed`: no grants; rows with the number of the fact list the holders
    selectors: the privilege numbers that count; for the form `precomputed`, the number of the fact.
    kinds: the numbers of the kinds with a rule that uses the fact.
    """

    form: str
    selectors: tuple[int, ...]
    kinds: frozenset[int]


@frozen
class CompiledRule:
    """The requirements of one rule.

    kind: a kind number, or rows.NONE if an equal rule with another number is evaluated instead.
    """

    kind: int
    before: Requirement
    after: Requirement


@frozen
class CompiledRules:
    """Rules and facts, each numbered by its position."""

    rules: tuple[CompiledRule, ...]
    facts: tuple[CompiledFact, ...]

    def has_form(self, *forms: str) -> bool:
        return any(fact.form in forms for fact in self.facts)


@frozen
class LiveNamespaces:
    """Limits an evaluation to live namespaces. name: the name of the only namespace; empty for all live
    namespaces.
    """

    name: str = ""


def fact_numbers(requirement: Requirement) -> set[int]:
    """Return the numbers of the facts in a requirement. Raise ValueError for an unknown requirement."""
    match requirement:
        case "held", numbers:
            return set(numbers)
        case (("all" | "any"), requirements):
            return set().union(*map(fact_numbers, requirements))
    raise ValueError(f"`{requirement[0]}` is not a requirement")
