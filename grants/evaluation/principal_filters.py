"""Turn a requirement into a condition on users or groups: the principals to whom a question is permitted.

The question fixes the entities, so most parts of the condition are sets of principals that are computed once.
"""

from dataclasses import dataclass

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

# With more grants inside a container, each principal is checked separately; the first few are found early.
MAX_GRANTS_INSIDE = 20_000


@dataclass(frozen=True, slots=True)
class _Search:
    """container: the row of the target, if its content matters. is_crowded: whether there are very many grants inside it."""

    question: Question
    container: Entity | None
    is_crowded: bool

    @property
    def is_group(self) -> bool:
        return self.question.subject_type == "group"

    @property
    def inside(self) -> dict:
        """The condition that an entity or a grant is on the container or inside it."""
        return {} if self.container.kind == "instance" else {f"{self.container.kind}_id": self.container.pk}


def permitted_principals(requirement: Expression, question: Question) -> tuple[QuerySet, str]:
    """Return the active principals of the question's subject type for whom `requirement` is met, and their name column.

    At most two queries, to look at the content of the target.
    """
    met = _condition(requirement, _search(requirement, question))
    if question.subject_type == "group":
        return Group.objects.filter(met), "name"
    return User.objects.filter(met).active_principals(), "username"


def _search(requirement: Expression, question: Question) -> _Search:
    leaf_types = {type(leaf) for leaf in leaves(requirement)}
    if question.target.kind not in CONTAINER_KINDS or leaf_types.isdisjoint({HasAtOrBelow, HasOnAllLive}):
        return _Search(question, None, False)
    search = _Search(question, entity_at(question.target), False)
    if search.container is None or HasAtOrBelow not in leaf_types:
        return search
    return _Search(question, search.container, _is_crowded(search))


def _is_crowded(search: _Search) -> bool:
    grants = [model.objects.filter(**_on_content(search)).order_by().values("pk") for model in (UserGrant, GroupGrant)]
    return grants[0].union(grants[1], all=True)[: MAX_GRANTS_INSIDE + 1].count() > MAX_GRANTS_INSIDE


def _condition(expression: Expression, search: _Search) -> Q:
    match expression:
        case Has(privileges, scope):
            return _has_grant(search, _on(search.question.address_at(scope), privileges))
        case HasAtOrBelow():
            return _has_grant_at_or_below(search)
        case HasOnAllLive(privilege, kind):
            return _has_grant_on_all_live(search, privilege, kind)
        case _:
            return combined_condition(expression, lambda part: _condition(part, search), search.question.has_parameter)


def _on(place: Address | None, privileges: tuple[Privilege, ...]) -> dict | None:
    return None if place is None else {**on_address(place), **with_privileges(privileges)}


def _has_grant(search: _Search, where: dict | None) -> Q:
    """Return the condition that a principal has such a grant, directly or through a group."""
    if where is None:
        return NONE
    groups = GroupGrant.objects.filter(**where).order_by().values("group_id").distinct()
    if search.is_group:
        return Q(pk__in=groups)
    users = UserGrant.objects.filter(**where).order_by().values("user_id").distinct()
    members = User.groups.through.objects.filter(group_id__in=groups).values("user_id").distinct()
    return Q(pk__in=users) | Q(pk__in=members)


def _has_grant_at_or_below(search: _Search) -> Q:
    if search.question.target.kind not in CONTAINER_KINDS:
        return _has_grant(search, _on(search.question.target, ANY))
    if search.container is None:
        return NONE
    if not search.is_crowded:
        return _has_grant(search, _on_content(search))
    condition = NONE
    for grants in _own_grants(search, OuterRef("pk")):
        condition |= Q(IsNull(Subquery(grants.filter(**search.inside).values("pk")[:1]), False))
    return condition


def _on_content(search: _Search) -> dict:
    """Return the condition on a grant by way of its entity: an index leads from a container to entities, but not to grants."""
    return {f"content_object__{column}": value for column, value in search.inside.items()}


def _own_grants(search: _Search, principal: OuterRef) -> list[QuerySet]:
    """Return the effective grants of the outer principal."""
    if search.is_group:
        return [GroupGrant.objects.filter(group_id=principal)]
    return [UserGrant.objects.filter(user_id=principal), GroupGrant.objects.filter(group__user=principal)]


def _has_grant_on_all_live(search: _Search, privilege: Privilege, kind: str | None) -> Q:
    if search.container is None:
        return ALL
    live = Entity.objects.filter(state=State.LIVE, **search.inside).exclude(pk=search.container.pk)
    if kind is not None:
        live = live.filter(kind=kind)
    # a principal that holds it on all entities holds it on this one, which leaves few principals to check on the rest
    holds_on_one = _has_grant(search, {"content_object_id": Subquery(live.values("pk")[:1]), **with_privileges((privilege,))})
    lacking = live
    for grants in _own_grants(search, OuterRef(OuterRef("pk"))):
        held = grants.filter(content_object_id=OuterRef("pk"), **with_privileges((privilege,)))
        lacking = lacking.exclude(Q(IsNull(Subquery(held.values("pk")[:1]), False)))
    return ~Q(Exists(live)) | holds_on_one & Q(IsNull(Subquery(lacking.values("pk")[:1]), True))
