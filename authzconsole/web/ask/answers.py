"""Prepare decisions for display, in full and in one line: shorten long lists and leave out entities that the account may not see."""

from collections.abc import Callable, Sequence

from entities.vocabulary import KINDS
from grants.evaluation.engine import check_many, requires_all_live
from grants.evaluation.facts import gather_facts
from grants.evaluation.missing_summary import visible_entities_without_privilege
from grants.evaluation.visibility import Visibility
from grants.models import User
from grants.policies.decide import EntitiesWithoutPrivilege, is_permitted
from grants.policies.explain import ALL_LIVE, Attempt, Decision, early_denial_reason, redact
from grants.policies.question import Question

MAX_MISSING_GRANTS = 12
MAX_MISSING_PER_NODE = 3


def answers_for_display(
    decisions: Sequence[Decision], user: User, target_visibility: Callable[[], Visibility]
) -> Sequence[Decision]:
    """Return the decisions on questions that differ only in their generation, as far as the user may see them.

    target_visibility: returns the visibility of the user inside the target. It is called only if the user
    does not see all entities and a requirement ranges over all live entities. Runs at most six further
    queries: a requirement that several generations share is looked up once.
    """
    if user.can_see_all:
        return decisions
    missing_by_requirement: dict[tuple, EntitiesWithoutPrivilege | None] = {}

    def visible_entities(attempt: Attempt) -> EntitiesWithoutPrivilege | None:
        key = attempt.address, attempt.privileges, attempt.kind
        if key not in missing_by_requirement:
            missing_by_requirement[key] = visible_entities_without_privilege(
                decisions[0].question, attempt, target_visibility(), MAX_MISSING_PER_NODE
            )
        return missing_by_requirement[key]

    return [redact(decision, visible_entities) for decision in decisions]


def requirement_node(attempt: Attempt) -> dict:
    """Return the context of a node of the requirement tree.

    operator: ALL OF or ANY OF for a node with parts. before, address, after: the text of the requirement, split around the
    address that it names. missing: the first entities without the required privilege. missing_more: the number of further
    ones.
    """
    # the text of every other leaf already says what is missing
    missing = attempt.missing_grants if attempt.requirement == ALL_LIVE else ()
    before, address, after = (
        attempt.words.partition(str(attempt.address)) if attempt.address else (attempt.words, "", "")
    )
    return {
        "attempt": attempt,
        "operator": {"all": "ALL OF", "any": "ANY OF"}.get(attempt.requirement, ""),
        "before": before,
        "address": attempt.address if address else None,
        "after": after,
        "missing": [entity for entity, _ in missing[:MAX_MISSING_PER_NODE]],
        "missing_more": max(0, len(missing) - MAX_MISSING_PER_NODE) + attempt.unlisted_count,
    }


def requirement_root(decision: Decision) -> Attempt:
    """Return the root of the requirement tree of a decision with attempts."""
    attempts = decision.attempts
    if len(attempts) == 1:
        return attempts[0]
    return Attempt("any", decision.is_permitted, "one of these", parts=attempts)


def missing_total(decision: Decision) -> int:
    return len(decision.missing_grants or ()) + decision.unlisted_count


ALL_LIVE_SENTENCES = {
    True: "Permitted: the required privilege is held on every live entity there.",
    False: "Denied: the required privilege is not held on every live entity there.",
}


def answer_summaries(
    named_questions: Sequence[tuple[str, Question, str]], *, current: str = ""
) -> list[dict]:
    """Return one row for each (name, question, URL), in order. url: the page with the full answer. Runs at most two queries.

    The sentence about a requirement over all live entities does not list the missing ones: there may be as
    many as the tenant has entities, and the account may not see them.
    """
    decisions = iter(
        check_many([question for _, question, _ in named_questions if not requires_all_live(question)])
    )
    all_live_facts = iter(
        gather_facts([question for _, question, _ in named_questions if requires_all_live(question)])
    )
    summaries = []
    for name, question, url in named_questions:
        if requires_all_live(question):
            facts = next(all_live_facts)
            permitted = is_permitted(question, facts)
            sentence = (
                ALL_LIVE_SENTENCES[permitted]
                if facts.is_subject_known
                else f"Denied: {early_denial_reason(question, facts)}."
            )
        else:
            decision = next(decisions)
            permitted, sentence = decision.is_permitted, decision.sentence
        summaries.append(
            {
                "name": name,
                "question": question,
                "is_permitted": permitted,
                "sentence": sentence,
                "url": url,
                "is_current": name == current,
            }
        )
    return summaries


def is_operation(kind: str, operation: str) -> bool:
    """Return whether the text is an operation of the kind.

    Otherwise it is a privilege, which all generations decide alike.
    """
    return operation in KINDS[kind].operations
