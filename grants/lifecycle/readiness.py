"""Compute whether one user can delete one namespace now.

The analysis `delete-readiness` computes this for all users.
"""

from dataclasses import dataclass

from entities.address import Address
from grants.evaluation.missing_summary import summary_facts
from grants.models import User
from grants.policies.explain import Attempt, MissingGrant, smallest_grant_set, try_expression
from grants.policies.policy import Generation
from grants.policies.question import Question


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether one user can delete one namespace.

    required_count: number of entities on which the deletion requires ADMIN.
    held_count: number of those on which the user holds it.
    missing_grants: the first missing grants, by address. unlisted_count: number of the other missing grants.
    """

    required_count: int
    held_count: int
    missing_grants: tuple[MissingGrant, ...]
    unlisted_count: int

    @property
    def is_ready(self) -> bool:
        return not self.missing_count

    @property
    def missing_count(self) -> int:
        return len(self.missing_grants) + self.unlisted_count


def namespace_readiness(
    namespace: Address, user: User, generation: Generation, *, max_listed: int
) -> Readiness:
    """Return the readiness of `user` to delete `namespace` in `generation`. Runs at most six queries.

    max_listed: list this many entities without ADMIN; the grant on the namespace itself is listed in addition
    if it is missing.
    """
    question = Question("user", user.username, "delete", namespace, generation.name)
    facts, requirement = summary_facts(question, max_listed), question.policy.requirement
    required_count = _required_count(try_expression(requirement, question, facts))
    missing_grants, unlisted_count = smallest_grant_set(requirement, question, facts)
    held_count = required_count - len(missing_grants) - unlisted_count
    return Readiness(required_count, held_count, missing_grants, unlisted_count)


def _required_count(node: Attempt) -> int:
    """Return the number of entities that the requirement tests."""
    if node.requirement == "all live":
        return node.checked_count
    return sum(_required_count(part) for part in node.parts) if node.parts else 1
