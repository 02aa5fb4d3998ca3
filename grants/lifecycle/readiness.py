"""Compute whether one user can delete one namespace now, and the smallest set of grants that would turn a denial
into a permission.

The analysis `delete-readiness` computes readiness for all users. The missing grants are those that an
explanation returns as `Decision.missing_grants`, up to a limit.
"""

from entities.address import Address
from entities.frozen import frozen
from entities.text import is_storable
from grants.errors import PlanError
from grants.evaluation.missing_summary import summary_facts
from grants.lifecycle.namespace_deletion import live_namespace
from grants.models import User
from grants.policies.decide import Facts
from grants.policies.explain import Attempt, MissingGrant, smallest_grant_set, try_expression
from grants.policies.policy import Generation
from grants.policies.question import Question


def active_user_by_name(name: str) -> User:
    """Return the active user of this name. Raise PlanError if there is none."""
    user = User.objects.filter(username=name).first() if is_storable(name) else None
    if user is None:
        raise PlanError(f"user:{name} does not exist: add it first, or correct the name")
    if not user.is_active:
        raise PlanError(f"{user} is inactive and is denied everything: activate the user first")
    return user


def missing_grants_of(question: Question, *, max_grants: int) -> tuple[MissingGrant, ...]:
    """Return the smallest set of grants that would turn the denial into a permission; empty if no grants would.

    Runs the queries of `summary_facts`. Raise PlanError if more than `max_grants` grants are missing.
    """
    if question.policy is None or question.policy.requirement is None:
        return ()
    facts = summary_facts(question, max_grants)
    return _smallest_set(question, facts, max_grants) if facts.is_subject_known else ()


def missing_grants_to_delete(
    namespace: Address, user: User, generation: Generation, *, max_grants: int
) -> tuple[MissingGrant, ...]:
    """Return the smallest set of grants that the user needs to delete the namespace. The first of them makes an
    account a principal.

    Raise LifecycleError if it is not a live namespace, PlanError as `missing_grants_of`.
    """
    namespace = live_namespace(namespace).address
    question = Question("user", user.username, "delete", namespace, generation.name)
    return _smallest_set(question, summary_facts(question, max_grants), max_grants)


def _smallest_set(question: Question, facts: Facts, max_grants: int) -> tuple[MissingGrant, ...]:
    missing, unlisted_count = smallest_grant_set(question.policy.requirement, question, facts)
    total = len(missing or ()) + unlisted_count
    if total > max_grants:
        raise PlanError(
            f"{total:,} grants are missing, but a plan can contain at most {max_grants:,}: plan a bulk change of "
            f"{question.target}, a few kinds at a time"
        )
    return missing or ()


@frozen
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
