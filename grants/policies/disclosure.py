"""Redact an explanation for a reader who may not see every address.

The reader knows the addresses in the question and the grants of the subject. A rule over all live entities of
a container is different: the reader may see neither the addresses of these entities nor their number.
"""

from collections.abc import Callable
from dataclasses import replace

from grants.policies.decide import EntitiesWithoutPrivilege
from grants.policies.explain import Attempt, Decision

ALL_LIVE = "all live"

# Takes an attempt over all live entities. Returns the entities without the privilege that the reader may see;
# None if the reader may see all of them.
VisibleEntities = Callable[[Attempt], EntitiesWithoutPrivilege | None]


def redact(decision: Decision, visible_entities: VisibleEntities) -> Decision:
    """Return the decision without the addresses that the reader may not see, and without their number.

    If something is hidden, the sentence of a denial is replaced.
    """
    attempts = tuple(_redact_attempt(attempt, visible_entities) for attempt in decision.attempts)
    if attempts == decision.attempts:
        return decision
    denial = f"Denied: {decision.question.principal} lacks privileges on entities that you may not see."
    sentence = decision.sentence if decision.is_permitted else denial
    return replace(decision, sentence=sentence, missing_grants=None, unlisted_count=0, attempts=attempts)


def redact_all(decision: Decision) -> Decision:
    """Return the same decision without any address that a rule over all live entities checked."""
    return redact(decision, lambda attempt: EntitiesWithoutPrivilege(is_empty=False))


def _redact_attempt(attempt: Attempt, visible_entities: VisibleEntities) -> Attempt:
    parts = tuple(_redact_attempt(part, visible_entities) for part in attempt.parts)
    visible = (
        visible_entities(attempt) if attempt.requirement == ALL_LIVE and attempt.missing_grants else None
    )
    if visible is None:
        return replace(attempt, parts=parts)
    (privilege,) = attempt.privileges
    words = f"{privilege} on all live entities in {attempt.address} that the rule covers; you may not see some of them"
    return replace(
        attempt,
        words=words,
        missing_grants=tuple((address, privilege) for address in visible.addresses),
        unlisted_count=visible.unlisted_count,
        checked_count=0,
        parts=parts,
    )
