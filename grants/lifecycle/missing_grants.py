"""Stream the smallest set of missing grants that would turn a denial into a permission.

These are the grants that an explanation returns as `Decision.missing_grants`, but in bounded memory for
namespaces of any size.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from entities.address import Address
from entities.models import Entity
from entities.selectors import entity_at, live_entities_inside
from entities.text import is_storable
from entities.vocabulary import ANY, KINDS, Privilege
from grants.errors import PlanError
from grants.evaluation.effective_grants import GrantTable, grant_tables, grant_tables_of_user
from grants.evaluation.engine import check_summary
from grants.evaluation.entity_filters import EntityConditions
from grants.evaluation.facts import gather_facts
from grants.lifecycle.namespace_deletion import live_namespace
from grants.models import User
from grants.policies.explain import MissingGrant, smallest_grant_set
from grants.policies.grammar import Algebra, Expression, Has, Parameter, Scope, fold
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
    streamed = fold(requirement, StreamedGrants(question, entity, tables))
    return iter(_explained_missing_grants(requirement, question)) if streamed is None else streamed


@dataclass(frozen=True, slots=True)
class StreamedGrants(Algebra[Iterator[MissingGrant] | None]):
    """The missing grants, if there is a single smallest set of them; None if alternatives must be compared."""

    question: Question
    entity: Entity
    tables: tuple[GrantTable, ...]

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> Iterator[MissingGrant] | None:
        return self._on_entity(privileges) if scope == Scope.SELF else None

    def _on_entity(self, privileges: tuple[Privilege, ...]) -> Iterator[MissingGrant]:
        is_met = fold(Has(privileges), EntityConditions(self.tables, [self.entity.kind]))
        if not Entity.objects.filter(is_met, pk=self.entity.pk).exists():
            yield self.entity.address, min(privileges, key=ANY.index)

    def has_at_or_below(self) -> None:
        return None

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> Iterator[MissingGrant]:
        has_privilege = fold(Has((privilege,)), EntityConditions(self.tables, list(KINDS)))
        rows = live_entities_inside(self.entity, kind).exclude(has_privilege).values_list("kind", "key")
        for kind_and_key in rows.iterator(chunk_size=FETCH_SIZE):
            yield Address(*kind_and_key), privilege

    def always(self) -> Iterator[MissingGrant]:
        return iter(())

    def all_of(self, parts: Iterable[Iterator[MissingGrant] | None]) -> Iterator[MissingGrant] | None:
        streams = []
        for part in parts:
            if part is None:
                return None
            streams.append(part)
        return chain.from_iterable(streams)

    def any_of(self, parts: Iterable[Iterator[MissingGrant] | None]) -> None:
        return None

    def given(
        self, parameter: Parameter, then: Callable[[], Iterator[MissingGrant] | None]
    ) -> Iterator[MissingGrant] | None:
        return then() if self.question.has_parameter(parameter) else self.always()


def _explained_missing_grants(requirement: Expression, question: Question) -> tuple[MissingGrant, ...]:
    """Return the same missing grants as the explanation of the decision.

    Compares all alternatives in memory.
    """
    (facts,) = gather_facts([question], explained=True)
    return smallest_grant_set(requirement, question, facts)[0] or ()
