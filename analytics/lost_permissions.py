"""Read the lost permissions of a policy-impact report, and ask the rule engine about each of them again.

The files of a report can be changed outside the console. A plan is therefore only created from rows for which
the rule engine gives the answers of the report.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import pyarrow.compute as pc

from analytics.analyses import AnalysisName, analysis_by_name
from analytics.models import AnalysisRun
from analytics.results.read import report_manifest, result_batches
from entities.address import Address, AddressError, parse_address
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.vocabulary import KINDS
from grants.evaluation.facts import gather_facts
from grants.policies.decide import is_permitted
from grants.policies.grammar import Expression
from grants.policies.policy import Generation
from grants.policies.question import Question

ROWS_PER_BATCH = 2_000
QUESTIONS_PER_STATEMENT = 1_000

Row = tuple[str, str, str]


class LostPermission(NamedTuple):
    """An operation on a live entity that a user is permitted in one generation and denied in the other. user:
    a name.
    """

    user: str
    address: Address
    operation: str


# Questions with the same user, address and requirement have the same answer.
_Key = tuple[str, Address, Expression]


@dataclass(slots=True)
class LostPermissions:
    """The confirmed lost permissions of a report; iterate once, in the order of the report.

    before, after: the generations of the report. left_out: the number of rows so far that the rule engine did
    not confirm. Runs at most six statements for ROWS_PER_BATCH rows.
    """

    before: Generation
    after: Generation
    left_out: int = 0

    def confirmed_losses(self, rows: Iterable[Row]) -> Iterator[LostPermission]:
        """Yield the rows that the rule engine confirms. rows: (user, entity, operation)."""
        remaining = iter(rows)
        while batch := list(islice(remaining, ROWS_PER_BATCH)):
            candidates = [candidate for row in batch if (candidate := self._candidate(row)) is not None]
            confirmed = self._actual_losses(candidates)
            self.left_out += len(batch) - len(confirmed)
            yield from confirmed

    def _candidate(self, row: Row) -> LostPermission | None:
        """Return a row as a permission; None if it cannot be one, because its strings may be anything."""
        user, entity, operation = row
        try:
            address = parse_address(entity)
        except AddressError:
            return None
        policies = [generation.policy(address.kind, operation) for generation in (self.before, self.after)]
        is_comparable = operation in KINDS[address.kind].operations and all(
            p is not None and p.has_rule for p in policies
        )
        return LostPermission(user, address, operation) if is_comparable else None

    def _actual_losses(self, candidates: list[LostPermission]) -> list[LostPermission]:
        live = entities_at(
            {candidate.address for candidate in candidates}, Entity.objects.filter(state=State.LIVE)
        )
        of_live = [candidate for candidate in candidates if candidate.address in live]
        permitted_before = _permitted_keys(of_live, self.before)
        held = [candidate for candidate in of_live if _key(candidate, self.before) in permitted_before]
        permitted_after = _permitted_keys(held, self.after)
        return [candidate for candidate in held if _key(candidate, self.after) not in permitted_after]


def _key(permission: LostPermission, generation: Generation) -> _Key:
    policy = generation.policy(permission.address.kind, permission.operation)
    assert policy is not None and policy.requirement is not None  # checked for each candidate
    return permission.user, permission.address, policy.requirement


def _permitted_keys(permissions: list[LostPermission], generation: Generation) -> set[_Key]:
    """Return the keys of the permissions that the generation permits.

    Runs one statement per QUESTIONS_PER_STATEMENT keys.
    """
    questions = iter(
        {
            _key(permission, generation): Question(
                "user", permission.user, permission.operation, permission.address, generation.name
            )
            for permission in permissions
        }.items()
    )
    permitted = set()
    while batch := list(islice(questions, QUESTIONS_PER_STATEMENT)):
        facts_of_all = gather_facts([question for _, question in batch])
        permitted |= {
            key
            for (key, question), facts in zip(batch, facts_of_all, strict=True)
            if is_permitted(question, facts)
        }
    return permitted


def lost_rows(run: AnalysisRun, names: Collection[str] | None) -> Iterator[Row]:
    """Yield each row of the detail table that is a lost permission. names: of these users only; None for all."""
    table = analysis_by_name(AnalysisName.POLICY_IMPACT).table("detail")
    for batch in result_batches(table, run.result_path, manifest=report_manifest(run)):
        lost = batch.filter(pc.invert(batch.column("after")))
        columns = [lost.column(name).to_pylist() for name in ("user", "entity", "operation")]
        yield from (row for row in zip(*columns, strict=True) if names is None or row[0] in names)
