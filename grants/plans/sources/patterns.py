"""Create plans that replace grants on patterns by narrower ones, as the analysis `patterns` proposes."""

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from entities.address import Address
from entities.patterns import entities_matching
from entities.vocabulary import quantity
from grants.change_set import Grant, Revoke
from grants.changes import existing_grants
from grants.plans.create import PlanDraft, PlanOrigin, plan_source


class Narrowing(NamedTuple):
    """A grant on a pattern, and the patterns and addresses that keep what is used of it: none if nothing is known to be used."""

    grant: Revoke
    narrower: tuple[Address, ...] = ()


@plan_source(PlanOrigin.PATTERNS)
def narrowing_plan(*, run: int, narrowings: Collection[Narrowing]) -> PlanDraft:
    """Return a plan that revokes these grants on patterns, and makes the narrower ones for the same period.

    A grant without narrower ones is revoked only if its pattern matches no registered address; the note counts the
    others. Runs one query for each of them. run: the number of the report.
    """
    revocations = [replace(row.grant, address=address) for row in narrowings for address in row.narrower]
    revocations += [row.grant for row in narrowings]
    existing = existing_grants(revocations)
    held = [row for row in narrowings if row.grant.key in existing]
    kept = [row for row in held if not row.narrower and entities_matching(row.grant.address).exists()]
    periods = {}
    for row in held:
        for address in row.narrower:
            key = replace(row.grant, address=address).key
            before = periods.get(key) or (existing[key].validity if key in existing else None)
            period = existing[row.grant.key].validity
            periods[key] = before.union(period) if before is not None else period
    revoked = [row.grant for row in held if row not in kept and row.grant.key not in periods]
    granted = [
        Grant(*key, validity=period)
        for key, period in periods.items()
        if key not in existing or existing[key].validity != period
    ]
    note = f"{quantity(len(kept), 'grant remains', 'grants remain')}: the report has nothing narrower, and the patterns match something."
    return PlanDraft(
        title=f"Narrow {quantity(len(revoked), 'grant on a pattern', 'grants on patterns')}",
        changes=[*revoked, *granted],
        recipe={"run": run} | ({"note": note} if kept else {}),
        empty_message=note
        if kept
        else "there is nothing to narrow: the report proposes no narrower patterns for grants that exist",
    )
