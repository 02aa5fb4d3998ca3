"""Compare the catalogue with a second, independent transcription of the same seed documents.

cases/second_reading.toml lists the requirement of each operation in a small notation. For each row, a truth
table over all facts proves that it is logically equivalent to the expression in the catalogue.
"""

import re
import tomllib
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from entities.vocabulary import KINDS, Privilege
from grants.policies.catalogue import GENERATIONS
from grants.policies.grammar import AllOf, Always, AnyOf, Given, Has, HasAtOrBelow, HasOnAllLive
from tests.support.expected_generations import EXPECTED

TRANSCRIPTION = tomllib.loads(
    (Path(__file__).parents[2] / "cases" / "second_reading.toml").read_text(encoding="utf-8")
)

PRIVILEGES = tuple(map(str, Privilege))
SCOPES = ("self", "parent", "application", "namespace", "instance", "artifact", "dataset_type", "owner")
PARAMETERS = ("new artifact", "existing artifact", "dataset type", "owner")

# The published list of operations, word for word. Each generation of the transcription lists all of them, in
# this order.
KINDS_AND_OPERATIONS = [tuple(row.split(".")) for row in next(iter(TRANSCRIPTION.values()))]
OPERATIONS = {
    kind: [operation for operation_kind, operation in KINDS_AND_OPERATIONS if operation_kind == kind]
    for kind, _ in KINDS_AND_OPERATIONS
}

PARENTS = {"namespace": "instance", "kerberosprincipal": "instance", "program": "application"}
LEAVES = set(OPERATIONS) - {"namespace", "application"}

# A formula is ("atom", name) | ("and", parts) | ("or", parts) | ("not", part); this one is always true.
TRUE = ("and", ())


def any_of_privileges(kind, privileges, scope):
    """Return the formula that one of the privileges is held at the scope.

    Scopes that mean the same entity for this kind get the same name.
    """
    if scope == "parent":
        scope = PARENTS.get(kind, "namespace")
    if scope == kind and kind in ("namespace", "application"):
        scope = "self"
    return ("or", tuple(("atom", f"{privilege}@{scope}") for privilege in privileges))


def any_privilege_at_or_below(kind):
    """Return the formula that any privilege is held on the target or inside it.

    A leaf kind contains nothing.
    """
    on_target = any_of_privileges(kind, PRIVILEGES, "self")
    return on_target if kind in LEAVES else ("or", (on_target, ("atom", "any privilege inside")))


def privilege_on_all_live(privilege, kind=None):
    return ("atom", f"{privilege} on all live {kind or 'descendants'}")


def if_given(parameter, then):
    return ("or", (("not", ("atom", f"question names {parameter}")), then))


# The notation
# ---------------------------------------------------------------------------------------------------------

TOKEN = re.compile(r"\s*(?:(?P<mark>[()])|\[(?P<given>[a-z ]+)\]|(?P<word>[A-Za-z|]+(?:@[a-z_:-]+)?))")


class NotationError(ValueError):
    pass


def tokens(text):
    result, position, text = [], 0, text.strip()
    while position < len(text):
        match = TOKEN.match(text, position)
        if not match:
            raise NotationError(f"cannot read {text[position:]!r}")
        result.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return result


def formula_of_text(kind, text):
    """Return the formula for a text in the notation, for a target of that kind; None for no rule."""
    if text == "none":
        return None
    rest = tokens(text)

    def chain(word, part):
        parts = [part()]
        while rest and rest[0] == ("word", word):
            rest.pop(0)
            parts.append(part())
        return (word, tuple(parts))

    def alternatives():
        return chain("or", conjunction)

    def conjunction():
        return chain("and", term)

    def term():
        if not rest:
            raise NotationError(f"{text!r} ends too early")
        group, value = rest.pop(0)
        if group == "given":
            if value not in PARAMETERS:
                raise NotationError(f"{value!r} is not a parameter of a question")
            return if_given(value, term())
        if (group, value) == ("mark", "("):
            inner = alternatives()
            if not rest or rest.pop(0) != ("mark", ")"):
                raise NotationError(f"{text!r} lacks a closing parenthesis")
            return inner
        return leaf(value)

    def leaf(value):
        if value == "always":
            return TRUE
        names, at, scope = value.partition("@")
        privileges = PRIVILEGES if names == "ANY" else tuple(names.split("|"))
        if not at or not set(privileges) <= set(PRIVILEGES):
            raise NotationError(f"{value!r} is no requirement")
        if scope == "self-or-below" and names == "ANY":
            return any_privilege_at_or_below(kind)
        where, _, entity_kind = scope.partition(":")
        if where == "all-live" and len(privileges) == 1 and entity_kind in ("", *OPERATIONS):
            return privilege_on_all_live(privileges[0], entity_kind)
        if scope not in SCOPES:
            raise NotationError(f"{scope!r} is no scope")
        return any_of_privileges(kind, privileges, scope)

    formula = alternatives()
    if rest:
        raise NotationError(f"{text!r} goes on after its end")
    return formula


# The catalogue's expressions
# ------------------------------------------------------------------------------------------


def formula_of_expression(kind, expression):
    """Return the formula for an expression of the catalogue, for a target of that kind; None for no rule."""
    match expression:
        case None:
            return None
        case Always():
            return TRUE
        case Has(privileges, scope):
            return any_of_privileges(kind, [str(privilege) for privilege in privileges], str(scope))
        case HasAtOrBelow():
            return any_privilege_at_or_below(kind)
        case HasOnAllLive(privilege, entity_kind):
            return privilege_on_all_live(str(privilege), entity_kind)
        case AllOf(parts):
            return ("and", tuple(formula_of_expression(kind, part) for part in parts))
        case AnyOf(parts):
            return ("or", tuple(formula_of_expression(kind, part) for part in parts))
        case Given(parameter, then):
            return if_given(str(parameter), formula_of_expression(kind, then))
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
    second = formula_of_text(kind, text)
    policy = GENERATIONS[generation].policies[kind, operation]
    first = formula_of_expression(kind, policy.requirement)

    assert (policy.kind, policy.operation) == (kind, operation)
    assert (first is None) == (second is None), f"only one of them has a rule: {text!r}, {policy.requirement}"
    if first is not None:
        facts = differing_facts(first, second)
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


@cache
def example(text, kind="dataset"):
    return formula_of_text(kind, text)


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
    with pytest.raises(NotationError):
        formula_of_text("dataset", text)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("READ@self", "WRITE@self"),
        ("READ@self", "READ@namespace"),
        ("READ@self", "always"),
        ("ANY@self", "READ|WRITE|ADMIN@self"),
        ("READ@self and READ@namespace", "READ@self or READ@namespace"),
        ("ADMIN@self", "ADMIN@self and [owner] ADMIN@owner"),
        ("[new artifact] ADMIN@artifact", "[existing artifact] ADMIN@artifact"),
        (
            "READ@self or READ@namespace and WRITE@namespace",
            "(READ@self or READ@namespace) and WRITE@namespace",
        ),
    ],
)
def test_different_requirements_are_not_equivalent(first, second):
    assert differing_facts(example(first), example(second)) is not None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ADMIN@all-live", "ADMIN@all-live:stream"),
        ("ADMIN@all-live:stream", "ADMIN@all-live:dataset_module"),
        ("ANY@self-or-below", "ANY@self"),
        ("ADMIN@instance", "ADMIN@self"),
    ],
)
def test_different_requirements_on_a_namespace_are_not_equivalent(first, second):
    assert differing_facts(example(first, "namespace"), example(second, "namespace")) is not None


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("dataset", "(READ@self and READ@namespace) or READ@namespace", "READ@namespace"),
        ("dataset", "READ@parent", "READ@namespace"),
        ("dataset", "ANY@self-or-below", f"{'|'.join(reversed(PRIVILEGES))}@self"),
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
    assert differing_facts(formula_of_expression("namespace", wrong), right) == [
        "ADMIN on all live stream",
        "READ@self",
    ]
