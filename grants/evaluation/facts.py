"""Gather the facts of any number of questions with one SQL statement.

The questions are turned into small relations of lookups: subjects, addresses, containers in which any grant
counts, and containers with live entities. The statement joins these relations to the grants. It contains no
rules. The leaves of the requirement of a question determine its lookups.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from types import MappingProxyType

from django.db import connection

from entities.address import Address
from entities.vocabulary import CONTAINER_KINDS, KIND_ORDER, Privilege
from grants.bulk_rows import database_time
from grants.evaluation.facts_sql import FEW_ROWS, NO_END, Relation, statement
from grants.evaluation.raw_statement import fetch_rows
from grants.models import permission_ids, privilege_of
from grants.policies.decide import EntitiesWithoutPrivilege, Facts, HeldGrant, HolderName
from grants.policies.grammar import FactsRead
from grants.policies.question import Question
from grants.validity import question_time

NOTHING_HELD: Mapping[Privilege, str] = MappingProxyType({})
NOTHING_MISSING = EntitiesWithoutPrivilege(is_empty=True)


@dataclass(slots=True)
class _Lookups:
    """The lookups of one statement, each with its number. Equal lookups of several questions have one number.

    subjects: (type, name). held: (subject, address), to find grants on exactly the address.
    below: (subject, container), to find a grant on or inside the container.
    live: (subject, container, privilege, kind or ""), to find live entities inside the container without the
    privilege.
    explained: the numbers of the `live` lookups that need all these entities, and not only whether there is
    one.
    """

    subjects: dict[tuple[str, str], int] = field(default_factory=dict)
    held: dict[tuple[int, Address], int] = field(default_factory=dict)
    below: dict[tuple[int, Address], int] = field(default_factory=dict)
    live: dict[tuple[int, Address, Privilege, str], int] = field(default_factory=dict)
    explained: set[int] = field(default_factory=set)


def _number(relation: dict, row: tuple) -> int:
    return relation.setdefault(row, len(relation))


@dataclass(slots=True)
class _Results:
    """The result rows of the statement, by the number of their lookup (see `_Lookups`).

    is_explained: whether the texts contain principals and entities. known: the subjects that exist and are
    active.
    held: the privileges as text. below: one grant as text.
    missing: the live entities without the privilege. totals: the number of live entities.
    parsed: a cache of parsed texts of `held`.
    """

    is_explained: bool
    known: set[int] = field(default_factory=set)
    held: dict[int, str] = field(default_factory=dict)
    below: dict[int, str] = field(default_factory=dict)
    missing: dict[int, list[Address]] = field(default_factory=dict)
    totals: dict[int, int] = field(default_factory=dict)
    parsed: dict[str, Mapping[Privilege, str]] = field(default_factory=dict)

    def privileges(self, text: str) -> Mapping[Privilege, str]:
        """Parse a list of privileges without principals.

        Only a few dozen different lists exist, so each is parsed once.
        """
        if (privileges := self.parsed.get(text)) is None:
            privileges = self.parsed[text] = {
                privilege_of(int(permission)): "" for permission in text.split()
            }
        return privileges


class QuestionFacts:
    """The facts of one question; see `grants.policies.decide.Facts`."""

    __slots__ = ("_lookups", "_results", "_subject", "is_subject_known")

    def __init__(self, lookups: _Lookups, results: _Results, subject: int):
        self._lookups, self._results, self._subject = lookups, results, subject
        self.is_subject_known = subject in results.known

    def privileges_on(self, address: Address) -> Mapping[Privilege, str]:
        text = self._results.held.get(self._lookups.held[self._subject, address])
        if text is None:
            return NOTHING_HELD
        return (
            _principals_by_privilege(text) if self._results.is_explained else self._results.privileges(text)
        )

    def has_grant_at_or_below(self, address: Address) -> bool:
        if address.kind in CONTAINER_KINDS:
            return self._lookups.below[self._subject, address] in self._results.below
        return bool(self.privileges_on(address))

    def grant_at_or_below(self, address: Address) -> HeldGrant | None:
        if address.kind in CONTAINER_KINDS:
            text = self._results.below.get(self._lookups.below[self._subject, address])
            return None if text is None else _grant_from_text(text)
        for privilege, principal in self.privileges_on(address).items():
            return HeldGrant.of(principal, address, privilege)
        return None

    def entities_without_privilege(
        self, address: Address, privilege: Privilege, kind: str | None
    ) -> EntitiesWithoutPrivilege:
        number = self._lookups.live[self._subject, address, privilege, kind or ""]
        total, addresses = self._results.totals.get(number, 0), self._results.missing.get(number)
        if addresses is None:
            return EntitiesWithoutPrivilege(True, total) if total else NOTHING_MISSING
        return EntitiesWithoutPrivilege(False, total, tuple(addresses))


@dataclass(frozen=True, slots=True)
class DelegatedFacts:
    """The facts of one question, for subclasses that find the entities without a privilege in their own way.

    They add `entities_without_privilege`; see `grants.policies.decide.Facts`.
    """

    facts: Facts

    @property
    def is_subject_known(self) -> bool:
        return self.facts.is_subject_known

    def privileges_on(self, address: Address) -> Mapping[Privilege, str]:
        return self.facts.privileges_on(address)

    def has_grant_at_or_below(self, address: Address) -> bool:
        return self.facts.has_grant_at_or_below(address)

    def grant_at_or_below(self, address: Address) -> HeldGrant | None:
        return self.facts.grant_at_or_below(address)


def gather_facts(
    questions: Sequence[Question], *, explained: bool = False, with_live: bool = True
) -> list[QuestionFacts]:
    """Return the facts of each question, in order. Runs one query for any number of questions.

    explained: gather the facts for an explanation of every question, not only of those with `explain`.
    with_live: gather the facts for rules over all live entities. A caller that sets it to False provides
        `entities_without_privilege`.
    """
    lookups = _Lookups()
    numbers = [
        _collect_lookups(lookups, question, explained or question.explain, with_live)
        for question in questions
    ]
    results = _execute_lookups(lookups, explained or any(question.explain for question in questions))
    return [QuestionFacts(lookups, results, number) for number in numbers]


def _collect_lookups(lookups: _Lookups, question: Question, explained: bool, with_live: bool) -> int:
    """Add the lookups of the question. Return the number of its subject; -1 if the question has no target."""
    target, policy = question.target, question.policy
    if target is None:
        return -1
    subject = _number(lookups.subjects, (question.subject_type, question.subject))
    if policy is None or policy.requirement is None:
        return subject
    read = FactsRead(policy.requirement)
    for leaf in read.held:
        address = question.address_at(leaf.scope)
        if address is not None:
            _number(lookups.held, (subject, address))
    if read.is_at_or_below:
        _number(lookups.below if target.kind in CONTAINER_KINDS else lookups.held, (subject, target))
    for all_live in read.all_live if with_live else ():
        number = _number(lookups.live, (subject, target, all_live.privilege, all_live.kind or ""))
        if explained:
            lookups.explained.add(number)
    return subject


def _execute_lookups(lookups: _Lookups, explained: bool) -> _Results:
    results = _Results(explained)
    if not lookups.subjects:
        return results
    text, parameters = _statement(lookups, explained)
    _store_rows(results, lookups, fetch_rows(text, parameters))
    for addresses in results.missing.values():
        addresses.sort(key=_address_order)
    return results


def _store_rows(results: _Results, lookups: _Lookups, rows: list[tuple]) -> None:
    held_lookups, below_lookups = list(lookups.held), list(lookups.below)
    known, held = results.known, results.held
    for lookup, number, count, text in rows:
        match lookup:
            case "held":
                known.add(held_lookups[number][0])
                # if there is no privilege, PostgreSQL returns NULL, and SQLite an empty array
                if text is not None and text != "[]":
                    held[number] = text
            case "known":
                known.add(number)
            case "below":
                known.add(below_lookups[number][0])
                if text is not None:
                    results.below[number] = text
            case "missing":
                addresses = results.missing.setdefault(number, [])
                if text is not None:
                    addresses.append(_address_from_text(text))
            case "total":
                results.totals[number] = count


def _principals_by_privilege(text: str) -> Mapping[Privilege, str]:
    """Return a holder of each privilege: of several, the one whose grant ends last."""
    principals: dict[Privilege, HolderName] = {}
    for permission, principal, *ends in json.loads(text):
        holder, privilege = HolderName(principal, _first_end(ends)), privilege_of(permission)
        known = principals.setdefault(privilege, holder)
        if known.valid_until is not None and (
            holder.valid_until is None or holder.valid_until > known.valid_until
        ):
            principals[privilege] = holder
    return principals


def _grant_from_text(text: str) -> HeldGrant:
    permission, address, grant_end, membership_end, principal = text.split(" ", 4)
    end = _first_end(end for end in (grant_end, membership_end) if end != NO_END)
    return HeldGrant(principal, _address_from_text(address), privilege_of(int(permission)), end)


def _first_end(texts: Iterable[str | None]) -> datetime | None:
    """Return the earlier of the ends of a grant and a membership. None means no end."""
    ends = (datetime.fromisoformat(text) for text in texts if text is not None)
    # SQLite has no time zones: all its times are in UTC
    return min((end if end.tzinfo else end.replace(tzinfo=UTC) for end in ends), default=None)


def _address_from_text(text: str) -> Address:
    kind, _, key = text.partition(":")
    return Address(kind, key)


def _address_order(address: Address) -> tuple[int, str]:
    return KIND_ORDER.get(address.kind, len(KIND_ORDER)), address.key


def _statement(lookups: _Lookups, explained: bool) -> tuple[str, list]:
    """Return the statement for these lookups, and its parameters."""
    relations, parameters, at = [], [], database_time(question_time())
    for (subject_type, lookup), rows in _relation_rows(lookups).items():
        is_few = len(rows) <= FEW_ROWS
        parameters += chain.from_iterable(rows) if is_few else [json.dumps(rows)]
        parameters.append(at)
        kinds = tuple(sorted({row[2] for row in rows})) if lookup in ("below", "live") else ()
        relations.append(Relation(subject_type, lookup, len(rows) if is_few else 0, kinds))
    return statement(connection.vendor, tuple(relations), explained), parameters


def _relation_rows(lookups: _Lookups) -> dict[tuple[str, str], list[tuple]]:
    """Return the rows of each relation, by type of the subject and name of the lookup."""
    relations: dict[tuple[str, str], list[tuple]] = {}
    subjects = list(lookups.subjects)
    # subjects that are in no other relation need a row of their own, which shows whether they are known
    remaining = set(range(len(subjects)))
    for lookup, numbers in (("held", lookups.held), ("below", lookups.below)):
        for (subject, address), number in numbers.items():
            subject_type, name = subjects[subject]
            relations.setdefault((subject_type, lookup), []).append((number, name, address.kind, address.key))
            remaining.discard(subject)
    ids = permission_ids() if lookups.live else {}
    for (subject, address, privilege, kind), number in lookups.live.items():
        subject_type, name = subjects[subject]
        row = (
            number,
            name,
            address.kind,
            address.key,
            ids[privilege],
            kind,
            int(number in lookups.explained),
        )
        relations.setdefault((subject_type, "live"), []).append(row)
    for subject in sorted(remaining):
        subject_type, name = subjects[subject]
        relations.setdefault((subject_type, "known"), []).append((subject, name))
    return relations
