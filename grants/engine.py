"""Asking: facts from the database, the verdict from the law. Every page, command and API asks here."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from grants.facts import gather
from grants.policies.explain import Decision, decision
from grants.policies.question import Question
from grants.policies.wire import answer_as_json

QUESTIONS_AT_ONCE = 1_000


def check(question: Question) -> Decision:
    """Answer one question with its reasons. One query."""
    return check_many([question])[0]


def check_many(questions: Sequence[Question]) -> list[Decision]:
    """Answer each question with its reasons, in order. One query."""
    return [decision(question, facts) for question, facts in zip(questions, gather(questions, explained=True), strict=True)]


def answers(questions: Iterable[Question]) -> Iterator[dict]:
    """Each question's answer as it goes over the wire, in order. One query for every `QUESTIONS_AT_ONCE`."""
    waiting = iter(questions)
    while batch := list(islice(waiting, QUESTIONS_AT_ONCE)):
        for question, facts in zip(batch, gather(batch), strict=True):
            yield answer_as_json(question, facts)
