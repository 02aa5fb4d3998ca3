"""Turn a requirement into a condition on users or groups that selects those who meet it.

The entities are fixed by the question, so the database computes most parts of the condition once, as sets of
principals.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.lookups import IsNull

from entities.address import Address
from entities.models import Entity, State
from entities.selectors import entity_at
from entities.vocabulary import ANY, CONTAINER_KINDS, Privilege
from grants.evaluation.entity_filters import ALL, NONE, combined_condition, on_address, with_privileges
from grants.models import GroupGrant, User, UserGrant
from grants.policies.grammar import (
    Expression,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    leaves,
)
from grants.policies.question import Question
from grants.querysets import memberships_in_force
from grants.validity import in_force, question_time

# With more grants inside a container, each principal is checked separately, which finds the first principals
# early.
MAX_GRANTS_INSIDE = 20_000
# Principals that meet a leaf, if they are listed once for several statements.
MAX_LISTED = 20_000


@dataclass(frozen=True, slots=True)
class QuestionContext:
    """The question, and the data on which its condition depends.

    container: the row of the target, if the requirement depends on the entities or grants inside it.
    has_many_grants: whether there are more than MAX_GRANTS_INSIDE grants on and inside the container.
    at: the time at which grants and memberships must be in force, by default that of the current question.
    listed: the primary keys of the principals that meet a leaf of the requirement, for leaves that were
    evaluated before.
    """

    question: Question
    container: Entity | None
    has_many_grants: bool
    at: datetime = field(default_factory=question_time)
    listed: Mapping[Expression, list[int]] = field(default_factory=dict)

    @property
    def is_group(self) -> bool:
        return self.question.subject_type == "group"

    @property
    def inside(self) -> dict:
        """The condition that an entity is the container or inside it, or that a grant is on the container or
        inside it.
        """
        return {} if self.container.kind == "instance" else {f"{self.container.kind}_id": self.container.pk}


def permitted_principals(
    requirement: Expression, question: Question, context: QuestionContext | None = None
) -> tuple[QuerySet, str]:
    """Return the active principals of the question's subject type that meet `requirement`, and their name
    column.

    context: that of a requirement with at least the same leaves; by default, at most two queries read it.
    """
    is_met = _condition(requirement, question_context(requirement, question) if context is None else context)
    if question.subject_type == "group":
        return Group.objects.filter(is_met), "name"
    return User.objects.filter(is_met).active_principals(), "username"


def question_context(requirement: Expression, question: Question) -> QuestionContext:
    """Return the data on which conditions for the leaves of this requirement depend.

    Runs at most two queries.
    """
    leaf_types = {type(leaf) for leaf in leaves(requirement)}
    if question.target.kind not in CONTAINER_KINDS or leaf_types.isdisjoint({HasAtOrBelow, HasOnAllLive}):
        return QuestionContext(question, None, False)
    context = QuestionContext(question, entity_at(question.target), False)
    if context.container is None or HasAtOrBelow not in leaf_types:
        return context
    return replace(context, has_many_grants=_has_many_grants(context))


def with_listed_principals(requirement: Expression, context: QuestionContext) -> QuestionContext:
    """Return the context for several statements: the leaves about what is inside the container are evaluated
    once.

    Runs one query for each of these leaves. Leaves that more than MAX_LISTED principals meet are evaluated by
    each statement.
    """
    listed: dict[Expression, list[int]] = {}
    for leaf in dict.fromkeys(leaves(requirement)) if context.container is not None else ():
        if isinstance(leaf, HasAtOrBelow | HasOnAllLive):
            rows = (
                permitted_principals(leaf, context.question, context)[0]
                .order_by()
                .values_list("pk", flat=True)
            )
            listed[leaf] = list(rows[: MAX_LISTED + 1])
    return replace(context, listed={leaf: pks for leaf, pks in listed.items() if len(pks) <= MAX_LISTED})


def _has_many_grants(context: QuestionContext) -> bool:
    grants = [
        model.objects.filter(**_grants_inside(context)).order_by().values("pk")
        for model in (UserGrant, GroupGrant)
    ]
    return grants[0].union(grants[1], all=True)[: MAX_GRANTS_INSIDE + 1].count() > MAX_GRANTS_INSIDE


def _condition(expression: Expression, context: QuestionContext) -> Q:
    """Return the condition that the grants of a principal meet `expression`."""
    if expression in context.listed:
        return Q(pk__among_many=context.listed[expression])
    match expression:
        case Has(privileges, scope):
            return _has_grant_on(context, context.question.address_at(scope), privileges)
        case HasAtOrBelow():
            return _has_grant_at_or_below(context)
        case HasOnAllLive(privilege, kind):
            return _has_grant_on_all_live(context, privilege, kind)
        case _:
            return combined_condition(
                expression, lambda part: _condition(part, context), context.question.has_parameter
            )


def _has_grant_on(context: QuestionContext, address: Address | None, privileges: tuple[Privilege, ...]) -> Q:
    """Return the condition that a principal has a grant on exactly `address`.

    It is never true if `address` is None.
    """
    return (
        NONE
        if address is None
        else _has_grant(context, {**on_address(address), **with_privileges(privileges)})
    )


def _has_grant(context: QuestionContext, where: dict) -> Q:
    """Return the condition that a principal has a grant that meets `where`, directly or through a group."""
    where = {**where, **in_force(at=context.at)}
    groups = GroupGrant.objects.filter(**where).order_by().values("group_id").distinct()
    if context.is_group:
        return Q(pk__in=groups)
    users = UserGrant.objects.filter(**where).order_by().values("user_id").distinct()
    members = memberships_in_force(context.at).filter(group_id__in=groups).values("user_id").distinct()
    return Q(pk__in=users) | Q(pk__in=members)


def _has_grant_at_or_below(context: QuestionContext) -> Q:
    if context.question.target.kind not in CONTAINER_KINDS:
        return _has_grant_on(context, context.question.target, ANY)
    if context.container is None:
        return NONE
    if not context.has_many_grants:
        return _has_grant(context, _grants_inside(context))
    condition = NONE
    for grants in _effective_grants(context, OuterRef("pk")):
        condition |= Q(IsNull(Subquery(grants.filter(**context.inside).values("pk")[:1]), False))
    return condition


def _grants_inside(context: QuestionContext) -> dict:
    """Return the condition that the entity of a grant is on or inside the container.

    An index leads from a container to its entities, but no index leads from a container to its grants.
    """
    return {f"content_object__{column}": value for column, value in context.inside.items()}


def _effective_grants(context: QuestionContext, principal: OuterRef) -> list[QuerySet]:
    """Return the effective grants of the outer principal, one queryset for each table."""
    if context.is_group:
        return [GroupGrant.objects.filter(group_id=principal, **in_force(at=context.at))]
    through_groups = {"group__memberships__user": principal, **in_force("group__memberships__", context.at)}
    return [
        UserGrant.objects.filter(user_id=principal, **in_force(at=context.at)),
        GroupGrant.objects.filter(**through_groups, **in_force(at=context.at)),
    ]


def _has_grant_on_all_live(context: QuestionContext, privilege: Privilege, kind: str | None) -> Q:
    if context.container is None:
        return ALL
    live = Entity.objects.filter(state=State.LIVE, **context.inside).exclude(pk=context.container.pk)
    if kind is not None:
        live = live.filter(kind=kind)
    # a principal with the privilege on all entities has it on the first one, so only few principals must be
    # checked on the others
    has_on_first = _has_grant(
        context, {"content_object_id": Subquery(live.values("pk")[:1]), **with_privileges((privilege,))}
    )
    without_privilege = live
    for grants in _effective_grants(context, OuterRef(OuterRef("pk"))):
        on_entity = grants.filter(content_object_id=OuterRef("pk"), **with_privileges((privilege,)))
        without_privilege = without_privilege.exclude(Q(IsNull(Subquery(on_entity.values("pk")[:1]), False)))
    return ~Q(Exists(live)) | has_on_first & Q(IsNull(Subquery(without_privilege.values("pk")[:1]), True))
