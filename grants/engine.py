"""Asking: facts from the database, the verdict from the law. Every page, command and API asks here."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from grants.facts import gather
from grants.policies.explain import Decision, decision
from grants.policies.question import Question, QuestionError
from grants.policies.wire import Told, answer_as_json, malformed_as_json

QUESTIONS_AT_ONCE = 1_000


def check(question: Question) -> Decision:
    """Answer one question with its reasons. One query."""
    return check_many([question])[0]


def check_many(questions: Sequence[Question]) -> list[Decision]:
    """Answer each question with its reasons, in order. One query."""
    return [decision(question, facts) for question, facts in zip(questions, gather(questions, explained=True), strict=True)]


def answers(items: Iterable[Question | QuestionError], *, told_to: Told | None = None) -> Iterator[dict]:
    """Each item's answer as it goes over the wire, in order; what could not be read is denied with its error.

    told_to: what of an explanation its reader is told. One query for every `QUESTIONS_AT_ONCE`.
    """
    waiting = iter(items)
    while batch := list(islice(waiting, QUESTIONS_AT_ONCE)):
        facts = iter(gather([item for item in batch if isinstance(item, Question)]))
        for item in batch:
            yield malformed_as_json(item) if isinstance(item, QuestionError) else answer_as_json(item, next(facts), told_to)
