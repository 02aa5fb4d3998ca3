"""Turn requirements into SQL conditions on entities, to filter lists by the permissions of a principal.

INVARIANT: a condition selects exactly the entities on which `grants.evaluation.engine` permits the operation
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

# sets of alternative requirements (any one of a set is enough), each with the kinds to which the set applies
KindsByRequirements = dict[frozenset[Expression], list[str]]

# the columns of an entity with the id of the entity at a scope
SCOPE_COLUMNS = {
    Scope.SELF: "pk",
    Scope.PARENT: "parent_id",
    Scope.NAMESPACE: "namespace_id",
    Scope.APPLICATION: "application_id",
}


@dataclass(frozen=True, slots=True)
class FilterContext:
    """The grants, kinds and parameters for which a condition is built.

    question: has the parameters of the requirement, if there are any.
    row_by_row: look up the grants of each row separately, which finds the first few of very many rows
    fastest. Otherwise the database may read all grants first, which finds all rows fastest.
    inside: a container that all rows are inside of, without being one of them. Only the grants in its
    namespace are then read.
    by_kind: compare the kind that is stored with each grant, which finds out fastest that there is no grant
    on a kind.
    """

    tables: tuple[GrantTable, ...]
    kinds: Sequence[str]
    question: Question | None = None
    row_by_row: bool = False
    inside: Entity | None = None
    by_kind: bool = False

    def exists(self, rows: QuerySet) -> Q:
        """Return the condition that the subquery `rows` has a row."""
        return Q(IsNull(Subquery(rows.values("pk")[:1]), False)) if self.row_by_row else Q(Exists(rows))

    def on_kinds(self, kinds: Iterable[str]) -> dict:
        """The condition that a grant is on an entity of these kinds, as far as the kind is stored with the
        grant.
        """
        return {"entity_kind__in": (*kinds, "")} if self.by_kind else {}

    @property
    def in_namespace(self) -> dict:
        """The condition that a grant is in the namespace of `inside`."""
        if self.row_by_row or self.inside is None or self.inside.namespace_id is None:
            return {}
        return {"namespace_id": self.inside.namespace_id}


def can_see(principal: User | Group, entity: Entity, generation: Generation) -> bool:
    """Return whether `principal` may `list` or `get` this entity. Runs one query."""
    is_visible = visibility_condition(principal, generation, kinds=[entity.kind], row_by_row=True)
    return Entity.objects.filter(is_visible, pk=entity.pk).exists()


def visibility_condition(
    principal: User | Group,
    generation: Generation,
    *,
    operations: Sequence[str] = VISIBILITY_OPERATIONS,
    kinds: Iterable[str] | None = None,
    row_by_row: bool = False,
) -> Q:
    """Return the condition that `principal` may perform one of the operations on an entity.

    Entities of a kind without a rule for these operations do not meet it.
    kinds: limit the condition to these kinds. row_by_row: see FilterContext.
    """
    tables = grant_tables_of_principal(principal)
    if tables is None:
        return NONE
    return condition_for_tables(
        tables, kinds_by_requirements(generation, operations, kinds), row_by_row=row_by_row
    )


def kinds_by_requirements(
    generation: Generation, operations: Sequence[str], kinds: Iterable[str] | None = None
) -> KindsByRequirements:
    """Group the kinds by the requirements of these operations.

    Meeting any requirement of a set permits one of the operations.
    """
    grouped: KindsByRequirements = {}
    for kind in KINDS if kinds is None else kinds:
        policies = [generation.policy(kind, operation) for operation in operations]
        alternatives = frozenset(
            _normal_form(policy.requirement, kind) for policy in policies if policy and policy.has_rule
        )
        if alternatives:
            grouped.setdefault(alternatives, []).append(kind)
    return grouped


def _normal_form(requirement: Expression, kind: str) -> Expression:
    """Return the requirement in one form.

    On kinds that contain nothing, `Has(ANY)` and `HasAtOrBelow` mean the same.
    """
    return HasAtOrBelow() if kind not in CONTAINER_KINDS and requirement == Has(ANY) else requirement


def condition_for_tables(tables: tuple[GrantTable, ...], rules: KindsByRequirements, **options) -> Q:
    """Return the condition that these grants meet one of the requirements for the kind of an entity.

    options: further fields of FilterContext.
    """
    condition = NONE
    for alternatives, kinds in rules.items():
        context = FilterContext(tables, kinds, **options)
        is_met = reduce(or_, (requirement_condition(requirement, context) for requirement in alternatives))
        condition |= Q(kind__in=kinds) & is_met
    return condition


def combined_condition(
    expression: Expression,
    part_condition: Callable[[Expression], Q],
    has_parameter: Callable[[Parameter], bool],
) -> Q:
    """Return the condition of a node with parts, combined from the conditions of its parts. `Always` is
    always met.

    part_condition: returns the condition of a part. has_parameter: returns whether the question has a
    parameter; if not, `Given` is met.
    """
    match expression:
        case AllOf(parts):
            return reduce(and_, map(part_condition, parts), ALL)
        case AnyOf(parts):
            return reduce(or_, map(part_condition, parts), NONE)
        case Given(parameter, then):
            return part_condition(then) if has_parameter(parameter) else ALL
        case Always():
            return ALL
        case _:
            raise UnknownExpression(expression)


def requirement_condition(expression: Expression, context: FilterContext) -> Q:
    """Return the condition that the grants of `context` meet `expression` on an entity of its kinds."""
    match expression:
        case Has(privileges, scope) if scope in SCOPE_COLUMNS:
            return _has_grant(
                context,
                content_object_id=OuterRef(SCOPE_COLUMNS[scope]),
                **with_privileges(privileges),
                **context.in_namespace,
            )
        case Has(privileges, scope):
            address = fixed_address(scope, context.question)
            return (
                NONE
                if address is None
                else _has_grant(context, **on_address(address), **with_privileges(privileges))
            )
        case HasAtOrBelow():
            return _has_grant_at_or_below(context)
        case HasOnAllLive(privilege, kind):
            return ~Q(Exists(_live_entities_without(context, privilege, kind)))
        case _:
            return combined_condition(
                expression,
                lambda part: requirement_condition(part, context),
                lambda parameter: has_parameter(parameter, context.question),
            )


def has_parameter(parameter: Parameter, question: Question | None) -> bool:
    """Return whether there is a question and it has `parameter`."""
    return question is not None and question.has_parameter(parameter)


def fixed_address(scope: Scope, question: Question | None) -> Address | None:
    """Return the address at a scope that does not depend on the row: the instance or a parameter of the
    question.
    """
    if scope == Scope.INSTANCE:
        return instance_address()
    return None if question is None else question.address_at(scope)


def on_address(address: Address) -> dict:
    """Return the condition that a grant is on exactly this address."""
    return {"content_object__kind": address.kind, "content_object__key": address.key}


def with_privileges(privileges: tuple[Privilege, ...]) -> dict:
    """Return the condition that a grant gives one of these privileges."""
    ids = permission_ids()
    return {"permission_id__in": [ids[privilege] for privilege in privileges]}


def _has_grant(context: FilterContext, **where) -> Q:
    condition = NONE
    for table in context.tables:
        condition |= context.exists(table.rows(**where))
    return condition


def _has_grant_at_or_below(context: FilterContext) -> Q:
    containers = [kind for kind in context.kinds if kind in CONTAINER_KINDS]
    others = [kind for kind in context.kinds if kind not in CONTAINER_KINDS]
    on_entity = {"content_object_id": OuterRef("pk"), **context.in_namespace}
    condition = Q(kind__in=others) & _has_grant(context, **on_entity) if others else NONE
    for kind in containers:
        # the instance contains everything, so any grant is at or below it
        inside = {} if kind == "instance" else {**context.in_namespace, f"{kind}_id": OuterRef("pk")}
        # the partial index on applications needs this condition
        not_null = {"application__isnull": False} if kind == "application" else {}
        condition |= Q(kind=kind) & _has_grant(context, **inside, **not_null)
    return condition


def _live_entities_without(context: FilterContext, privilege: Privilege, kind: str | None) -> QuerySet:
    """Return the live entities inside the outer entity on which `context` has no grant of the privilege."""
    inside = Entity.objects.filter(
        Q(namespace_id=OuterRef("pk")) | Q(application_id=OuterRef("pk")), state=State.LIVE
    )
    inside = inside.exclude(pk=OuterRef("pk"))
    if kind is not None:
        inside = inside.filter(kind=kind)
    return inside.exclude(
        _has_grant(context, content_object_id=OuterRef("pk"), **with_privileges((privilege,)))
    )
