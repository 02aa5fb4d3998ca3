"""Gathering facts: one statement for one question or for a thousand, on PostgreSQL and SQLite alike.

The questions become small relations (who asks, which addresses, which containers at or below, which containers whose live
content must be held); the statement joins them to the grants. It holds no rule: which relations a question needs follows
from the leaves of its expression.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from entities.address import Address
from entities.vocabulary import CONTAINER_KINDS, KIND_ORDER, Privilege
from grants.evaluation.facts_sql import FEW_ROWS, Relation, statement
from grants.models import permission_ids, privilege_of
from grants.policies.decide import HeldGrant, MissingEntities
from grants.policies.grammar import Has, HasAtOrBelow, HasOnAllLive, leaves
from grants.policies.question import Question

NOTHING_HELD: Mapping[Privilege, str] = MappingProxyType({})
NOTHING_LACKS = MissingEntities(is_empty=True)


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
    """What the statement found, by the numbers of the `_Ask`. An entry in `below` is the text of an example."""

    explained: bool
    known: set[int] = field(default_factory=set)
    held: dict[int, str] = field(default_factory=dict)
    below: dict[int, str] = field(default_factory=dict)
    lacks: dict[int, list[Address]] = field(default_factory=dict)
    totals: dict[int, int] = field(default_factory=dict)
    read: dict[str, Mapping[Privilege, str]] = field(default_factory=dict)

    def privileges(self, text: str) -> Mapping[Privilege, str]:
        """Those of a text without principals; there are some dozen such texts."""
        if (held := self.read.get(text)) is None:
            held = self.read[text] = {privilege_of(int(permission)): "" for permission in text.split()}
        return held


class QuestionFacts:
    """The facts of one question; see `grants.policies.decide.Facts`."""

    __slots__ = ("_ask", "_ledger", "_subject", "subject_is_known")

    def __init__(self, ask: _Ask, ledger: _Ledger, subject: int):
        self._ask, self._ledger, self._subject = ask, ledger, subject
        self.subject_is_known = subject in ledger.known

    def privileges_on(self, place: Address) -> Mapping[Privilege, str]:
        text = self._ledger.held.get(self._ask.places[self._subject, place])
        if text is None:
            return NOTHING_HELD
        return _by_whom(text) if self._ledger.explained else self._ledger.privileges(text)

    def has_grant_at_or_below(self, place: Address) -> bool:
        if place.kind in CONTAINER_KINDS:
            return self._ask.below[self._subject, place] in self._ledger.below
        return bool(self.privileges_on(place))

    def grant_at_or_below(self, place: Address) -> HeldGrant | None:
        if place.kind in CONTAINER_KINDS:
            text = self._ledger.below.get(self._ask.below[self._subject, place])
            return None if text is None else _example(text)
        for privilege, principal in self.privileges_on(place).items():
            return HeldGrant(principal, place, privilege)
        return None

    def missing_entities(self, place: Address, privilege: Privilege, kind: str | None) -> MissingEntities:
        number = self._ask.live[self._subject, place, privilege, kind or ""]
        total, addresses = self._ledger.totals.get(number, 0), self._ledger.lacks.get(number)
        if addresses is None:
            return MissingEntities(True, total) if total else NOTHING_LACKS
        return MissingEntities(False, total, tuple(addresses))


def gather_facts(questions: Sequence[Question], *, explained: bool = False, ranging: bool = True) -> list[QuestionFacts]:
    """The facts of each question, in order. One statement, whatever the number of questions.

    explained: gather also what only an explanation needs, for every question and not just for those that ask for it.
    ranging: gather also what rules over all live entities look at; who leaves it out answers `lacking` otherwise.
    """
    ask = _Ask()
    numbers = [_collect_lookups(ask, question, explained or question.explain, ranging) for question in questions]
    ledger = _look_up(ask, explained or any(question.explain for question in questions))
    return [QuestionFacts(ask, ledger, number) for number in numbers]


def _collect_lookups(ask: _Ask, question: Question, explained: bool, ranging: bool) -> int:
    """Note what the question needs looked up. Returns the number of its subject."""
    target, policy = question.target, question.policy
    if target is None:
        return -1
    subject = _number(ask.subjects, (question.subject_type, question.subject))
    if policy is None or policy.requirement is None:
        return subject
    for leaf in leaves(policy.requirement):
        match leaf:
            case Has(_, scope):
                place = question.address_at(scope)
                if place is not None:
                    _number(ask.places, (subject, place))
            case HasAtOrBelow():
                _number(ask.below if target.kind in CONTAINER_KINDS else ask.places, (subject, target))
            case HasOnAllLive(privilege, kind) if ranging:
                number = _number(ask.live, (subject, target, privilege, kind or ""))
                if explained:
                    ask.explained.add(number)
    return subject


def _look_up(ask: _Ask, explained: bool) -> _Ledger:
    ledger = _Ledger(explained)
    if not ask.subjects:
        return ledger
    text, parameters = _statement(ask, explained)
    _record(ledger, ask, _rows(text, parameters))
    for addresses in ledger.lacks.values():
        addresses.sort(key=_address_order)
    return ledger


def _rows(text: str, parameters: list) -> list[tuple]:
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor == "postgresql" and not database.queries_logged and not database.execute_wrappers:
        return _rows_at_once(database, text, parameters)
    with database.cursor() as cursor:
        cursor.execute(text, parameters)
        return cursor.fetchall()


def _rows_at_once(database: BaseDatabaseWrapper, text: str, parameters: list) -> list[tuple]:
    """As Django's cursor does it, without making one: that takes as long as all else on this side of the database."""
    database.close_if_health_check_failed()
    database.ensure_connection()
    database.validate_no_broken_transaction()
    with database.wrap_database_errors:
        return database.connection.execute(text, parameters).fetchall()


def _record(ledger: _Ledger, ask: _Ask, rows: list[tuple]) -> None:
    places, below = list(ask.places), list(ask.below)
    known, held = ledger.known, ledger.held
    for what, number, figure, text in rows:
        match what:
            case "held":
                known.add(places[number][0])
                # SQLite makes an empty array of what is null on PostgreSQL
                if text is not None and text != "[]":
                    held[number] = text
            case "known":
                known.add(number)
            case "below":
                known.add(below[number][0])
                if text is not None:
                    ledger.below[number] = text
            case "lacks":
                addresses = ledger.lacks.setdefault(number, [])
                if text is not None:
                    addresses.append(_read(text))
            case "total":
                ledger.totals[number] = figure


def _by_whom(text: str) -> Mapping[Privilege, str]:
    held: dict[Privilege, str] = {}
    for permission, principal in json.loads(text):
        held.setdefault(privilege_of(permission), principal)
    return held


def _example(text: str) -> HeldGrant:
    permission, address, principal = text.split(" ", 2)
    return HeldGrant(principal, _read(address), privilege_of(int(permission)))


def _read(text: str) -> Address:
    kind, _, key = text.partition(":")
    return Address(kind, key)


def _address_order(address: Address) -> tuple[int, str]:
    return KIND_ORDER.get(address.kind, len(KIND_ORDER)), address.key


def _statement(ask: _Ask, explained: bool) -> tuple[str, list]:
    """The statement with only the parts that these questions need, and its parameters."""
    relations, parameters = [], []
    for (subject_type, what), rows in _asked(ask).items():
        is_few = len(rows) <= FEW_ROWS
        parameters += chain.from_iterable(rows) if is_few else [json.dumps(rows)]
        kinds = tuple(sorted({row[2] for row in rows})) if what in ("below", "live") else ()
        relations.append(Relation(subject_type, what, len(rows) if is_few else 0, kinds))
    return statement(connection.vendor, tuple(relations), explained), parameters


def _asked(ask: _Ask) -> dict[tuple[str, str], list[tuple]]:
    """The rows of each relation, by the type of their subjects and what is asked."""
    relations: dict[tuple[str, str], list[tuple]] = {}
    subjects = list(ask.subjects)
    # whoever stands in one of the others is known by its rows there
    unseen = set(range(len(subjects)))
    for what, asked in (("held", ask.places), ("below", ask.below)):
        for (subject, place), no in asked.items():
            subject_type, name = subjects[subject]
            relations.setdefault((subject_type, what), []).append((no, name, place.kind, place.key))
            unseen.discard(subject)
    ids = permission_ids() if ask.live else {}
    for (subject, place, privilege, kind), no in ask.live.items():
        subject_type, name = subjects[subject]
        row = (no, name, place.kind, place.key, ids[privilege], kind, int(no in ask.explained))
        relations.setdefault((subject_type, "live"), []).append(row)
    for subject in sorted(unseen):
        subject_type, name = subjects[subject]
        relations.setdefault((subject_type, "known"), []).append((subject, name))
    return relations
