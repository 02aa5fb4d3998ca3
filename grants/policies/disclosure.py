"""An explanation for somebody who may not see every address.

What the question itself names is known to who asks, and so is what the subject holds. The live entities that a rule ranges
over are not: their addresses and their number are withheld.
"""

from collections.abc import Iterator, Set
from dataclasses import replace

from entities.address import Address
from grants.policies.explain import Attempt, Decision

ALL_LIVE = "all live"


def addresses_ranged_over(decision: Decision) -> set[Address]:
    """The live entities that the explanation names without the question having named them."""
    return {address for attempt in decision.attempts for address in _ranged_over(attempt)}


def withholding(decision: Decision, hidden: Set[Address]) -> Decision:
    """The same verdict, without the addresses that are hidden and how many they are."""
    if hidden.isdisjoint(addresses_ranged_over(decision)):
        return decision
    sentence = f"Denied: {decision.question.principal} lacks privileges on entities that you may not see."
    return replace(decision, sentence=decision.sentence if decision.allowed else sentence, missing=None,
                   attempts=tuple(_withholding(attempt, hidden) for attempt in decision.attempts))


def withholding_all(decision: Decision) -> Decision:
    """The same verdict, without any address that a rule ranges over and the subject lacks."""
    return withholding(decision, addresses_ranged_over(decision))


def _ranged_over(attempt: Attempt) -> Iterator[Address]:
    if attempt.requirement == ALL_LIVE:
        yield from (address for address, _ in attempt.missing)
    for part in attempt.parts:
        yield from _ranged_over(part)


def _withholding(attempt: Attempt, hidden: Set[Address]) -> Attempt:
    parts = tuple(_withholding(part, hidden) for part in attempt.parts)
    if attempt.requirement != ALL_LIVE or all(address not in hidden for address, _ in attempt.missing):
        return replace(attempt, parts=parts)
    seen = tuple(gap for gap in attempt.missing if gap[0] not in hidden)
    words = f"{attempt.wanted[0]} on all live entities in {attempt.where} that it concerns; some you may not see"
    return replace(attempt, words=words, missing=seen, total=0, parts=parts)
