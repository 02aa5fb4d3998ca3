"""What a person lacks to delete a namespace, as a stream: what `missing` of the explained decision says, for a namespace of
any size."""

from collections.abc import Iterator

from entities.address import Address
from entities.models import Entity
from entities.selectors import live_below
from entities.vocabulary import ANY, KINDS
from grants.deletion import live_namespace
from grants.errors import PlanError
from grants.facts import gather
from grants.holders import GrantTable, tables_of_user
from grants.listing import Listed, condition
from grants.models import User
from grants.policies.explain import Gap, smallest_gap
from grants.policies.expressions import AllOf, Always, Expression, Given, Has, HasOnAllLive, Scope
from grants.policies.policy import Generation
from grants.policies.question import Question, is_storable

OPERATION = "delete"
ENTITIES_AT_ONCE = 2_000


def deleter_named(name: str) -> User:
    """Raises PlanError where there is no active user of that name."""
    user = User.objects.filter(username=name).first() if is_storable(name) else None
    if user is None:
        raise PlanError(f"user:{name} is not known here: add it first, or correct the name")
    if not user.is_active:
        raise PlanError(f"{user} is inactive, and denied everything whatever it holds: activate it first")
    return user


def deletion_gap(namespace: Address, user: User, generation: Generation) -> Iterator[Gap]:
    """The smallest set of grants that the user lacks, each once, read as it is asked for. Raises LifecycleError where that is
    no live namespace."""
    entity = live_namespace(namespace)
    requires = generation.policy("namespace", OPERATION).requires
    if _is_listed(requires):
        return _gaps(requires, entity, tables_of_user(user))
    return iter(_weighed(requires, namespace, user, generation))


def _is_listed(expression: Expression) -> bool:
    """Whether there is one smallest set, made of those of its parts: then nothing needs to be weighed."""
    match expression:
        case AllOf(parts):
            return all(map(_is_listed, parts))
        case Has(_, scope):
            return scope == Scope.SELF
        case HasOnAllLive() | Given() | Always():
            return True
        case _:
            return False


def _gaps(expression: Expression, entity: Entity, tables: tuple[GrantTable, ...]) -> Iterator[Gap]:
    match expression:
        case AllOf(parts):
            for part in parts:
                yield from _gaps(part, entity, tables)
        case Has(privileges):
            if not Entity.objects.filter(condition(expression, Listed(tables, [entity.kind])), pk=entity.pk).exists():
                yield entity.address, min(privileges, key=ANY.index)
        case HasOnAllLive(privilege, kind):
            held = condition(Has((privilege,)), Listed(tables, list(KINDS)))
            rows = live_below(entity, kind).exclude(held).values_list("kind", "key")
            for place in rows.iterator(chunk_size=ENTITIES_AT_ONCE):
                yield Address(*place), privilege
        # a deletion brings nothing along, so that `Given` asks for nothing


def _weighed(requires: Expression, namespace: Address, user: User, generation: Generation) -> tuple[Gap, ...]:
    """Of alternatives the smallest, by the explanation itself."""
    question = Question("user", user.username, OPERATION, namespace, generation.name)
    (facts,) = gather([question], explained=True)
    return smallest_gap(requires, question, facts) or ()
