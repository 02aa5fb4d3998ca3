"""Which entities an operation is permitted on, as a filter: the law's requirement turned into SQL conditions.

Answers for whole lists what `grants.engine` answers one by one, from the same expressions; a test holds the two together.
"""

from django.db.models import Exists, OuterRef, Q, QuerySet

from entities.address import instance_address
from entities.models import Entity, State
from entities.vocabulary import CONTAINERS, KINDS, Privilege
from grants.models import GroupGrant, User, UserGrant, permission_ids
from grants.policies.expressions import (
    AllOf,
    Always,
    AnyOf,
    Expression,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    Scope,
    UnknownExpression,
)
from grants.policies.policy import Generation

ALL, NONE = Q(pk__isnull=False), Q(pk__in=[])

# the column of an entity's row that names the entity at each scope
_COLUMNS = {Scope.SELF: "pk", Scope.PARENT: "parent_id", Scope.NAMESPACE: "namespace_id", Scope.APPLICATION: "application_id"}


def shown_to(user: User, generation: Generation, operation: str = "list") -> Q:
    """The entities on which `operation` is permitted to `user`; a kind without a rule for it shows nothing."""
    if not (user.is_active and user.is_principal):
        return NONE
    shown = NONE
    for requirement, kinds in _kinds_by_requirement(generation, operation).items():
        shown |= Q(kind__in=kinds) & _condition(requirement, user)
    return shown


def may_see(user: User, entity: Entity, generation: Generation) -> bool:
    """Whether `list` or `get` shows this entity to `user`."""
    return Entity.objects.filter(visible_to(user, generation), pk=entity.pk).exists()


def visible_to(user: User, generation: Generation) -> Q:
    """The entities that `list` or `get` shows to `user`."""
    return shown_to(user, generation, "list") | shown_to(user, generation, "get")


def _kinds_by_requirement(generation: Generation, operation: str) -> dict[Expression, list[str]]:
    grouped: dict[Expression, list[str]] = {}
    for kind in KINDS:
        policy = generation.policy(kind, operation)
        if policy is not None and policy.requires is not None:
            grouped.setdefault(policy.requires, []).append(kind)
    return grouped


def _condition(expression: Expression, user: User) -> Q:
    match expression:
        case Has(privileges, Scope.INSTANCE):
            instance = instance_address()
            return _held_by(user, privileges, content_object__kind=instance.kind, content_object__key=instance.key)
        case Has(privileges, scope) if scope in _COLUMNS:
            return _held_by(user, privileges, content_object_id=OuterRef(_COLUMNS[scope]))
        case HasAtOrBelow():
            return _held_at_or_below(user)
        case HasOnAllLive(privilege, kind):
            return ~Q(Exists(_lacking(user, privilege, kind)))
        case AllOf(parts):
            met = ALL
            for part in parts:
                met &= _condition(part, user)
            return met
        case AnyOf(parts):
            met = NONE
            for part in parts:
                met |= _condition(part, user)
            return met
        case Given() | Always():
            # a list is asked for without parameters
            return ALL
        case _:
            raise UnknownExpression(expression)


def _held_by(user: User, privileges: tuple[Privilege, ...], **place) -> Q:
    ids = permission_ids()
    held = {"permission_id__in": [ids[privilege] for privilege in privileges], **place}
    return Q(Exists(UserGrant.objects.filter(user=user, **held))) | Q(
        Exists(GroupGrant.objects.filter(group__user=user, **held))
    )


def _held_at_or_below(user: User) -> Q:
    reached = NONE
    for grants in (UserGrant.objects.filter(user=user), GroupGrant.objects.filter(group__user=user)):
        # the instance contains everything, so any grant reaches it
        reached |= Q(pk__in=grants.values("content_object_id")) | Q(kind="instance") & Q(Exists(grants))
        for kind in CONTAINERS[1:]:
            reached |= Q(kind=kind, pk__in=grants.values(f"content_object__{kind}_id"))
    return reached


def _lacking(user: User, privilege: Privilege, kind: str | None) -> QuerySet:
    """Live entities inside the outer one on which the privilege is not held."""
    inside = Entity.objects.filter(Q(namespace_id=OuterRef("pk")) | Q(application_id=OuterRef("pk")), state=State.LIVE)
    inside = inside.exclude(pk=OuterRef("pk"))
    if kind is not None:
        inside = inside.filter(kind=kind)
    return inside.exclude(_held_by(user, (privilege,), content_object_id=OuterRef("pk")))
