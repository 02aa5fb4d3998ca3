"""To whom an operation is permitted, as a filter of users or groups: the same requirement, read from the other side.

The entities are fixed by the question here, so that each part is a set of principals that is made once.
"""

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, Q, QuerySet

from entities.address import Address
from entities.models import Entity, State
from entities.vocabulary import ANY, CONTAINERS, Privilege
from grants.listing import ALL, NONE, exactly_on, of_privileges
from grants.models import GroupGrant, User, UserGrant
from grants.policies.expressions import (
    AllOf,
    Always,
    AnyOf,
    Expression,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    UnknownExpression,
)
from grants.policies.question import Question


def principals_permitted(requires: Expression, question: Question) -> tuple[QuerySet, str]:
    """The active principals of the question's type for whom `requires` is met, and the column of their names."""
    met = _condition(requires, question)
    if question.subject_type == "group":
        return Group.objects.filter(met), "name"
    return User.objects.filter(met, is_active=True, is_principal=True), "username"


def _condition(expression: Expression, question: Question) -> Q:
    match expression:
        case Has(privileges, scope):
            return _holds(question, _on(question.at(scope), privileges))
        case HasAtOrBelow():
            return _holds(question, _at_or_below(question.target))
        case HasOnAllLive(privilege, kind):
            return ~Q(Exists(_lacking(question, privilege, kind)))
        case AllOf(parts):
            met = ALL
            for part in parts:
                met &= _condition(part, question)
            return met
        case AnyOf(parts):
            met = NONE
            for part in parts:
                met |= _condition(part, question)
            return met
        case Given(parameter, then):
            return _condition(then, question) if question.gives(parameter) else ALL
        case Always():
            return ALL
        case _:
            raise UnknownExpression(expression)


def _on(place: Address | None, privileges: tuple[Privilege, ...]) -> dict | None:
    return None if place is None else {**exactly_on(place), **of_privileges(privileges)}


def _at_or_below(place: Address) -> dict:
    if place.kind not in CONTAINERS:
        return _on(place, ANY)
    if place.kind == "instance":
        return {}
    return {f"content_object__{column}": value for column, value in _contained(place).items()}


def _holds(question: Question, where: dict | None) -> Q:
    """The principals with such a grant, directly or through a group."""
    if where is None:
        return NONE
    groups = GroupGrant.objects.filter(**where).order_by().values("group_id").distinct()
    if question.subject_type == "group":
        return Q(pk__in=groups)
    users = UserGrant.objects.filter(**where).order_by().values("user_id").distinct()
    members = User.groups.through.objects.filter(group_id__in=groups).values("user_id").distinct()
    return Q(pk__in=users) | Q(pk__in=members)


def _lacking(question: Question, privilege: Privilege, kind: str | None) -> QuerySet:
    """Live entities inside the target on which the outer principal does not hold the privilege."""
    inside = Entity.objects.filter(state=State.LIVE, **_contained(question.target)).exclude(**_itself(question.target))
    if kind is not None:
        inside = inside.filter(kind=kind)
    where = {"content_object_id": OuterRef("pk"), **of_privileges((privilege,))}
    if question.subject_type == "group":
        return inside.exclude(Exists(GroupGrant.objects.filter(group_id=OuterRef(OuterRef("pk")), **where)))
    return inside.exclude(
        Exists(UserGrant.objects.filter(user_id=OuterRef(OuterRef("pk")), **where))
        | Exists(GroupGrant.objects.filter(group__user=OuterRef(OuterRef("pk")), **where))
    )


def _contained(place: Address) -> dict:
    return {f"{place.kind}__kind": place.kind, f"{place.kind}__key": place.key}


def _itself(place: Address) -> dict:
    return {"kind": place.kind, "key": place.key}
