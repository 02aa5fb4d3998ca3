"""Which entities an operation is permitted on, as a filter: the law's requirement turned into SQL conditions.

Answers for whole lists what `grants.evaluation.engine` answers one by one, from the same expressions; a test
holds the two together.
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

# the operations that show an entity
VISIBILITY_OPERATIONS = ("list", "get")

# the requirements of which one is enough, and of which kinds
KindsByRequirements = dict[frozenset[Expression], list[str]]

# the column of an entity's row that names the entity at each scope
SCOPE_COLUMNS = {Scope.SELF: "pk", Scope.PARENT: "parent_id", Scope.NAMESPACE: "namespace_id",
                 Scope.APPLICATION: "application_id"}


@dataclass(frozen=True, slots=True)
class FilterContext:
    """What is listed: by whose grants, of which kinds, and what the question brings along.

    row_by_row: look for the grants of each row by itself, which finds the first few of very many soonest. Otherwise the
    database may gather all grants first, which finds all rows soonest. inside: what contains every row and is none of them,
    where that is known; then only the grants in its namespace are gathered.
    """

    tables: tuple[GrantTable, ...]
    kinds: Sequence[str]
    question: Question | None = None
    row_by_row: bool = False
    inside: Entity | None = None

    def exists(self, rows: QuerySet) -> Q:
        return Q(IsNull(Subquery(rows.values("pk")[:1]), False)) if self.row_by_row else Q(Exists(rows))

    @property
    def around(self) -> dict:
        """The condition on a grant that lies where the rows do."""
        if self.row_by_row or self.inside is None or self.inside.namespace_id is None:
            return {}
        return {"namespace_id": self.inside.namespace_id}


def shown_to(principal: User | Group, generation: Generation, operation: str = "list") -> Q:
    """The entities on which `operation` is permitted to `principal`; a kind without a rule for it shows nothing."""
    return _shown_to(principal, kinds_by_requirements(generation, (operation,)))


def can_see(principal: User | Group, entity: Entity, generation: Generation) -> bool:
    """Whether `list` or `get` shows this entity to `principal`."""
    shown = visibility_condition(principal, generation, kinds=[entity.kind], row_by_row=True)
    return Entity.objects.filter(shown, pk=entity.pk).exists()


def visibility_condition(principal: User | Group, generation: Generation, *, kinds: Iterable[str] | None = None,
               row_by_row: bool = False) -> Q:
    """The entities that `list` or `get` shows; of these kinds, where they are given. row_by_row: as in Listed."""
    return _shown_to(principal, kinds_by_requirements(generation, VISIBILITY_OPERATIONS, kinds), row_by_row=row_by_row)


def _shown_to(principal: User | Group, rules: KindsByRequirements, **how) -> Q:
    tables = grant_tables_of_principal(principal)
    return NONE if tables is None else condition_for_tables(tables, rules, **how)


def kinds_by_requirements(generation: Generation, operations: Sequence[str],
                          kinds: Iterable[str] | None = None) -> KindsByRequirements:
    """What is enough for one of the operations; kinds for which the same is enough stand together."""
    grouped: KindsByRequirements = {}
    for kind in KINDS if kinds is None else kinds:
        policies = [generation.policy(kind, operation) for operation in operations]
        enough = frozenset(_plain(policy.requirement, kind) for policy in policies if policy is not None and policy.has_rule)
        if enough:
            grouped.setdefault(enough, []).append(kind)
    return grouped


def _plain(requires: Expression, kind: str) -> Expression:
    """Nothing lies in what is no container: the same requirement has two forms there, of which this is one."""
    return HasAtOrBelow() if kind not in CONTAINER_KINDS and requires == Has(ANY) else requires


def condition_for_tables(tables: tuple[GrantTable, ...], rules: KindsByRequirements, **how) -> Q:
    """The entities for which one of the requirements of their kind is met by these grants. how: as in Listed."""
    shown = NONE
    for enough, kinds in rules.items():
        listed = FilterContext(tables, kinds, **how)
        shown |= Q(kind__in=kinds) & reduce(or_, (requirement_condition(requirement, listed) for requirement in enough))
    return shown


def combined_condition(expression: Expression, met_by: Callable[[Expression], Q], gives: Callable[[Parameter], bool]) -> Q:
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


def requirement_condition(expression: Expression, listed: FilterContext) -> Q:
    """The rows of entities, all of the kinds that are listed, for which `expression` is met."""
    match expression:
        case Has(privileges, scope) if scope in SCOPE_COLUMNS:
            return _held(listed, content_object_id=OuterRef(SCOPE_COLUMNS[scope]), **with_privileges(privileges), **listed.around)
        case Has(privileges, scope):
            place = fixed_address(scope, listed.question)
            return NONE if place is None else _held(listed, **on_address(place), **with_privileges(privileges))
        case HasAtOrBelow():
            return _held_at_or_below(listed)
        case HasOnAllLive(privilege, kind):
            return ~Q(Exists(_lacking(listed, privilege, kind)))
        case _:
            return combined_condition(expression, lambda part: requirement_condition(part, listed),
                                      lambda parameter: has_parameter(parameter, listed.question))


def has_parameter(parameter, question: Question | None) -> bool:
    return question is not None and question.has_parameter(parameter)


def fixed_address(scope: Scope, question: Question | None) -> Address | None:
    """The address at a scope that is the same for every row: the instance, or what the question brings along."""
    if scope == Scope.INSTANCE:
        return instance_address()
    return None if question is None else question.address_at(scope)


def on_address(place: Address) -> dict:
    return {"content_object__kind": place.kind, "content_object__key": place.key}


def with_privileges(privileges: tuple[Privilege, ...]) -> dict:
    ids = permission_ids()
    return {"permission_id__in": [ids[privilege] for privilege in privileges]}


def _held(listed: FilterContext, **where) -> Q:
    held = NONE
    for table in listed.tables:
        held |= listed.exists(table.rows(**where))
    return held


def _held_at_or_below(listed: FilterContext) -> Q:
    containers = [kind for kind in listed.kinds if kind in CONTAINER_KINDS]
    others = [kind for kind in listed.kinds if kind not in CONTAINER_KINDS]
    reached = Q(kind__in=others) & _held(listed, content_object_id=OuterRef("pk"), **listed.around) if others else NONE
    for kind in containers:
        # the instance contains everything, so any grant reaches it
        inside = {} if kind == "instance" else {**listed.around, f"{kind}_id": OuterRef("pk")}
        reached |= Q(kind=kind) & _held(listed, **inside, **({"application__isnull": False} if kind == "application" else {}))
    return reached


def _lacking(listed: FilterContext, privilege: Privilege, kind: str | None) -> QuerySet:
    """Live entities inside the outer one on which the privilege is not held."""
    inside = Entity.objects.filter(Q(namespace_id=OuterRef("pk")) | Q(application_id=OuterRef("pk")), state=State.LIVE)
    inside = inside.exclude(pk=OuterRef("pk"))
    if kind is not None:
        inside = inside.filter(kind=kind)
    return inside.exclude(_held(listed, content_object_id=OuterRef("pk"), **with_privileges((privilege,))))
