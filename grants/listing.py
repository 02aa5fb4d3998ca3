"""Which entities an operation is permitted on, as a filter: the law's requirement turned into SQL conditions.

Answers for whole lists what `grants.engine` answers one by one, from the same expressions; a test holds the two together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.lookups import IsNull

from entities.address import Address, instance_address
from entities.models import Entity, State
from entities.vocabulary import CONTAINERS, KINDS, Privilege
from grants.holders import GrantTable, tables_of_user
from grants.models import User, permission_ids
from grants.policies.expressions import (
    AllOf,
    Always,
    AnyOf,
    Expression,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    Parameter,
    Scope,
    UnknownExpression,
)
from grants.policies.policy import Generation
from grants.policies.question import Question

ALL, NONE = Q(pk__isnull=False), Q(pk__in=[])

# the column of an entity's row that names the entity at each scope
COLUMNS = {Scope.SELF: "pk", Scope.PARENT: "parent_id", Scope.NAMESPACE: "namespace_id", Scope.APPLICATION: "application_id"}


@dataclass(frozen=True, slots=True)
class Listed:
    """What is listed: by whose grants, of which kinds, and what the question brings along.

    row_by_row: look for the grants of each row by itself, which finds the first few of very many soonest. Otherwise the
    database may gather all grants first, which finds all rows soonest.
    """

    tables: tuple[GrantTable, ...]
    kinds: Sequence[str]
    question: Question | None = None
    row_by_row: bool = False

    def exists(self, rows: QuerySet) -> Q:
        return Q(IsNull(Subquery(rows.values("pk")[:1]), False)) if self.row_by_row else Q(Exists(rows))


def shown_to(user: User, generation: Generation, operation: str = "list", *, row_by_row: bool = False) -> Q:
    """The entities on which `operation` is permitted to `user`; a kind without a rule for it shows nothing."""
    if not (user.is_active and user.is_principal):
        return NONE
    shown = NONE
    for requirement, kinds in _kinds_by_requirement(generation, operation).items():
        shown |= Q(kind__in=kinds) & condition(requirement, Listed(tables_of_user(user), kinds, row_by_row=row_by_row))
    return shown


def may_see(user: User, entity: Entity, generation: Generation) -> bool:
    """Whether `list` or `get` shows this entity to `user`."""
    return Entity.objects.filter(visible_to(user, generation), pk=entity.pk).exists()


def visible_to(user: User, generation: Generation, *, row_by_row: bool = False) -> Q:
    """The entities that `list` or `get` shows to `user`. row_by_row: as in Listed, for a few rows that are chosen already."""
    return shown_to(user, generation, "list", row_by_row=row_by_row) | shown_to(user, generation, "get", row_by_row=row_by_row)


def _kinds_by_requirement(generation: Generation, operation: str) -> dict[Expression, list[str]]:
    grouped: dict[Expression, list[str]] = {}
    for kind in KINDS:
        policy = generation.policy(kind, operation)
        if policy is not None and policy.requires is not None:
            grouped.setdefault(policy.requires, []).append(kind)
    return grouped


def composed(expression: Expression, met_by: Callable[[Expression], Q], gives: Callable[[Parameter], bool]) -> Q:
    """The condition of a node that is made of others, each turned into its own by `met_by`; what is not asked is met."""
    match expression:
        case AllOf(parts):
            return reduce(and_, map(met_by, parts), ALL)
        case AnyOf(parts):
            return reduce(or_, map(met_by, parts), NONE)
        case Given(parameter, then):
            return met_by(then) if gives(parameter) else ALL
        case Always():
            return ALL
        case _:
            raise UnknownExpression(expression)


def condition(expression: Expression, listed: Listed) -> Q:
    """The rows of entities, all of the kinds that are listed, for which `expression` is met."""
    match expression:
        case Has(privileges, scope) if scope in COLUMNS:
            return _held(listed, content_object_id=OuterRef(COLUMNS[scope]), **of_privileges(privileges))
        case Has(privileges, scope):
            place = fixed_place(scope, listed.question)
            return NONE if place is None else _held(listed, **exactly_on(place), **of_privileges(privileges))
        case HasAtOrBelow():
            return _held_at_or_below(listed)
        case HasOnAllLive(privilege, kind):
            return ~Q(Exists(_lacking(listed, privilege, kind)))
        case _:
            return composed(expression, lambda part: condition(part, listed), lambda given: is_given(given, listed.question))


def is_given(parameter, question: Question | None) -> bool:
    return question is not None and question.gives(parameter)


def fixed_place(scope: Scope, question: Question | None) -> Address | None:
    """The address at a scope that is the same for every row: the instance, or what the question brings along."""
    if scope == Scope.INSTANCE:
        return instance_address()
    return None if question is None else question.at(scope)


def exactly_on(place: Address) -> dict:
    return {"content_object__kind": place.kind, "content_object__key": place.key}


def of_privileges(privileges: tuple[Privilege, ...]) -> dict:
    ids = permission_ids()
    return {"permission_id__in": [ids[privilege] for privilege in privileges]}


def _held(listed: Listed, **where) -> Q:
    held = NONE
    for table in listed.tables:
        held |= listed.exists(table.rows(**where))
    return held


def _held_at_or_below(listed: Listed) -> Q:
    containers = [kind for kind in listed.kinds if kind in CONTAINERS]
    others = [kind for kind in listed.kinds if kind not in CONTAINERS]
    reached = Q(kind__in=others) & _held(listed, content_object_id=OuterRef("pk")) if others else NONE
    for kind in containers:
        # the instance contains everything, so any grant reaches it
        inside = {} if kind == "instance" else {f"{kind}_id": OuterRef("pk")}
        reached |= Q(kind=kind) & _held(listed, **inside)
    return reached


def _lacking(listed: Listed, privilege: Privilege, kind: str | None) -> QuerySet:
    """Live entities inside the outer one on which the privilege is not held."""
    inside = Entity.objects.filter(Q(namespace_id=OuterRef("pk")) | Q(application_id=OuterRef("pk")), state=State.LIVE)
    inside = inside.exclude(pk=OuterRef("pk"))
    if kind is not None:
        inside = inside.filter(kind=kind)
    return inside.exclude(_held(listed, content_object_id=OuterRef("pk"), **of_privileges((privilege,))))
