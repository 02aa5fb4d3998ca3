"""Write decisions as JSON for the AuthZEN Authorization API 1.0; the explanation is in `context`."""

from collections.abc import Callable
from typing import Any

from grants.policies.decide import Facts, HeldGrant, is_permitted
from grants.policies.explain import (
    Attempt,
    Decision,
    MissingGrant,
    early_denial_reason,
    sentence_with_inactive,
    with_state,
)
from grants.policies.question import Question, QuestionError
from grants.policies.times import format_time

# removes the parts of an explanation that its reader may not see
Redaction = Callable[[Decision], Decision]


def explained_as_json(decision: Decision, redact: Redaction | None, state: str) -> dict[str, Any]:
    """Return the answer to a question with `explain`. state: that of the target, if it is not live; empty
    otherwise.
    """
    redacted = redact(decision) if redact else decision
    return decision_as_json(with_state(redacted, state) if state else redacted)


def answer_as_json(question: Question, facts: Facts) -> dict[str, Any]:
    """Return the answer to a question without `explain`: `decision`, and `context` if no requirement was
    evaluated.
    """
    if is_permitted(question, facts):
        return {"decision": True}
    reason = early_denial_reason(question, facts)
    return _denial_as_json(question, reason) if reason else {"decision": False}


def malformed_as_json(error: QuestionError) -> dict[str, Any]:
    """Return the answer to a question that could not be parsed."""
    return {
        "decision": False,
        "context": {"reason": str(error), "error": {"status": 400, "message": str(error)}},
    }


def decision_as_json(decision: Decision) -> dict[str, Any]:
    """Return a decision with its whole explanation."""
    answer: dict[str, Any] = {"decision": decision.is_permitted, "context": {}}
    if decision.reason:
        answer = _denial_as_json(decision.question, decision.reason)
    answer["context"] |= {
        "generation": decision.generation,
        "sentence": sentence_with_inactive(
            decision.sentence, decision.question.principal, decision.inactive_grants
        ),
        "attempts": [attempt_as_json(attempt) for attempt in decision.attempts],
    }
    if decision.state:
        answer["context"]["state"] = decision.state
    if decision.source is not None:
        answer["context"]["source"] = decision.source.as_json()
    if decision.missing_grants is not None:
        answer["context"]["missing"] = [missing_grant_as_json(grant) for grant in decision.missing_grants]
    if decision.inactive_grants:
        answer["context"]["not_in_force"] = [grant.as_json() for grant in decision.inactive_grants]
    if decision.remarks:
        answer["context"]["remarks"] = list(decision.remarks)
    return answer


def attempt_as_json(attempt: Attempt) -> dict[str, Any]:
    members: dict[str, Any] = {
        "requirement": attempt.requirement,
        "met": attempt.is_met,
        "words": attempt.words,
    }
    if attempt.privileges:
        members["wanted"] = [str(privilege) for privilege in attempt.privileges]
    if attempt.address is not None:
        members["where"] = str(attempt.address)
    if attempt.parts:
        members["parts"] = [attempt_as_json(part) for part in attempt.parts]
    elif attempt.is_met:
        members["grants"] = [grant_as_json(grant) for grant in attempt.grants]
    else:
        members["missing"] = [missing_grant_as_json(grant) for grant in attempt.missing_grants]
    return members


def grant_as_json(grant: HeldGrant) -> dict[str, Any]:
    members = {"principal": grant.principal, "entity": str(grant.entity), "privilege": str(grant.privilege)}
    if grant.pattern:
        members["pattern"] = grant.pattern
    return members | {"valid_until": format_time(grant.valid_until)} if grant.valid_until else members


def missing_grant_as_json(grant: MissingGrant) -> dict[str, Any]:
    address, privilege = grant
    return {"entity": str(address), "privilege": str(privilege)}


def _denial_as_json(question: Question, reason: str) -> dict[str, Any]:
    context: dict[str, Any] = {"reason": reason}
    if question.is_malformed:
        context["error"] = {"status": 400, "message": reason}
    return {"decision": False, "context": context}
