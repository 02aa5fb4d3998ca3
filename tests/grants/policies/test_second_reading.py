"""Compare the catalogue with a second, independent transcription of the same seed documents.

cases/second_reading.toml lists the requirement of each operation in a small notation. For each row, a truth
table over all facts proves that it is logically equivalent to the expression in the catalogue.
"""

import re
import tomllib
from itertools import product
from pathlib import Path

import pytest

from entities.vocabulary import KINDS, Privilege
from grants.policies.catalogue import GENERATIONS
from grants.policies.grammar import (
    AllOf,
    Always,
    AnyOf,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    Parameter,
    Scope,
)
from tests.support.expected_generations import EXPECTED

TRANSCRIPTION = tomllib.loads(
    (Path(__file__).parents[2] / "cases" / "second_reading.toml").read_text(encoding="utf-8")
)


# The published list of operations, word for word. Each generation of the transcription lists all of them, in
# this order.
KINDS_AND_OPERATIONS = [tuple(row.split(".")) for row in next(iter(TRANSCRIPTION.values()))]
OPERATIONS = {
    kind: [operation for operation_kind, operation in KINDS_AND_OPERATIONS if operation_kind == kind]
    for kind, _ in KINDS_AND_OPERATIONS
}

PARENTS = {
    "namespace": "instance",
    "kerberosprincipal": "instance",
    "system_service": "instance",
    "program": "application",
}
LEAVES = set(OPERATIONS) - {"namespace", "application"}

# The notation
# ---------------------------------------------------------------------------------------------------------


TOKEN = re.compile(r"\s*(?:(?P<mark>[()])|\[(?P<given>[a-z ]+)\]|(?P<word>[A-Za-z|]+(?:@[a-z_:-]+)?))")


def tokens(text):
    result, position, text = [], 0, text.strip()
    while position < len(text):
        match = TOKEN.match(text, position)
        if not match:
            raise ValueError(f"cannot read {text[position:]!r}")
        result.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return result


def parse(text):
    """Return the expression for a text in the notation; None for no rule. Raise ValueError for another text."""
    if text == "none":
        return None
    rest = tokens(text)

    def chain(word, part, node):
        parts = [part()]
        while rest and rest[0] == ("word", word):
            rest.pop(0)
            parts.append(part())
        return node(tuple(parts))

    def alternatives():
        return chain("or", conjunction, AnyOf)

    def conjunction():
        return chain("and", term, AllOf)

    def term():
        if not rest:
            raise ValueError(f"{text!r} ends too early")
        group, value = rest.pop(0)
        if group == "given":
            return Given(Parameter(value), term())
        if (group, value) == ("mark", "("):
            inner = alternatives()
            if not rest or rest.pop(0) != ("mark", ")"):
                raise ValueError(f"{text!r} lacks a closing parenthesis")
            return inner
        return leaf(value)

    def leaf(value):
        if value == "always":
            return Always()
        names, _, scope = value.partition("@")
        privileges = tuple(Privilege) if names == "ANY" else tuple(map(Privilege, names.split("|")))
        if scope == "self-or-below" and names == "ANY":
            return HasAtOrBelow()
        where, _, kind = scope.partition(":")
        if where == "all-live" and len(privileges) == 1 and kind in ("", *OPERATIONS):
            return HasOnAllLive(privileges[0], kind or None)
        return Has(privileges, Scope(scope))

    expression = alternatives()
    if rest:
        raise ValueError(f"{text!r} goes on after its end")
    return expression


# The formulas
# ------------------------------------------------------------------------------------------


def formula_of(kind, expression):
    """Return the formula for an expression, for a target of that kind.

    A formula is ("atom", name) | ("and", parts) | ("or", parts) | ("not", part). Scopes that mean the same
    entity for this kind get the same name.
    """
    match expression:
        case Always():
            return ("and", ())
        case Has(privileges, scope):
            if scope == "parent":
                scope = PARENTS.get(kind, "namespace")
            if scope == kind and kind in ("namespace", "application"):
                scope = "self"
            return ("or", tuple(("atom", f"{privilege}@{scope}") for privilege in privileges))
        case HasAtOrBelow():
            on_target = formula_of(kind, Has(tuple(Privilege)))
            # a leaf kind contains nothing
            return on_target if kind in LEAVES else ("or", (on_target, ("atom", "any privilege inside")))
        case HasOnAllLive(privilege, entity_kind):
            return ("atom", f"{privilege} on all live {entity_kind or 'descendants'}")
        case AllOf(parts):
            return ("and", tuple(formula_of(kind, part) for part in parts))
        case AnyOf(parts):
            return ("or", tuple(formula_of(kind, part) for part in parts))
        case Given(parameter, then):
            return ("or", (("not", ("atom", f"question names {parameter}")), formula_of(kind, then)))
    raise AssertionError(f"this test does not handle {expression!r}")


# The proof
# ------------------------------------------------------------------------------------------------------------


def atoms(formula):
    operator, content = formula
    if operator == "atom":
        return {content}
    return set().union(*map(atoms, (content,) if operator == "not" else content))


def holds(formula, facts):
    operator, content = formula
    match operator:
        case "atom":
            return facts[content]
        case "not":
            return not holds(content, facts)
        case "and":
            return all(holds(part, facts) for part in content)
        case "or":
            return any(holds(part, facts) for part in content)


def differing_facts(first, second):
    """Return the true facts of a case in which only one of the formulas holds; None if there is no such case."""
    names = sorted(atoms(first) | atoms(second))
    for values in product((False, True), repeat=len(names)):
        facts = dict(zip(names, values, strict=True))
        if holds(first, facts) != holds(second, facts):
            return [name for name in names if facts[name]]
    return None


@pytest.mark.parametrize(("kind", "operation"), KINDS_AND_OPERATIONS, ids=lambda value: value)
@pytest.mark.parametrize("generation", TRANSCRIPTION)
def test_the_catalogue_and_the_second_transcription_require_the_same(generation, kind, operation):
    text = TRANSCRIPTION[generation][f"{kind}.{operation}"]
    second = parse(text)
    policy = GENERATIONS[generation].policies[kind, operation]

    assert (policy.kind, policy.operation) == (kind, operation)
    assert (policy.requirement is None) == (second is None), (
        f"only one of them has a rule: {text!r}, {policy.requirement}"
    )
    if second is not None:
        facts = differing_facts(formula_of(kind, policy.requirement), formula_of(kind, second))
        assert facts is None, f"they differ if only {facts} are true: {text!r}, {policy.requirement}"


# Coverage
# -------------------------------------------------------------------------------------------------------------


def test_the_vocabulary_has_exactly_the_published_operations_in_the_same_order():
    assert {kind.name: list(kind.operations) for kind in KINDS.values()} == {"instance": [], **OPERATIONS}


def test_the_vocabulary_and_this_test_have_the_same_parents_of_kinds():
    expected = {kind: PARENTS.get(kind, "namespace") for kind in OPERATIONS}
    assert {kind.name: kind.parent for kind in KINDS.values()} == {"instance": None, **expected}
    assert LEAVES.isdisjoint(kind.parent for kind in KINDS.values())


def test_both_transcriptions_have_the_same_generations():
    assert list(GENERATIONS) == list(TRANSCRIPTION)
    assert all(GENERATIONS[name].name == name for name in TRANSCRIPTION)


@pytest.mark.parametrize("generation", TRANSCRIPTION)
def test_every_generation_of_the_second_transcription_lists_the_same_operations_in_the_same_order(generation):
    assert list(TRANSCRIPTION[generation]) == [
        f"{kind}.{operation}" for kind, operation in KINDS_AND_OPERATIONS
    ]


# The effects of creating and deleting on grants
# -------------------------------------------------------------------------


@pytest.mark.parametrize("generation", TRANSCRIPTION)
def test_creating_and_deleting_have_the_expected_effects_on_grants(generation):
    expected = EXPECTED[generation]
    assert GENERATIONS[generation].creator_receives == expected.creator_receives
    assert GENERATIONS[generation].deleting_removes_grants is expected.deleting_removes_grants


# The proof itself is tested
# --------------------------------------------------------------------------------------


def example(text, kind="dataset"):
    return formula_of(kind, parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "READ",
        "READ@",
        "READ@nowhere",
        "LOOK@self",
        "READ|LOOK@self",
        "READ@self and",
        "(READ@self",
        "READ@self)",
        "READ@self WRITE@self",
        "[stranger] READ@self",
        "[owner]",
        "and",
        "READ@self-or-below",
        "READ@all-live:schedule",
        "READ|ADMIN@all-live",
        "READ @self",
        "READ@self & READ@namespace",
        "READ@self or none",
    ],
)
def test_an_invalid_text_in_the_notation_is_refused(text):
    with pytest.raises(ValueError):
        parse(text)


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("dataset", "READ@self", "WRITE@self"),
        ("dataset", "READ@self", "READ@namespace"),
        ("dataset", "READ@self", "always"),
        ("dataset", "ANY@self", "READ|WRITE|ADMIN@self"),
        ("dataset", "READ@self and READ@namespace", "READ@self or READ@namespace"),
        ("dataset", "ADMIN@self", "ADMIN@self and [owner] ADMIN@owner"),
        ("dataset", "[new artifact] ADMIN@artifact", "[existing artifact] ADMIN@artifact"),
        (
            "dataset",
            "READ@self or READ@namespace and WRITE@namespace",
            "(READ@self or READ@namespace) and WRITE@namespace",
        ),
        ("namespace", "ADMIN@all-live", "ADMIN@all-live:stream"),
        ("namespace", "ADMIN@all-live:stream", "ADMIN@all-live:dataset_module"),
        ("namespace", "ANY@self-or-below", "ANY@self"),
        ("namespace", "ADMIN@instance", "ADMIN@self"),
    ],
)
def test_different_requirements_are_not_equivalent(kind, first, second):
    assert differing_facts(example(first, kind), example(second, kind)) is not None


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("dataset", "(READ@self and READ@namespace) or READ@namespace", "READ@namespace"),
        ("dataset", "READ@parent", "READ@namespace"),
        ("dataset", "ANY@self-or-below", f"{'|'.join(reversed(Privilege))}@self"),
        ("program", "READ@parent", "READ@application"),
        ("namespace", "READ@parent", "READ@instance"),
        ("namespace", "READ@namespace", "READ@self"),
        ("application", "ANY@self-or-below", "ANY@self or ANY@self-or-below"),
        ("kerberosprincipal", "READ@parent", "READ@instance"),
    ],
)
def test_two_texts_for_the_same_requirement_are_equivalent(kind, first, second):
    assert differing_facts(example(first, kind), example(second, kind)) is None


def test_a_wrong_expression_is_detected():
    wrong = AllOf((Has((Privilege.READ,)), HasOnAllLive(Privilege.ADMIN, "stream")))
    right = example("READ@self and ADMIN@all-live", "namespace")
    assert differing_facts(formula_of("namespace", wrong), right) == [
        "ADMIN on all live stream",
        "READ@self",
    ]
