"""Compute whether one user can delete one namespace now. Spark computes this for all users."""

from dataclasses import dataclass

from entities.address import Address
from grants.evaluation.missing_summary import summary_facts
from grants.models import User
from grants.policies.explain import Attempt, MissingGrant, smallest_missing_with_count, try_expression
from grants.policies.policy import Generation
from grants.policies.question import Question


@dataclass(frozen=True, slots=True)
class Readiness:
    """The state of one user for the deletion of one namespace.

    required: number of entities on which the deletion needs ADMIN. held: number of those on which the user holds it.
    missing: the first missing grants in address order. missing_more: number of the others.
    """

    required: int
    held: int
    missing: tuple[MissingGrant, ...]
    missing_more: int

    @property
    def ready(self) -> bool:
        return not self.missing_total

    @property
    def missing_total(self) -> int:
        return len(self.missing) + self.missing_more


def namespace_readiness(namespace: Address, user: User, generation: Generation, *, most: int) -> Readiness:
    """Return the readiness of `user` to delete `namespace` in `generation`. At most six queries.

    most: about how many missing grants to list.
    """
    question = Question("user", user.username, "delete", namespace, generation.name)
    facts, requirement = summary_facts(question, most), question.policy.requirement
    required = _required_count(try_expression(requirement, question, facts))
    missing, more = smallest_missing_with_count(requirement, question, facts)
    return Readiness(required, required - len(missing) - more, missing, more)


def _required_count(node: Attempt) -> int:
    """Return the number of entities that the requirement tests."""
    if node.requirement == "all live":
        return node.total
    return sum(_required_count(part) for part in node.parts) if node.parts else 1
