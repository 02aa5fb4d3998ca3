"""What a principal lacks, to delete a namespace above all, as a stream: what `missing` of the explained decision says, for a
namespace of any size."""

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
from grants.policies.explain import MissingGrant, smallest_missing_grants
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

OPERATION = "delete"
ENTITIES_AT_ONCE = 2_000


def active_user_named(name: str) -> User:
    """Raises PlanError where there is no active user of that name."""
    user = User.objects.filter(username=name).first() if is_storable(name) else None
    if user is None:
        raise PlanError(f"user:{name} is not known here: add it first, or correct the name")
    if not user.is_active:
        raise PlanError(f"{user} is inactive, and denied everything whatever it holds: activate it first")
    return user


def missing_grants_of(question: Question, *, most: int) -> Iterator[MissingGrant]:
    """The smallest set of grants that turns the denial into a permit, each once, read as it is asked for; none where nothing is
    missing that a grant could give. At most eight queries before the first. Raises PlanError where there are more than `most`."""
    short = check_summary(question, most=1)
    total = len(short.missing or ()) + short.unlisted_count
    if total > most:
        raise PlanError(f"{total:,} grants are missing, and a plan holds {most:,}: make one for everything in {question.target} "
                        f"of a few kinds at a time")
    if not short.unlisted_count:
        return iter(short.missing or ())
    return _gap(question, entity_at(question.target), grant_tables(question.subject_type, question.subject) or ())


def missing_grants_to_delete(namespace: Address, user: User, generation: Generation) -> Iterator[MissingGrant]:
    """The smallest set of grants that the user lacks, each once, read as it is asked for. Raises LifecycleError where that is
    no live namespace."""
    question = Question("user", user.username, OPERATION, namespace, generation.name)
    return _gap(question, live_namespace(namespace), grant_tables_of_user(user))


def _gap(question: Question, entity: Entity, tables: tuple[GrantTable, ...]) -> Iterator[MissingGrant]:
    """entity: the question's target. tables: the grants that count."""
    requires = question.policy.requirement
    return _gaps(requires, question, entity, tables) if _is_listed(requires) else iter(_weighed(requires, question))


def _is_listed(expression: Expression) -> bool:
    """Whether there is one smallest set, made of those of its parts: then nothing needs to be weighed."""
    match expression:
        case AllOf(parts):
            return all(map(_is_listed, parts))
        case Has(_, scope):
            return scope == Scope.SELF
        case Given(_, then):
            return _is_listed(then)
        case HasOnAllLive() | Always():
            return True
        case AnyOf() | HasAtOrBelow():
            return False
        case _:
            raise UnknownExpression(expression)


def _gaps(expression: Expression, question: Question, entity: Entity, tables: tuple[GrantTable, ...]) -> Iterator[MissingGrant]:
    match expression:
        case AllOf(parts):
            for part in parts:
                yield from _gaps(part, question, entity, tables)
        case Has(privileges):
            is_met = requirement_condition(expression, FilterContext(tables, [entity.kind]))
            if not Entity.objects.filter(is_met, pk=entity.pk).exists():
                yield entity.address, min(privileges, key=ANY.index)
        case HasOnAllLive(privilege, kind):
            held = requirement_condition(Has((privilege,)), FilterContext(tables, list(KINDS)))
            rows = live_entities_inside(entity, kind).exclude(held).values_list("kind", "key")
            for place in rows.iterator(chunk_size=ENTITIES_AT_ONCE):
                yield Address(*place), privilege
        case Given(parameter, then):
            if question.has_parameter(parameter):
                yield from _gaps(then, question, entity, tables)
        case Always():
            return
        case _:
            raise UnknownExpression(expression)


def _weighed(requires: Expression, question: Question) -> tuple[MissingGrant, ...]:
    """Of alternatives the smallest, by the explanation itself."""
    (facts,) = gather_facts([question], explained=True)
    return smallest_missing_grants(requires, question, facts) or ()
