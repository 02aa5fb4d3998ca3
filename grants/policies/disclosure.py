"""An explanation for somebody who may not see every address.

What the question itself names is known to who asks, and so is what the subject holds. The live entities that a rule ranges
over are not: their addresses and their number are withheld.
"""

from collections.abc import Callable
from dataclasses import replace

from grants.policies.decide import MissingEntities
from grants.policies.explain import Attempt, Decision

ALL_LIVE = "all live"

# of an attempt over all live entities, what its reader may see of what lacks the privilege; None where that is all of it
VisibleMissing = Callable[[Attempt], MissingEntities | None]


def redact(decision: Decision, seen: VisibleMissing) -> Decision:
    """The same verdict, without the addresses that its reader does not see and how many they are."""
    attempts = tuple(_redact_attempt(attempt, seen) for attempt in decision.attempts)
    if attempts == decision.attempts:
        return decision
    sentence = f"Denied: {decision.question.principal} lacks privileges on entities that you may not see."
    return replace(decision, sentence=decision.sentence if decision.allowed else sentence, missing=None, unlisted_count=0,
                   attempts=attempts)


def redact_all(decision: Decision) -> Decision:
    """The same verdict, without any address that a rule ranges over and the subject lacks."""
    return redact(decision, lambda attempt: MissingEntities(is_empty=False))


def _redact_attempt(attempt: Attempt, seen: VisibleMissing) -> Attempt:
    parts = tuple(_redact_attempt(part, seen) for part in attempt.parts)
    lacking = seen(attempt) if attempt.requirement == ALL_LIVE and attempt.missing else None
    if lacking is None:
        return replace(attempt, parts=parts)
    words = f"{attempt.wanted[0]} on all live entities in {attempt.where} that it concerns; some you may not see"
    return replace(attempt, words=words, missing=tuple((address, attempt.wanted[0]) for address in lacking.addresses),
                   unlisted_count=lacking.unlisted_count, total=0, parts=parts)
