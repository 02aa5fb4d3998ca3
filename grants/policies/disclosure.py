"""Redact an explanation for a reader who may not see every address.

The reader knows the addresses that the question names and the grants that the subject holds. The live entities that a rule
ranges over are confidential: neither their addresses nor their number are disclosed.
"""

from collections.abc import Callable
from dataclasses import replace

from grants.policies.decide import MissingEntities
from grants.policies.explain import Attempt, Decision

ALL_LIVE = "all live"

# Takes an attempt over all live entities and returns the missing entities that its reader may see;
# None if the reader may see all of them.
VisibleMissing = Callable[[Attempt], MissingEntities | None]


def redact(decision: Decision, visible_missing: VisibleMissing) -> Decision:
    """Return the same decision without the addresses that its reader may not see, and without their number."""
    attempts = tuple(_redact_attempt(attempt, visible_missing) for attempt in decision.attempts)
    if attempts == decision.attempts:
        return decision
    denial = f"Denied: {decision.question.principal} lacks privileges on entities that you may not see."
    return replace(decision, sentence=decision.sentence if decision.allowed else denial, missing=None, unlisted_count=0,
                   attempts=attempts)


def redact_all(decision: Decision) -> Decision:
    """Return the same decision without any missing address that a rule ranges over."""
    return redact(decision, lambda attempt: MissingEntities(is_empty=False))


def _redact_attempt(attempt: Attempt, visible_missing: VisibleMissing) -> Attempt:
    parts = tuple(_redact_attempt(part, visible_missing) for part in attempt.parts)
    visible = visible_missing(attempt) if attempt.requirement == ALL_LIVE and attempt.missing else None
    if visible is None:
        return replace(attempt, parts=parts)
    (privilege,) = attempt.wanted
    words = f"{privilege} on all live entities in {attempt.where} that the rule covers; you may not see some of them"
    return replace(attempt, words=words, missing=tuple((address, privilege) for address in visible.addresses),
                   unlisted_count=visible.unlisted_count, total=0, parts=parts)
