"""Stream the smallest set of missing grants that would turn a denial into a permission.

These are the grants that an explanation returns as `Decision.missing_grants`, but in bounded memory for
namespaces of any size.
"""

from collections.abc import Iterator

from entities.address import Address
from entities.models import Entity
from entities.selectors import entity_at, live_entities_inside
from entities.text import is_storable
from entities.vocabulary import ANY, KINDS
from grants.errors import PlanError
from grants.evaluation.effective_grants import GrantTable, grant_tables, grant_tables_of_user
from grants.evaluation.engine import check_summary
from grants.evaluation.entity_filters import FilterContext, requirement_condition
from grants.evaluation.facts import gather_facts
from grants.lifecycle.namespace_deletion import live_namespace
from grants.models import User
from grants.policies.explain import MissingGrant, smallest_grant_set
from grants.policies.grammar import (
    AllOf,
    Always,
    AnyOf,
    Expression,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    Scope,
    UnknownExpression,
)
from grants.policies.policy import Generation
from grants.policies.question import Question

DELETE_OPERATION = "delete"
FETCH_SIZE = 2_000


def active_user_by_name(name: str) -> User:
    """Return the active user of this name. Raise PlanError if there is none."""
    user = User.objects.filter(username=name).first() if is_storable(name) else None
    if user is None:
        raise PlanError(f"user:{name} does not exist: add it first, or correct the name")
    if not user.is_active:
        raise PlanError(f"{user} is inactive and is denied everything: activate the user first")
    return user


def missing_grants_of(question: Question, *, max_grants: int) -> Iterator[MissingGrant]:
    """Yield the smallest set of grants that would turn the denial into a permission, each grant once.

    Yield nothing if no grants would. Runs at most eight queries before the first grant.
    Raise PlanError if more than `max_grants` grants are missing.
    """
    summary = check_summary(question, max_listed=1)
    total = len(summary.missing_grants or ()) + summary.unlisted_count
    if total > max_grants:
        raise PlanError(
            f"{total:,} grants are missing, but a plan can contain at most {max_grants:,}: plan a bulk change of "
            f"{question.target}, a few kinds at a time"
        )
    if not summary.unlisted_count:
        return iter(summary.missing_grants or ())
    return _missing_grants(
        question, entity_at(question.target), grant_tables(question.subject_type, question.subject) or ()
    )


def missing_grants_to_delete(
    namespace: Address, user: User, generation: Generation
) -> Iterator[MissingGrant]:
    """Yield the smallest set of grants that the user needs to delete the namespace, each grant once.

    Raise LifecycleError if it is not a live namespace.
    """
    question = Question("user", user.username, DELETE_OPERATION, namespace, generation.name)
    return _missing_grants(question, live_namespace(namespace), grant_tables_of_user(user))


def _missing_grants(
    question: Question, entity: Entity, tables: tuple[GrantTable, ...]
) -> Iterator[MissingGrant]:
    """Return the missing grants. entity: the target of the question. tables: the effective grants of the
    subject.
    """
    requirement = question.policy.requirement
    if _has_one_smallest_set(requirement):
        return _streamed_missing_grants(requirement, question, entity, tables)
    return iter(_explained_missing_grants(requirement, question))


def _has_one_smallest_set(expression: Expression) -> bool:
    """Return whether the requirement has a single smallest set of missing grants, so that no alternatives
    must be compared.
    """
    match expression:
        case AllOf(parts):
            return all(map(_has_one_smallest_set, parts))
        case Has(_, scope):
            return scope == Scope.SELF
        case Given(_, then):
            return _has_one_smallest_set(then)
        case HasOnAllLive() | Always():
            return True
        case AnyOf() | HasAtOrBelow():
            return False
        case _:
            raise UnknownExpression(expression)


def _streamed_missing_grants(
    expression: Expression, question: Question, entity: Entity, tables: tuple[GrantTable, ...]
) -> Iterator[MissingGrant]:
    match expression:
        case AllOf(parts):
            for part in parts:
                yield from _streamed_missing_grants(part, question, entity, tables)
        case Has(privileges):
            is_met = requirement_condition(expression, FilterContext(tables, [entity.kind]))
            if not Entity.objects.filter(is_met, pk=entity.pk).exists():
                yield entity.address, min(privileges, key=ANY.index)
        case HasOnAllLive(privilege, kind):
            has_privilege = requirement_condition(Has((privilege,)), FilterContext(tables, list(KINDS)))
            rows = live_entities_inside(entity, kind).exclude(has_privilege).values_list("kind", "key")
            for kind_and_key in rows.iterator(chunk_size=FETCH_SIZE):
                yield Address(*kind_and_key), privilege
        case Given(parameter, then):
            if question.has_parameter(parameter):
                yield from _streamed_missing_grants(then, question, entity, tables)
        case Always():
            return
        case _:
            raise UnknownExpression(expression)


def _explained_missing_grants(requirement: Expression, question: Question) -> tuple[MissingGrant, ...]:
    """Return the same missing grants as the explanation of the decision.

    Compares all alternatives in memory.
    """
    (facts,) = gather_facts([question], explained=True)
    return smallest_grant_set(requirement, question, facts)[0] or ()
