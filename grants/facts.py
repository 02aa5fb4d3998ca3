"""Gathering facts: one statement for one question or for a thousand, on PostgreSQL and SQLite alike.

The questions become four small relations (who asks, which addresses, which containers at or below, which containers whose
live content must be held); the statement joins them to the grants. It holds no rule: which relations a question needs
follows from the leaves of its expression.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import connection

from entities.address import Address
from entities.vocabulary import CONTAINERS, KIND_ORDER, Privilege
from grants.facts_statement import statement
from grants.models import permission_ids, privilege_of
from grants.policies.decide import Held, Lacking
from grants.policies.expressions import Has, HasAtOrBelow, HasOnAllLive, leaves
from grants.policies.question import Question

NOTHING_HELD: dict[Privilege, str] = {}
NOTHING_LACKS = Lacking(is_empty=True)


@dataclass(slots=True)
class _Ask:
    """What one statement looks up: a number for each distinct subject, place and container."""

    subjects: dict[tuple[str, str], int] = field(default_factory=dict)
    places: dict[tuple[int, Address], int] = field(default_factory=dict)
    below: dict[tuple[int, Address], int] = field(default_factory=dict)
    live: dict[tuple[int, Address, Privilege, str], int] = field(default_factory=dict)
    explained: set[int] = field(default_factory=set)


def _number(relation: dict, row: tuple) -> int:
    return relation.setdefault(row, len(relation))


@dataclass(slots=True)
class _Ledger:
    """What the statement found, by the numbers of the `_Ask`."""

    known: set[int] = field(default_factory=set)
    held: dict[int, dict[Privilege, str]] = field(default_factory=dict)
    below: dict[int, Held] = field(default_factory=dict)
    lacks: dict[int, list[Address]] = field(default_factory=dict)
    totals: dict[int, int] = field(default_factory=dict)


class QuestionFacts:
    """The facts of one question; see `grants.policies.decide.Facts`."""

    __slots__ = ("_ask", "_ledger", "_subject", "subject_is_known")

    def __init__(self, ask: _Ask, ledger: _Ledger, subject: int):
        self._ask, self._ledger, self._subject = ask, ledger, subject
        self.subject_is_known = subject in ledger.known

    def held(self, place: Address) -> dict[Privilege, str]:
        return self._ledger.held.get(self._ask.places[self._subject, place], NOTHING_HELD)

    def at_or_below(self, place: Address) -> Held | None:
        if place.kind in CONTAINERS:
            return self._ledger.below.get(self._ask.below[self._subject, place])
        for privilege, principal in self.held(place).items():
            return Held(principal, place, privilege)
        return None

    def lacking(self, place: Address, privilege: Privilege, kind: str | None) -> Lacking:
        number = self._ask.live[self._subject, place, privilege, kind or ""]
        total, addresses = self._ledger.totals.get(number, 0), self._ledger.lacks.get(number)
        if addresses is None:
            return Lacking(True, total) if total else NOTHING_LACKS
        return Lacking(False, total, tuple(addresses))


def gather(questions: Sequence[Question], *, explained: bool = False) -> list[QuestionFacts]:
    """The facts of each question, in order. One statement, whatever the number of questions.

    explained: gather also what only an explanation needs, for every question and not just for those that ask for it.
    """
    ask = _Ask()
    numbers = [_enter(ask, question, explained or question.explain) for question in questions]
    ledger = _look_up(ask) if ask.subjects else _Ledger()
    return [QuestionFacts(ask, ledger, number) for number in numbers]


def _enter(ask: _Ask, question: Question, explained: bool) -> int:
    """Note what the question needs looked up. Returns the number of its subject."""
    if question.target is None:
        return -1
    subject = _number(ask.subjects, (question.subject_type, question.subject))
    policy = question.policy
    if policy is None or policy.requires is None:
        return subject
    for leaf in leaves(policy.requires):
        match leaf:
            case Has(_, scope):
                place = question.at(scope)
                if place is not None:
                    _number(ask.places, (subject, place))
            case HasAtOrBelow():
                relation = ask.below if question.target.kind in CONTAINERS else ask.places
                _number(relation, (subject, question.target))
            case HasOnAllLive(privilege, kind):
                number = _number(ask.live, (subject, question.target, privilege, kind or ""))
                if explained:
                    ask.explained.add(number)
    return subject


def _look_up(ask: _Ask) -> _Ledger:
    statement, parameters = _statement(ask)
    ledger = _Ledger()
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        for what, number, figure, text in cursor:
            _record(ledger, what, number, figure, text)
    for addresses in ledger.lacks.values():
        addresses.sort(key=_address_order)
    return ledger


def _record(ledger: _Ledger, what: str, number: int, figure: int | None, text: str | None) -> None:
    match what:
        case "held":
            ledger.held.setdefault(number, {}).setdefault(privilege_of(figure), text)
        case "known":
            ledger.known.add(number)
        case "below":
            permission_text, address, principal = text.split(" ", 2)
            ledger.below[number] = Held(principal, _read(address), privilege_of(int(permission_text)))
        case "lacks":
            addresses = ledger.lacks.setdefault(number, [])
            if text is not None:
                addresses.append(_read(text))
        case "total":
            ledger.totals[number] = figure


def _read(text: str) -> Address:
    kind, _, key = text.partition(":")
    return Address(kind, key)


def _address_order(address: Address) -> tuple[int, str]:
    return KIND_ORDER.get(address.kind, len(KIND_ORDER)), address.key




def _statement(ask: _Ask) -> tuple[str, list[str]]:
    """The statement with only the parts that these questions need, and its parameters: one JSON text a relation."""
    subjects, ids = list(ask.subjects), permission_ids()
    relations: dict[tuple[str, str], list[tuple]] = {}

    def add(what: str, no: int, subject: int, *rest) -> None:
        subject_type, name = subjects[subject]
        relations.setdefault((subject_type, what), []).append((no, name, *rest))

    for no in ask.subjects.values():
        add("known", no, no)
    for (subject, place), no in ask.places.items():
        add("held", no, subject, place.kind, place.key)
    for (subject, place), no in ask.below.items():
        add("below", no, subject, place.kind, place.key)
    for (subject, place, privilege, kind), no in ask.live.items():
        add("live", no, subject, place.kind, place.key, ids[privilege], kind, int(no in ask.explained))
    below, live = {place.kind for _, place in ask.below}, {place.kind for _, place, _, _ in ask.live}
    text = statement(connection.vendor, tuple(relations), tuple(sorted(below)), tuple(sorted(live)), bool(ask.explained))
    return text, [json.dumps(rows) for rows in relations.values()]
