"""Answer questions: gather their facts from the database and decide them.

Every page, command and API uses this module.

Questions about a container that the caller does not see are answered as if it were empty. Otherwise the answer to a
rule over all live entities would tell a caller without grants whether the container exists, and which kinds of
entities it contains. The answers to other rules depend only on the grants of the subject.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from django.db.models import Q

from entities.address import Address
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.vocabulary import ANY, CONTAINER_KINDS
from grants.evaluation.effective_grants import grant_tables_of_principal
from grants.evaluation.entity_filters import EntityConditions, visibility_condition
from grants.evaluation.facts import gather_facts
from grants.evaluation.inactive_grants import with_inactive_grants
from grants.evaluation.missing_summary import summary_facts, summary_facts_of_generations
from grants.evaluation.remarks import with_remarks
from grants.models import User
from grants.policies.decide import Facts
from grants.policies.explain import NOT_REGISTERED, Decision, explain
from grants.policies.grammar import FactsRead, fold, has
from grants.policies.policy import Generation
from grants.policies.question import Question, QuestionError
from grants.policies.wire import Redaction, answer_as_json, explained_as_json, malformed_as_json

# returns those of the addresses that the caller knows
KnownContainers = Callable[[set[Address]], Collection[Address]]


def known_condition(user: User, generation: Generation) -> Q:
    """Return the condition that the user sees a container in this generation, or has a grant on exactly this
    container.
    """
    tables, kinds = grant_tables_of_principal(user) or (), sorted(CONTAINER_KINDS)
    has_grant = Q(kind__in=kinds) & fold(has(*ANY), EntityConditions(tables, kinds))
    return visibility_condition(user, generation, kinds=kinds) | has_grant


def hidden_containers(questions: Iterable[Question], known_containers: KnownContainers) -> set[Address]:
    """Return the targets with a rule over all live entities that the caller does not know.

    `gather_facts` treats them as empty without looking inside, so that the time of an answer does not tell a
    container that the caller does not know from one that does not exist. Calls `known_containers` once, and
    only if a question has such a rule.
    """
    targets = {
        question.target
        for question in questions
        if question.target is not None and requires_all_live(question)
    }
    return targets.difference(known_containers(targets)) if targets else targets


def containers_known_to(user: User, generation: Generation, addresses: set[Address]) -> set[Address]:
    """Return those of the addresses that the user sees or has a grant on.

    Runs one query, and one for its grants.
    """
    return set(entities_at(addresses, queryset=Entity.objects.filter(known_condition(user, generation))))


def requires_all_live(question: Question) -> bool:
    """Return whether the requirement tests all live entities inside the target."""
    policy = question.policy
    return policy is not None and bool(FactsRead(policy.requirement).all_live)


BATCH_SIZE = 1_000
# half a million entities take some seconds, and a hundred megabytes
MAX_LISTED_ENTITIES = 500_000

# returns the states of addresses; an address is absent if its state must not be disclosed
StateLookup = Callable[[set[Address]], Mapping[Address, str]]


@dataclass(slots=True)
class ListedEntities:
    """Count the entities without a privilege that the explanations of one request list, and limit them."""

    count: int = 0

    def add(self, question: Question, facts: Facts) -> None:
        """Count those of one explanation.

        Raise QuestionError above MAX_LISTED_ENTITIES. The first explanation that lists entities can list any
        number.
        """
        target, policy = question.target, question.policy
        if target is None or policy is None:
            return
        listed = sum(
            len(facts.entities_without_privilege(target, leaf.privilege, leaf.kind).addresses)
            for leaf in FactsRead(policy.requirement).all_live
        )
        if self.count and self.count + listed > MAX_LISTED_ENTITIES:
            raise QuestionError(
                f"the explanations would list more than {MAX_LISTED_ENTITIES:,} missing grants together: ask "
                "fewer of these questions in one request, or ask without `explain`"
            )
        self.count += listed


def check(question: Question) -> Decision:
    """Decide one question and explain it. Runs one query."""
    return check_many([question])[0]


def check_summary(question: Question, max_listed: int) -> Decision:
    """Decide one question and explain it in bounded memory.

    For a rule over all live entities, list the first `max_listed` entities without the privilege and count
    the others. Runs one query; five for such a rule.
    """
    return explain(question, summary_facts(question, max_listed))


def check_generations_summary(questions: Sequence[Question], max_listed: int) -> list[Decision]:
    """Decide and explain questions that differ only in their generation, in bounded memory.

    Runs as many queries as `check_summary` for one question.
    """
    return [
        explain(question, facts)
        for question, facts in zip(
            questions, summary_facts_of_generations(questions, max_listed), strict=True
        )
    ]


def check_many(questions: Sequence[Question]) -> list[Decision]:
    """Decide and explain each question, in order. Runs one query."""
    return [
        explain(question, facts)
        for question, facts in zip(questions, gather_facts(questions, explained=True), strict=True)
    ]


def entity_states(addresses: set[Address]) -> Mapping[Address, str]:
    """Return the state of each address, or `not registered`.

    Runs one query per `entities.selectors.BATCH_SIZE` addresses.
    """
    entities = entities_at(addresses)
    return {
        address: entities[address].state if address in entities else NOT_REGISTERED for address in addresses
    }


def answer_questions(
    items: Iterable[Question | QuestionError],
    *,
    redact: Redaction | None = None,
    states: StateLookup = entity_states,
    known_containers: KnownContainers | None = None,
    listed: ListedEntities | None = None,
) -> Iterator[dict]:
    """Yield the answer to each item as JSON, in order. A question that could not be parsed is denied with its
    error.

    redact: removes the parts of an explanation that its reader may not see. states: returns the states of
    targets that an explanation may disclose. known_containers: returns the containers that the caller knows;
    all others are treated as empty. With None, the caller knows all containers. listed: limits the
    explanations; with None, there is no limit.

    Runs one query for each `BATCH_SIZE` items, those of `states` if an item asks for an explanation, one more
    if the requirement of such an item is evaluated, another one if it is not met, and those of `known_containers` if a
    rule is about all live entities.
    """
    remaining = iter(items)
    while batch := list(islice(remaining, BATCH_SIZE)):
        questions = [item for item in batch if isinstance(item, Question)]
        facts = gather_facts(
            questions, empty=hidden_containers(questions, known_containers) if known_containers else ()
        )
        disclosed = _states_not_live(batch, states)
        with_facts = list(zip(questions, facts, strict=True))
        if listed is not None:
            for pair in with_facts:
                if pair[0].explain:
                    listed.add(*pair)
        decisions = [explain(*pair) for pair in with_facts if pair[0].explain]
        explained = iter(with_remarks(with_inactive_grants(decisions)))
        pairs = iter(with_facts)
        for item in batch:
            if isinstance(item, QuestionError):
                yield malformed_as_json(item)
                continue
            question, its_facts = next(pairs)
            yield (
                explained_as_json(next(explained), redact, disclosed.get(question.target, ""))
                if question.explain
                else answer_as_json(question, its_facts)
            )


def _states_not_live(
    batch: Sequence[Question | QuestionError], states: StateLookup
) -> Mapping[Address | None, str]:
    """Return the states of the targets that are not live, for questions with `explain`."""
    targets = {
        item.target
        for item in batch
        if isinstance(item, Question) and item.explain and item.target is not None
    }
    if not targets:
        return {}
    return {address: str(state) for address, state in states(targets).items() if state != State.LIVE}
