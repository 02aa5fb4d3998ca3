"""Answer questions about a container that the caller does not see as if it were empty.

Otherwise the answer to a rule over all live entities would tell a caller without grants whether the container
exists, and which kinds of entities it contains. The answers to other rules depend only on the grants of the
subject.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q

from entities.address import Address
from entities.models import Entity
from entities.selectors import entities_at
from entities.vocabulary import ANY, CONTAINER_KINDS, Privilege
from grants.evaluation.effective_grants import grant_tables_of_principal
from grants.evaluation.entity_filters import EntityConditions, visibility_condition
from grants.evaluation.facts import NOTHING_MISSING, DelegatedFacts
from grants.models import User
from grants.policies.decide import EntitiesWithoutPrivilege, Facts
from grants.policies.grammar import FactsRead, fold, has
from grants.policies.policy import Generation
from grants.policies.question import Question

# returns those of the addresses that the caller knows
KnownContainers = Callable[[set[Address]], Collection[Address]]


@dataclass(frozen=True, slots=True)
class EmptyContainerFacts(DelegatedFacts):
    """The facts of one question (see `grants.policies.decide.Facts`), without the live entities inside its
    target.
    """

    def entities_without_privilege(
        self, address: Address, privilege: Privilege, kind: str | None
    ) -> EntitiesWithoutPrivilege:
        return NOTHING_MISSING


def known_condition(user: User, generation: Generation) -> Q:
    """Return the condition that the user sees a container in this generation, or has a grant on exactly this
    container.
    """
    tables, kinds = grant_tables_of_principal(user) or (), sorted(CONTAINER_KINDS)
    has_grant = Q(kind__in=kinds) & fold(has(*ANY), EntityConditions(tables, kinds))
    return visibility_condition(user, generation, kinds=kinds) | has_grant


def hide_containers(
    questions: Sequence[Question], facts: Sequence[Facts], known_containers: KnownContainers
) -> list[Facts]:
    """Return the facts of each question, with empty containers in place of those that the caller does not
    know.

    Calls `known_containers` once, and only if a question has a rule over all live entities.
    """
    hidden = hidden_containers(questions, known_containers)
    return [
        EmptyContainerFacts(item) if question.target in hidden else item
        for question, item in zip(questions, facts, strict=True)
    ]


def hidden_containers(questions: Iterable[Question], known_containers: KnownContainers) -> set[Address]:
    """Return the targets with a rule over all live entities that the caller does not know.

    See `hide_containers`.
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
