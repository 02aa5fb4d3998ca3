"""Answers on the wire: the AuthZEN Authorization API 1.0, with this console's explanation in `context`."""

from collections.abc import Callable
from typing import Any

from grants.policies.decide import Facts, HeldGrant, is_permitted
from grants.policies.explain import Attempt, Decision, MissingGrant, early_denial_reason, explain, with_state
from grants.policies.question import Question, QuestionError

# what a reader is told of a decision
Redaction = Callable[[Decision], Decision]


def answer_as_json(question: Question, facts: Facts, redact: Redaction | None = None, state: str = "") -> dict[str, Any]:
    """`decision`, and `context` when it is asked for or when there was nothing to weigh.

    state: of the target, where an explanation shall tell it; empty of one that is live.
    """
    if question.explain:
        explained = explain(question, facts)
        told = redact(explained) if redact else explained
        return decision_as_json(with_state(told, state) if state else told)
    if is_permitted(question, facts):
        return {"decision": True}
    reason = early_denial_reason(question, facts)
    return _denied(question, reason) if reason else {"decision": False}


def malformed_as_json(error: QuestionError) -> dict[str, Any]:
    """The answer in the place of a question that could not be read."""
    return {"decision": False, "context": {"reason": str(error), "error": {"status": 400, "message": str(error)}}}


def decision_as_json(answer: Decision) -> dict[str, Any]:
    """A decision with its whole explanation."""
    shown: dict[str, Any] = {"decision": answer.allowed, "context": {}}
    if answer.reason:
        shown = _denied(answer.question, answer.reason)
    shown["context"] |= {
        "generation": answer.generation,
        "sentence": answer.sentence,
        "attempts": [attempt_as_json(node) for node in answer.attempts],
    }
    if answer.state:
        shown["context"]["state"] = answer.state
    if answer.source is not None:
        shown["context"]["source"] = answer.source.as_json()
    if answer.missing is not None:
        shown["context"]["missing"] = [missing_grant_as_json(gap) for gap in answer.missing]
    return shown


def attempt_as_json(node: Attempt) -> dict[str, Any]:
    shown: dict[str, Any] = {"requirement": node.requirement, "met": node.met, "words": node.words}
    if node.wanted:
        shown["wanted"] = [str(privilege) for privilege in node.wanted]
    if node.where is not None:
        shown["where"] = str(node.where)
    if node.parts:
        shown["parts"] = [attempt_as_json(part) for part in node.parts]
    elif node.met:
        shown["grants"] = [grant_as_json(grant) for grant in node.grants]
    else:
        shown["missing"] = [missing_grant_as_json(gap) for gap in node.missing]
    return shown


def grant_as_json(grant: HeldGrant) -> dict[str, Any]:
    return {"principal": grant.principal, "entity": str(grant.entity), "privilege": str(grant.privilege)}


def missing_grant_as_json(gap: MissingGrant) -> dict[str, Any]:
    return {"entity": str(gap[0]), "privilege": str(gap[1])}


def _denied(question: Question, reason: str) -> dict[str, Any]:
    context: dict[str, Any] = {"reason": reason}
    if question.is_malformed:
        context["error"] = {"status": 400, "message": reason}
    return {"decision": False, "context": context}
