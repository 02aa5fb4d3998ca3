"""Short answers: all operations of an entity for one subject, or one operation in all generations."""

from collections.abc import Sequence
from dataclasses import dataclass

from authzconsole.web.policies.page import row_url
from entities.vocabulary import KINDS
from grants.evaluation.engine import check_many, requires_all_live
from grants.evaluation.facts import gather_facts
from grants.policies.decide import is_permitted
from grants.policies.explain import early_denial_reason
from grants.policies.policy import Source
from grants.policies.question import Question

ALL_LIVE_SENTENCES = {
    True: "Allowed: the required privilege is held on every live entity there.",
    False: "Denied: the required privilege is not held on every live entity there.",
}


@dataclass(frozen=True, slots=True)
class AnswerSummary:
    """A decision with its sentence. url: the page with the full answer. policy_url: see `ExplainedAnswer`."""

    name: str
    is_permitted: bool
    sentence: str
    source: Source | None
    url: str
    policy_url: str = ""
    is_current: bool = False


def answer_summaries(
    named_questions: Sequence[tuple[str, Question, str]], *, current: str = ""
) -> list[AnswerSummary]:
    """Return one summary for each (name, question, URL), in order. Runs at most two queries.

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
        source = question.policy.source if question.policy else None
        summaries.append(
            AnswerSummary(name, permitted, sentence, source, url, row_url(question), name == current)
        )
    return summaries


def is_operation(kind: str, operation: str) -> bool:
    """Return whether the text is an operation of the kind.

    Otherwise it is a privilege, which all generations decide alike.
    """
    return operation in KINDS[kind].operations
