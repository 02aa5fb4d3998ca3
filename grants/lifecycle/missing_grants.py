"""Return the smallest set of missing grants that would turn a denial into a permission.

These are the grants that an explanation returns as `Decision.missing_grants`, up to a limit.
"""

from entities.address import Address
from entities.text import is_storable
from grants.errors import PlanError
from grants.evaluation.missing_summary import summary_facts
from grants.lifecycle.namespace_deletion import live_namespace
from grants.models import User
from grants.policies.decide import Facts
from grants.policies.explain import MissingGrant, smallest_grant_set
from grants.policies.policy import Generation
from grants.policies.question import Question

DELETE_OPERATION = "delete"


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
    question = Question("user", user.username, DELETE_OPERATION, namespace, generation.name)
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
