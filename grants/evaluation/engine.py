"""Answer questions: gather their facts from the database and decide them. Every page, command and API uses this module."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from entities.address import Address
from entities.models import State
from entities.selectors import entities_at
from grants.evaluation.facts import gather_facts
from grants.evaluation.hidden_containers import KnownContainers, hide_containers
from grants.evaluation.missing_summary import summary_facts, summary_facts_of_generations
from grants.policies.explain import NOT_REGISTERED, Decision, explain
from grants.policies.question import Question, QuestionError
from grants.policies.wire import Redaction, answer_as_json, malformed_as_json

BATCH_SIZE = 1_000

# returns the states of addresses; an address is absent if its state must not be disclosed
StateLookup = Callable[[set[Address]], Mapping[Address, str]]


def check(question: Question) -> Decision:
    """Decide one question and explain it. Runs one query."""
    return check_many([question])[0]


def check_summary(question: Question, max_listed: int) -> Decision:
    """Decide one question and explain it in bounded memory.

    For a rule over all live entities, list the first `max_listed` entities without the privilege and count the others.
    Runs one query; five for such a rule.
    """
    return explain(question, summary_facts(question, max_listed))


def check_generations_summary(questions: Sequence[Question], max_listed: int) -> list[Decision]:
    """Decide and explain questions that differ only in their generation, in bounded memory.

    Runs as many queries as `check_summary` for one question.
    """
    return [explain(question, facts) for question, facts in
            zip(questions, summary_facts_of_generations(questions, max_listed), strict=True)]


def check_many(questions: Sequence[Question]) -> list[Decision]:
    """Decide and explain each question, in order. Runs one query."""
    return [explain(question, facts) for question, facts in zip(questions, gather_facts(questions, explained=True), strict=True)]


def entity_states(addresses: set[Address]) -> Mapping[Address, str]:
    """Return the state of each address, or `not registered`. Runs one query per `entities.selectors.BATCH_SIZE` addresses."""
    entities = entities_at(addresses)
    return {address: entities[address].state if address in entities else NOT_REGISTERED for address in addresses}


def answer_questions(items: Iterable[Question | QuestionError], *, redact: Redaction | None = None,
                     states: StateLookup = entity_states,
                     known_containers: KnownContainers | None = None) -> Iterator[dict]:
    """Yield the answer to each item as JSON, in order. A question that could not be parsed is denied with its error.

    redact: removes the parts of an explanation that its reader may not see. states: returns the states of targets that an
    explanation may disclose. known_containers: returns the containers that the caller knows; all others are treated as empty.
    With None, the caller knows all containers.

    Runs one query for each `BATCH_SIZE` items, those of `states` if an item asks for an explanation, and those of
    `known_containers` if a rule is about all live entities.
    """
    remaining = iter(items)
    while batch := list(islice(remaining, BATCH_SIZE)):
        questions = [item for item in batch if isinstance(item, Question)]
        gathered = gather_facts(questions)
        facts = iter(hide_containers(questions, gathered, known_containers) if known_containers else gathered)
        disclosed = _states_not_live(batch, states)
        for item in batch:
            yield malformed_as_json(item) if isinstance(item, QuestionError) else answer_as_json(
                item, next(facts), redact, disclosed.get(item.target, "") if disclosed else "")


def _states_not_live(batch: Sequence[Question | QuestionError], states: StateLookup) -> Mapping[Address, str]:
    """Return the states of the targets of questions with `explain`, without live targets."""
    targets = {item.target for item in batch if isinstance(item, Question) and item.explain and item.target is not None}
    if not targets:
        return {}
    return {address: str(state) for address, state in states(targets).items() if state != State.LIVE}
