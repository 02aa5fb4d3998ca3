"""The catalogue against a second, independent transcription of the same seed documents.

cases/second_reading.toml says what each operation requires in a small notation. Each row is proved logically equivalent
to the catalogue's expression by a truth table over the facts that either of the two looks at.
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

READINGS = tomllib.loads((Path(__file__).parents[2] / "cases" / "second_reading.toml").read_text(encoding="utf-8"))

PRIVILEGES = tuple(map(str, Privilege))
SCOPES = ("self", "parent", "application", "namespace", "instance", "artifact", "dataset_type", "owner")
PARAMETERS = ("new artifact", "existing artifact", "dataset type", "owner")

# The published list of operations, word for word. Each reading lists all of them, in this order.
PLACES = [tuple(row.split(".")) for row in next(iter(READINGS.values()))]
OPERATIONS = {kind: [operation for kind_of_operation, operation in PLACES if kind_of_operation == kind] for kind, _ in PLACES}

PARENTS = {"namespace": "instance", "kerberosprincipal": "instance", "program": "application"}
LEAVES = set(OPERATIONS) - {"namespace", "application"}

# A formula is ("atom", name) | ("and", parts) | ("or", parts) | ("not", part); these two are the constants.
TRUE, FALSE = ("and", ()), ("or", ())


def held(kind, privileges, scope):
    """Any of the privileges at that scope, with the scope under the one name that it has for a target of that kind."""
    if scope == "parent":
        scope = PARENTS.get(kind, "namespace")
    if scope == kind and kind in ("namespace", "application"):
        scope = "self"
    return ("or", tuple(("atom", f"{privilege}@{scope}") for privilege in privileges))


def held_at_or_below(kind):
    """Any privilege on the target, or anything at all beneath it, which a leaf has not."""
    here = held(kind, PRIVILEGES, "self")
    return here if kind in LEAVES else ("or", (here, ("atom", "any privilege beneath")))


def held_on_all_live(privilege, kind=None):
    return ("atom", f"{privilege} on all live {kind or 'descendants'}")


def when(parameter, then):
    return ("or", (("not", ("atom", f"question brings {parameter}")), then))


# The notation ---------------------------------------------------------------------------------------------------------

TOKEN = re.compile(r"\s*(?:(?P<mark>[()])|\[(?P<given>[a-z ]+)\]|(?P<word>[A-Za-z|]+(?:@[a-z_:-]+)?))")


class NotationError(ValueError):
    pass


def tokens(text):
    found, position, text = [], 0, text.strip()
    while position < len(text):
        match = TOKEN.match(text, position)
        if not match:
            raise NotationError(f"cannot read {text[position:]!r}")
        found.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return found


def notated(kind, text):
    """The formula that `text` stands for on a target of that kind; None for no rule."""
    if text == "none":
        return None
    rest = tokens(text)

    def joined(word, part):
        parts = [part()]
        while rest and rest[0] == ("word", word):
            rest.pop(0)
            parts.append(part())
        return (word, tuple(parts))

    def alternatives():
        return joined("or", conjunction)

    def conjunction():
        return joined("and", term)

    def term():
        if not rest:
            raise NotationError(f"{text!r} ends too early")
        group, value = rest.pop(0)
        if group == "given":
            if value not in PARAMETERS:
                raise NotationError(f"{value!r} is nothing that a question brings")
            return when(value, term())
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
            return held_at_or_below(kind)
        where, _, of_kind = scope.partition(":")
        if where == "all-live" and len(privileges) == 1 and of_kind in ("", *OPERATIONS):
            return held_on_all_live(privileges[0], of_kind)
        if scope not in SCOPES:
            raise NotationError(f"{scope!r} is no scope")
        return held(kind, privileges, scope)

    formula = alternatives()
    if rest:
        raise NotationError(f"{text!r} goes on after its end")
    return formula


# The catalogue's expressions ------------------------------------------------------------------------------------------


def catalogued(kind, expression):
    """The formula that an expression of the catalogue stands for on a target of that kind; None for no rule."""
    match expression:
        case None:
            return None
        case Always():
            return TRUE
        case Has(privileges, scope):
            return held(kind, [str(privilege) for privilege in privileges], str(scope))
        case HasAtOrBelow():
            return held_at_or_below(kind)
        case HasOnAllLive(privilege, of_kind):
            return held_on_all_live(str(privilege), of_kind)
        case AllOf(parts):
            return ("and", tuple(catalogued(kind, part) for part in parts))
        case AnyOf(parts):
            return ("or", tuple(catalogued(kind, part) for part in parts))
        case Given(parameter, then):
            return when(str(parameter), catalogued(kind, then))
    raise AssertionError(f"the test does not know {expression!r}")


# The proof ------------------------------------------------------------------------------------------------------------


def atoms(formula):
    operator, content = formula
    if operator == "atom":
        return {content}
    return set().union(*map(atoms, (content,) if operator == "not" else content))


def holds(formula, world):
    operator, content = formula
    match operator:
        case "atom":
            return world[content]
        case "not":
            return not holds(content, world)
        case "and":
            return all(holds(part, world) for part in content)
        case "or":
            return any(holds(part, world) for part in content)


def disagreement(one, other):
    """The facts that are true in a world where exactly one of the two holds; None where there is no such world."""
    names = sorted(atoms(one) | atoms(other))
    for values in product((False, True), repeat=len(names)):
        world = dict(zip(names, values, strict=True))
        if holds(one, world) != holds(other, world):
            return [name for name in names if world[name]]
    return None


@pytest.mark.parametrize(("kind", "operation"), PLACES, ids=lambda value: value)
@pytest.mark.parametrize("generation", READINGS)
def test_the_catalogue_requires_what_the_second_reading_requires(generation, kind, operation):
    text = READINGS[generation][f"{kind}.{operation}"]
    second = notated(kind, text)
    policy = GENERATIONS[generation].policies[kind, operation]
    first = catalogued(kind, policy.requirement)

    assert (policy.kind, policy.operation) == (kind, operation)
    assert (first is None) == (second is None), f"one has a rule, one has none: {text!r}, {policy.requirement}"
    if first is not None:
        differing = disagreement(first, second)
        assert differing is None, f"with only {differing} true they differ: {text!r}, {policy.requirement}"


# Coverage -------------------------------------------------------------------------------------------------------------


def test_the_vocabulary_holds_exactly_the_published_operations_in_their_order():
    assert {kind.name: list(kind.operations) for kind in KINDS.values()} == {"instance": [], **OPERATIONS}


def test_the_vocabulary_places_each_kind_where_this_test_places_it():
    expected = {kind: PARENTS.get(kind, "namespace") for kind in OPERATIONS}
    assert {kind.name: kind.parent for kind in KINDS.values()} == {"instance": None, **expected}
    assert LEAVES.isdisjoint(kind.parent for kind in KINDS.values())


def test_both_readings_hold_the_same_generations():
    assert list(GENERATIONS) == list(READINGS)
    assert all(GENERATIONS[name].name == name for name in READINGS)


@pytest.mark.parametrize("generation", READINGS)
def test_the_second_reading_lists_exactly_the_published_operations_in_their_order(generation):
    assert list(READINGS[generation]) == [f"{kind}.{operation}" for kind, operation in PLACES]


@pytest.mark.parametrize("generation", READINGS)
def test_the_catalogue_covers_exactly_the_published_operations(generation):
    assert set(GENERATIONS[generation].policies) == set(PLACES)


# What creating and deleting does to grants ----------------------------------------------------------------------------


@pytest.mark.parametrize("generation", READINGS)
def test_what_the_creator_receives_and_what_a_deletion_removes(generation):
    expected = EXPECTED[generation]
    assert GENERATIONS[generation].creator_receives == expected.creator_receives
    assert GENERATIONS[generation].deleting_removes_grants is expected.deleting_removes_grants


# Is the proof itself any good -----------------------------------------------------------------------------------------


@cache
def example(text, kind="dataset"):
    return notated(kind, text)


@pytest.mark.parametrize("text", [
    "", "READ", "READ@", "READ@nowhere", "LOOK@self", "READ|LOOK@self", "READ@self and", "(READ@self", "READ@self)",
    "READ@self WRITE@self", "[stranger] READ@self", "[owner]", "and", "READ@self-or-below", "READ@all-live:schedule",
    "READ|ADMIN@all-live", "READ @self", "READ@self & READ@namespace", "READ@self or none",
])
def test_what_the_notation_does_not_know_is_refused_instead_of_read_somehow(text):
    with pytest.raises(NotationError):
        notated("dataset", text)


@pytest.mark.parametrize(("one", "other"), [
    ("READ@self", "WRITE@self"),
    ("READ@self", "READ@namespace"),
    ("READ@self", "always"),
    ("ANY@self", "READ|WRITE|ADMIN@self"),
    ("READ@self and READ@namespace", "READ@self or READ@namespace"),
    ("ADMIN@self", "ADMIN@self and [owner] ADMIN@owner"),
    ("[new artifact] ADMIN@artifact", "[existing artifact] ADMIN@artifact"),
    ("READ@self or READ@namespace and WRITE@namespace", "(READ@self or READ@namespace) and WRITE@namespace"),
])
def test_two_requirements_that_differ_are_told_apart(one, other):
    assert disagreement(example(one), example(other)) is not None


@pytest.mark.parametrize(("one", "other"), [
    ("ADMIN@all-live", "ADMIN@all-live:stream"),
    ("ADMIN@all-live:stream", "ADMIN@all-live:dataset_module"),
    ("ANY@self-or-below", "ANY@self"),
    ("ADMIN@instance", "ADMIN@self"),
])
def test_two_requirements_on_a_namespace_that_differ_are_told_apart(one, other):
    assert disagreement(example(one, "namespace"), example(other, "namespace")) is not None


@pytest.mark.parametrize(("kind", "one", "other"), [
    ("dataset", "(READ@self and READ@namespace) or READ@namespace", "READ@namespace"),
    ("dataset", "READ@parent", "READ@namespace"),
    ("dataset", "ANY@self-or-below", f"{'|'.join(reversed(PRIVILEGES))}@self"),
    ("program", "READ@parent", "READ@application"),
    ("namespace", "READ@parent", "READ@instance"),
    ("namespace", "READ@namespace", "READ@self"),
    ("application", "ANY@self-or-below", "ANY@self or ANY@self-or-below"),
    ("kerberosprincipal", "READ@parent", "READ@instance"),
])
def test_two_wordings_of_one_requirement_are_equivalent(kind, one, other):
    assert disagreement(example(one, kind), example(other, kind)) is None


def test_an_expression_that_the_catalogue_writes_wrongly_is_found():
    wrong = AllOf((Has((Privilege.READ,)), HasOnAllLive(Privilege.ADMIN, "stream")))
    right = example("READ@self and ADMIN@all-live", "namespace")
    assert disagreement(catalogued("namespace", wrong), right) == ["ADMIN on all live stream", "READ@self"]
