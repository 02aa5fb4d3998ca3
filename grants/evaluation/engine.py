"""Asking: facts from the database, the verdict from the law. Every page, command and API asks here."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from entities.address import Address
from entities.models import State
from entities.selectors import entities_at
from grants.evaluation.facts import gather_facts
from grants.evaluation.missing_summary import summary_facts, summary_facts_of_generations
from grants.policies.explain import NOT_REGISTERED, Decision, explain
from grants.policies.question import Question, QuestionError
from grants.policies.wire import Redaction, answer_as_json, malformed_as_json

BATCH_SIZE = 1_000

# the states of addresses, of those whose state is told
StateLookup = Callable[[set[Address]], Mapping[Address, str]]


def check(question: Question) -> Decision:
    """Answer one question with its reasons. One query."""
    return check_many([question])[0]


def check_summary(question: Question, most: int) -> Decision:
    """The same answer, but of what a rule over all live entities lacks only the first `most` are named, the others counted. One
    query, and five for such a rule."""
    return explain(question, summary_facts(question, most))


def check_generations_summary(questions: Sequence[Question], most: int) -> list[Decision]:
    """The same for questions that differ in their generation alone, in order; at no more queries than one of them."""
    return [explain(question, facts) for question, facts in
            zip(questions, summary_facts_of_generations(questions, most), strict=True)]


def check_many(questions: Sequence[Question]) -> list[Decision]:
    """Answer each question with its reasons, in order. One query."""
    return [explain(question, facts) for question, facts in zip(questions, gather_facts(questions, explained=True), strict=True)]


def entity_states(addresses: set[Address]) -> Mapping[Address, str]:
    found = entities_at(addresses)
    return {address: found[address].state if address in found else NOT_REGISTERED for address in addresses}


def answer_questions(items: Iterable[Question | QuestionError], *, redact: Redaction | None = None,
            states: StateLookup = entity_states) -> Iterator[dict]:
    """Each item's answer as it goes over the wire, in order; what could not be read is denied with its error.

    redact: what of an explanation its reader is told. states: which states of targets; asked where something is explained.
    One query for every `QUESTIONS_AT_ONCE`, and one of `states`.
    """
    waiting = iter(items)
    while batch := list(islice(waiting, BATCH_SIZE)):
        facts = iter(gather_facts([item for item in batch if isinstance(item, Question)]))
        told = _told_states(batch, states)
        for item in batch:
            yield malformed_as_json(item) if isinstance(item, QuestionError) else answer_as_json(
                item, next(facts), redact, told.get(item.target, "") if told else "")


def _told_states(batch: Sequence[Question | QuestionError], states: StateLookup) -> Mapping[Address, str]:
    """Those that are not live, of the targets of what is explained."""
    targets = {item.target for item in batch if isinstance(item, Question) and item.explain and item.target is not None}
    if not targets:
        return {}
    return {address: str(state) for address, state in states(targets).items() if state != State.LIVE}
