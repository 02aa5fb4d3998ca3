"""Turn requirements into SQL conditions on entities, to filter whole lists by what a principal may do or see.

INVARIANT: a condition selects exactly the entities that `grants.evaluation.engine` permits one by one
(tests/grants/evaluation/test_evaluators_agree.py).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.lookups import IsNull

from entities.address import Address, instance_address
from entities.models import Entity, State
from entities.vocabulary import ANY, CONTAINER_KINDS, KINDS, Privilege
from grants.evaluation.effective_grants import GrantTable, grant_tables_of_principal
from grants.models import User, permission_ids
from grants.policies.grammar import (
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

# an entity is visible if one of these operations is permitted on it
VISIBILITY_OPERATIONS = ("list", "get")

# sets of requirements of which any one is enough, each with the kinds to which it applies
KindsByRequirements = dict[frozenset[Expression], list[str]]

# the column of an entity that holds the id of the entity at each scope
SCOPE_COLUMNS = {Scope.SELF: "pk", Scope.PARENT: "parent_id", Scope.NAMESPACE: "namespace_id",
                 Scope.APPLICATION: "application_id"}


@dataclass(frozen=True, slots=True)
class FilterContext:
    """The grants, kinds and parameters for which a condition is built.

    question: provides the parameters of the requirement, if there are any.
    row_by_row: look up the grants of each row separately; fastest to find the first few of very many rows. Otherwise the
    database may read all grants first; fastest to find all rows. inside: a container of all rows that is not one of them, if
    there is one; only the grants in its namespace are then read.
    """

    tables: tuple[GrantTable, ...]
    kinds: Sequence[str]
    question: Question | None = None
    row_by_row: bool = False
    inside: Entity | None = None

    def exists(self, rows: QuerySet) -> Q:
        """Return the condition that the subquery has a row."""
        return Q(IsNull(Subquery(rows.values("pk")[:1]), False)) if self.row_by_row else Q(Exists(rows))

    @property
    def in_namespace(self) -> dict:
        """The condition that a grant is in the namespace of `inside`."""
        if self.row_by_row or self.inside is None or self.inside.namespace_id is None:
            return {}
        return {"namespace_id": self.inside.namespace_id}


def can_see(principal: User | Group, entity: Entity, generation: Generation) -> bool:
    """Return whether `principal` may `list` or `get` this entity. One query."""
    shown = visibility_condition(principal, generation, kinds=[entity.kind], row_by_row=True)
    return Entity.objects.filter(shown, pk=entity.pk).exists()


def visibility_condition(principal: User | Group, generation: Generation, *,
                         operations: Sequence[str] = VISIBILITY_OPERATIONS, kinds: Iterable[str] | None = None,
                         row_by_row: bool = False) -> Q:
    """Return the condition that one of the operations is permitted to `principal` on an entity.

    A kind without a rule for them is not visible. kinds: limit the entities to these. row_by_row: as in FilterContext.
    """
    tables = grant_tables_of_principal(principal)
    if tables is None:
        return NONE
    return condition_for_tables(tables, kinds_by_requirements(generation, operations, kinds), row_by_row=row_by_row)


def kinds_by_requirements(generation: Generation, operations: Sequence[str],
                          kinds: Iterable[str] | None = None) -> KindsByRequirements:
    """Return the requirements of which any one permits one of the operations, with the kinds that share them."""
    grouped: KindsByRequirements = {}
    for kind in KINDS if kinds is None else kinds:
        policies = [generation.policy(kind, operation) for operation in operations]
        enough = frozenset(_normalized(policy.requirement, kind) for policy in policies if policy and policy.has_rule)
        if enough:
            grouped.setdefault(enough, []).append(kind)
    return grouped


def _normalized(requirement: Expression, kind: str) -> Expression:
    """Return one form of a requirement that has two equal forms on kinds that contain nothing."""
    return HasAtOrBelow() if kind not in CONTAINER_KINDS and requirement == Has(ANY) else requirement


def condition_for_tables(tables: tuple[GrantTable, ...], rules: KindsByRequirements, **how) -> Q:
    """Return the condition that these grants meet one of the requirements of an entity's kind. how: as in FilterContext."""
    shown = NONE
    for enough, kinds in rules.items():
        context = FilterContext(tables, kinds, **how)
        shown |= Q(kind__in=kinds) & reduce(or_, (requirement_condition(requirement, context) for requirement in enough))
    return shown


def combined_condition(expression: Expression, met_by: Callable[[Expression], Q],
                       has_parameter: Callable[[Parameter], bool]) -> Q:
    """Return the condition of a composed node from those of its parts; `Given` is met if the question lacks the parameter.

    met_by: returns the condition of a part. has_parameter: whether the question has a parameter.
    """
    match expression:
        case AllOf(parts):
            return reduce(and_, map(met_by, parts), ALL)
        case AnyOf(parts):
            return reduce(or_, map(met_by, parts), NONE)
        case Given(parameter, then):
            return met_by(then) if has_parameter(parameter) else ALL
        case Always():
            return ALL
        case _:
            raise UnknownExpression(expression)


def requirement_condition(expression: Expression, context: FilterContext) -> Q:
    """Return the condition that `expression` is met on an entity of the kinds of `context`."""
    match expression:
        case Has(privileges, scope) if scope in SCOPE_COLUMNS:
            return _has_grant(context, content_object_id=OuterRef(SCOPE_COLUMNS[scope]), **with_privileges(privileges),
                              **context.in_namespace)
        case Has(privileges, scope):
            address = fixed_address(scope, context.question)
            return NONE if address is None else _has_grant(context, **on_address(address), **with_privileges(privileges))
        case HasAtOrBelow():
            return _has_grant_at_or_below(context)
        case HasOnAllLive(privilege, kind):
            return ~Q(Exists(_live_entities_without(context, privilege, kind)))
        case _:
            return combined_condition(expression, lambda part: requirement_condition(part, context),
                                      lambda parameter: has_parameter(parameter, context.question))


def has_parameter(parameter: Parameter, question: Question | None) -> bool:
    """Return whether there is a question and it has `parameter`."""
    return question is not None and question.has_parameter(parameter)


def fixed_address(scope: Scope, question: Question | None) -> Address | None:
    """Return the address at a scope that is the same for every row: the instance or a parameter of the question."""
    if scope == Scope.INSTANCE:
        return instance_address()
    return None if question is None else question.address_at(scope)


def on_address(address: Address) -> dict:
    """Return the condition that a grant is on exactly this address."""
    return {"content_object__kind": address.kind, "content_object__key": address.key}


def with_privileges(privileges: tuple[Privilege, ...]) -> dict:
    """Return the condition that a grant is of one of these privileges."""
    ids = permission_ids()
    return {"permission_id__in": [ids[privilege] for privilege in privileges]}


def _has_grant(context: FilterContext, **where) -> Q:
    held = NONE
    for table in context.tables:
        held |= context.exists(table.rows(**where))
    return held


def _has_grant_at_or_below(context: FilterContext) -> Q:
    containers = [kind for kind in context.kinds if kind in CONTAINER_KINDS]
    others = [kind for kind in context.kinds if kind not in CONTAINER_KINDS]
    on_entity = {"content_object_id": OuterRef("pk"), **context.in_namespace}
    reached = Q(kind__in=others) & _has_grant(context, **on_entity) if others else NONE
    for kind in containers:
        # the instance contains everything, so any grant is at or below it
        inside = {} if kind == "instance" else {**context.in_namespace, f"{kind}_id": OuterRef("pk")}
        # the partial index on applications needs this condition
        not_null = {"application__isnull": False} if kind == "application" else {}
        reached |= Q(kind=kind) & _has_grant(context, **inside, **not_null)
    return reached


def _live_entities_without(context: FilterContext, privilege: Privilege, kind: str | None) -> QuerySet:
    """Return the live entities inside the outer entity on which the privilege is not held."""
    inside = Entity.objects.filter(Q(namespace_id=OuterRef("pk")) | Q(application_id=OuterRef("pk")), state=State.LIVE)
    inside = inside.exclude(pk=OuterRef("pk"))
    if kind is not None:
        inside = inside.filter(kind=kind)
    return inside.exclude(_has_grant(context, content_object_id=OuterRef("pk"), **with_privileges((privilege,))))
