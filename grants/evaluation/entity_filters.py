"""Turn requirements into SQL conditions on entities, to filter lists by the permissions of a principal.

INVARIANT: a condition selects exactly the entities on which `grants.evaluation.engine` permits the operation
(tests/grants/evaluation/test_evaluators_agree.py).

`candidate_queries` finds the same entities, starting from the grants of the principal. A list of queries covers a
requirement if every permitted entity is in the result of at least one query. A requirement that can be met without
any grant, such as `Always`, cannot be covered: every entity must then be checked.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_, or_

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.lookups import IsNull

from entities.address import Address, instance_address, kinds_inside
from entities.frozen import frozen
from entities.models import Entity, State
from entities.patterns import rows_about
from entities.vocabulary import ANY, CONTAINER_KINDS, KINDS, Privilege
from grants.evaluation.effective_grants import GrantTable, grant_tables_of_principal
from grants.models import User, permission_ids
from grants.policies.grammar import Algebra, AnyOf, Expression, Has, HasAtOrBelow, Parameter, Scope, fold
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


class Conditions(Algebra[Q]):
    """SQL conditions of requirements: the nodes that do not depend on what the rows of the query are."""

    __slots__ = ()

    def always(self) -> Q:
        return ALL

    def all_of(self, parts: Iterable[Q]) -> Q:
        return reduce(and_, parts, ALL)

    def any_of(self, parts: Iterable[Q]) -> Q:
        return reduce(or_, parts, NONE)


@frozen
class EntityConditions(Conditions):
    """The conditions that the grants in `tables` meet a requirement on an entity of one of `kinds`.

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

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> Q:
        if scope in SCOPE_COLUMNS:
            on_entity = {"content_object_id": OuterRef(SCOPE_COLUMNS[scope])}
            return self._has_grant(**on_entity, **with_privileges(privileges), **self._in_namespace)
        address = self._fixed_address(scope)
        if address is None:
            return NONE
        return self._has_grant(**on_address(address), **with_privileges(privileges))

    def has_at_or_below(self) -> Q:
        others = [kind for kind in self.kinds if kind not in CONTAINER_KINDS]
        on_entity = {"content_object_id": OuterRef("pk"), **self._in_namespace}
        condition = Q(kind__in=others) & self._has_grant(**on_entity) if others else NONE
        for kind in self.kinds:
            if kind in CONTAINER_KINDS:
                inside = {**self._in_namespace, f"{kind}_id": OuterRef("pk")}
                # the partial index on applications needs this condition
                not_null = {"application__isnull": False} if kind == "application" else {}
                condition |= Q(kind=kind) & self._has_grant(**inside, **not_null)
        return condition

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> Q:
        inside = Entity.objects.filter(
            Q(namespace_id=OuterRef("pk")) | Q(application_id=OuterRef("pk")), state=State.LIVE
        )
        inside = inside.exclude(pk=OuterRef("pk"))
        if kind is not None:
            inside = inside.filter(kind=kind)
        has_privilege = self._has_grant(content_object_id=OuterRef("pk"), **with_privileges((privilege,)))
        return ~Q(Exists(inside.exclude(has_privilege)))

    def given(self, parameter: Parameter, then: Callable[[], Q]) -> Q:
        return then() if self.has_parameter(parameter) else ALL

    def has_parameter(self, parameter: Parameter) -> bool:
        """Return whether there is a question and it has `parameter`."""
        return self.question is not None and self.question.has_parameter(parameter)

    def on_kinds(self, kinds: Iterable[str]) -> dict:
        """The condition that a grant is on an entity of these kinds, as far as the kind is stored with the
        grant.
        """
        return {"entity_kind__in": (*kinds, "")} if self.by_kind else {}

    @property
    def _in_namespace(self) -> dict:
        """The condition that a grant is in the namespace of `inside`."""
        if self.row_by_row or self.inside is None or self.inside.namespace_id is None:
            return {}
        return {"namespace_id": self.inside.namespace_id}

    def _has_grant(self, **where) -> Q:
        condition = NONE
        for table in self.tables:
            rows = table.rows(**where)
            condition |= (
                Q(IsNull(Subquery(rows.values("pk")[:1]), False)) if self.row_by_row else Q(Exists(rows))
            )
        return condition

    def _fixed_address(self, scope: Scope) -> Address | None:
        """Return the address at a scope that does not depend on the row: the instance or a parameter of the
        question.
        """
        if scope == Scope.INSTANCE:
            return instance_address()
        return None if self.question is None else self.question.address_at(scope)


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
    kinds: limit the condition to these kinds. row_by_row: see EntityConditions.
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

    options: further fields of EntityConditions.
    """
    condition = NONE
    for alternatives, kinds in rules.items():
        is_met = fold(AnyOf(tuple(alternatives)), EntityConditions(tables, kinds, **options))
        condition |= Q(kind__in=kinds) & is_met
    return condition


def on_address(address: Address) -> dict:
    """Return the condition that a grant is on exactly this address, or on a pattern that matches it.

    Only an address that is not registered needs the patterns, because it has no derived grants.
    """
    return {"content_object__in": rows_about(address)}


def with_privileges(privileges: tuple[Privilege, ...]) -> dict:
    """Return the condition that a grant gives one of these privileges."""
    ids = permission_ids()
    return {"permission_id__in": [ids[privilege] for privilege in privileges]}


def candidate_queries(requirement: Expression, conditions: EntityConditions) -> list[QuerySet] | None:
    """Return queries for the keys of all permitted entities of one kind. A key can appear more than once.

    None if the requirement cannot be covered.
    """
    kind = conditions.kinds[0]
    if requirement == HasAtOrBelow() and kind in CONTAINER_KINDS:
        return _containers_of_grants(kind, conditions)
    cover = fold(requirement, Covers(conditions))
    if cover is None:
        return None
    condition = ALL if cover.is_exact else fold(requirement, conditions)
    rows = Entity.objects.filter(condition, kind=kind).order_by()
    return [rows.filter(part).values_list("key", flat=True) for part in cover.parts]


@frozen
class Cover:
    """Conditions such that every permitted entity meets at least one of them.

    is_exact: whether every entity that meets one of them is permitted.
    """

    parts: tuple[Q, ...]
    is_exact: bool


@frozen
class Covers(Algebra[Cover | None]):
    """The conditions that cover a requirement, starting from the grants; None if there are none."""

    conditions: EntityConditions

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> Cover | None:
        if scope not in SCOPE_COLUMNS:
            return None
        where = with_privileges(privileges)
        return Cover(
            tuple(self._has_grant_at(scope, table, where) for table in self.conditions.tables), is_exact=True
        )

    def has_at_or_below(self) -> Cover | None:
        kind = self.conditions.kinds[0]
        if kind not in CONTAINER_KINDS:
            return self.has(ANY, Scope.SELF)
        return Cover(
            tuple(
                Q(pk__in=table.rows(**{f"{kind}__isnull": False}).values(f"{kind}_id"))
                for table in self.conditions.tables
            ),
            is_exact=True,
        )

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> None:
        return None

    def always(self) -> None:
        return None

    def all_of(self, parts: Iterable[Cover | None]) -> Cover | None:
        cover = next((cover for cover in parts if cover is not None), None)
        return cover and replace(cover, is_exact=False)

    def any_of(self, parts: Iterable[Cover | None]) -> Cover | None:
        covers = list(parts)
        found = [cover for cover in covers if cover is not None]
        if len(found) < len(covers):
            return None
        return Cover(
            tuple(part for cover in found for part in cover.parts), all(cover.is_exact for cover in found)
        )

    def given(self, parameter: Parameter, then: Callable[[], Cover | None]) -> Cover | None:
        cover = then() if self.conditions.has_parameter(parameter) else None
        return cover and replace(cover, is_exact=False)

    def _has_grant_at(self, scope: Scope, table: GrantTable, where: dict) -> Q:
        """Return the condition that an entity, or its container at `scope`, has a grant in `table` that meets
        `where`.
        """
        (kind, *_), on_kinds = self.conditions.kinds, self.conditions.on_kinds
        if scope == Scope.SELF:
            return Q(**table.entity_conditions(**where, **on_kinds([kind])))
        container = KINDS[kind].parent if scope == Scope.PARENT else scope.value
        grants = table.rows(content_object__kind=container, **where, **on_kinds([container]))
        return Q(**{f"{SCOPE_COLUMNS[scope]}__in": grants.values("content_object_id")})


def _containers_of_grants(kind: str, conditions: EntityConditions) -> list[QuerySet]:
    """Return queries for the keys of all containers of `kind` that have a grant on or inside them."""
    inside = [kind, *kinds_inside(kind)]
    # in a namespace are nearly all kinds
    is_by_kind = conditions.by_kind and kind == "application"
    return [
        table.rows(**{f"{kind}__isnull": False}, **(conditions.on_kinds(inside) if is_by_kind else {}))
        .order_by(*_order_by_kind(table) if is_by_kind else ())
        .values_list(f"{kind}__key", flat=True)
        for table in conditions.tables
    ]


def _order_by_kind(table: GrantTable) -> tuple[str, ...]:
    """Return the order of the index by kind, so that PostgreSQL does not prefer another one to find the first
    row.

    The rows of several principals are not in this order in the index.
    """
    is_ordered = len(table.ids) == 1 and not table.source.membership
    return (table.source.holder.id_column, "entity_kind") if is_ordered else ()
