"""Create plans that off-board a user: hand over entities, revoke all grants, leave all groups and deactivate
the user.

Grants on planned and deleted addresses are revoked too. An entity is handed over with all privileges that the
user holds on it directly, with their periods, and with ADMIN if it would be stranded otherwise. Expired
grants and grants on deleted addresses are not handed over.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from itertools import islice
from typing import Self

from django.db.models import Count
from django.db.models.functions import Coalesce
from django.utils import timezone

from entities.address import parse_address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.vocabulary import KINDS, Privilege
from grants.change_set import Change, Deactivate, Grant, Leave, Revoke
from grants.changes import existing_grants
from grants.errors import PlanError
from grants.models import (
    GROUP,
    PRINCIPAL_TYPES,
    Membership,
    NamespaceSteward,
    Plan,
    User,
    UserGrant,
    permission_ids,
    privilege_of,
)
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, PlanOrigin, plan_source
from grants.plans.stranding import stranded_entities
from grants.policies.principals import principal_text
from grants.principal_names import format_principal, principals_by_name
from grants.principals.administrator_loss import stranded_if_removed
from grants.stored_changes import stored_grants
from grants.validity import VALIDITY_COLUMNS, Validity, in_force, not_over_condition

MAX_NAMED = 3
# candidates are found for the first entities only
MAX_ENTITIES_COMPARED = 500
MAX_HOLDERS_READ = 1_000
MAX_COLLEAGUES = 20


@frozen
class OffBoarding:
    """The choices of a checklist.

    entity_heirs: by address, the principals that receive the entity. namespace_heirs: by address of a
    namespace, those that receive the other entities on and inside it. stranded_heirs: those that receive all
    other entities that would be stranded.
    accept_no_administrator: create the plan also if it leaves live entities without an active administrator.
    """

    user: str
    deactivate: bool = True
    leave_groups: bool = True
    revoke_grants: bool = True
    entity_heirs: Mapping[str, Collection[str]] = field(default_factory=dict)
    namespace_heirs: Mapping[str, Collection[str]] = field(default_factory=dict)
    stranded_heirs: Collection[str] = ()
    accept_no_administrator: bool = False

    @property
    def heirs(self) -> set[str]:
        """All principals that receive something."""
        lists = [*self.entity_heirs.values(), *self.namespace_heirs.values(), self.stranded_heirs]
        return {format_principal(heir) for heirs in lists for heir in heirs}

    @classmethod
    def of_recipe(cls, recipe: Mapping) -> Self:
        return cls(**{column.name: recipe[column.name] for column in fields(cls)})


@frozen
class HeldEntity:
    """An entity on which the user holds privileges directly, or that would be stranded.

    privileges: with the periods of their grants. admin_count: the number of remaining administrators if it
    would be stranded; otherwise None.
    """

    entity: Entity
    privileges: Mapping[Privilege, Validity]
    admin_count: int | None

    @property
    def is_stranded(self) -> bool:
        return self.admin_count is not None

    @property
    def privileges_to_give(self) -> dict[Privilege, Validity]:
        """The privileges that an heir receives, with their periods."""
        admin = {Privilege.ADMIN: Validity()} if self.is_stranded else {}
        given = admin | self.privileges
        return {privilege: given[privilege] for privilege in Privilege if privilege in given}


@plan_source(PlanOrigin.OFF_BOARDING, lambda plan: {"choices": OffBoarding.of_recipe(plan.recipe)})
def off_boarding_plan(choices: OffBoarding) -> PlanDraft:
    """Return the plan of a checklist.

    It is stale after every change of the user. Runs about ten queries. Raise PlanError if the choices are
    invalid, if nothing would change, or if an entity would have no administrator.
    """
    user = User.objects.filter(username=choices.user).first()
    if user is None:
        raise PlanError(f"user:{choices.user} does not exist: correct the name")
    _check_heirs(user, choices)

    def check(plan: Plan) -> None:
        if plan.effect["stranded_none"] and not choices.accept_no_administrator:
            raise PlanError(_no_administrator_text(plan))

    return PlanDraft(
        title=f"Off-board {user}",
        watches=[str(user)],
        changes=_changes(user, choices),
        recipe=asdict(choices) | {"note": _note(choices)},
        empty_message=f"there is nothing to do: {user} is inactive, and has no grants and no groups",
        check=check,
    )


def held_entities(user: User) -> list[HeldEntity]:
    """Return the entities that the user could hand over, first those that would be stranded, by address.

    Reads at most MAX_PLAN_ITEMS grants. Deleted addresses and expired grants are left out. Runs at most nine
    queries.
    """
    stranded = stranded_if_removed(user, MAX_PLAN_ITEMS)
    privileges: dict[int, dict[Privilege, Validity]] = {}
    grants = UserGrant.objects.filter(not_over_condition(timezone.now()), user=user).exclude(
        content_object__state=State.DELETED
    )
    columns = ("content_object_id", "permission_id", *VALIDITY_COLUMNS)
    for pk, permission, *period in grants.order_by("permission_id").values_list(*columns)[:MAX_PLAN_ITEMS]:
        privileges.setdefault(pk, {})[privilege_of(permission)] = Validity(*period)
    rows = Entity.objects.select_related("namespace").filter(pk__among={*stranded, *privileges})
    held = [
        HeldEntity(
            entity,
            {
                privilege: privileges[entity.pk][privilege]
                for privilege in Privilege
                if privilege in privileges.get(entity.pk, {})
            },
            stranded.get(entity.pk),
        )
        for entity in rows
    ]
    kinds = list(KINDS)
    return sorted(held, key=lambda row: (not row.is_stranded, kinds.index(row.entity.kind), row.entity.key))


@frozen
class HeirCandidate:
    """A principal that could receive what the user holds.

    administered: on how many of the entities and their namespaces it holds ADMIN itself. shared_groups: how many groups
    it shares with the user.
    """

    principal: str
    administered: int
    is_steward: bool
    shared_groups: int


def heir_candidates(
    user: User, held: Sequence[HeldEntity], max_candidates: int
) -> dict[int | None, list[HeirCandidate]]:
    """Return the best candidates for the entities in each namespace, by its primary key, and for all entities, by None.

    First come those that hold ADMIN on most of the entities, then data stewards, then members of the same groups. Runs at
    most four queries.
    """
    rows = held[:MAX_ENTITIES_COMPARED]
    namespaces = {row.entity.namespace_id: row.entity.namespace for row in rows if row.entity.namespace}
    administrators = _admin_counts({row.entity.pk for row in rows} | namespaces.keys(), user)
    stewards = defaultdict(set)
    pk_of = {namespace.key: pk for pk, namespace in namespaces.items()}
    for row in NamespaceSteward.objects.filter(namespace__in=pk_of).select_related("user", "group"):
        if row.user_id != user.pk and (row.user is None or row.user.is_active):
            stewards[pk_of[row.namespace]].add(row.principal)
    memberships = Membership.objects.filter(
        group__in=user.groups.all(), user__in=User.objects.active_principals(), **in_force()
    ).exclude(user=user)
    shared_groups = {
        f"user:{name}": total
        for name, total in memberships.values_list("user__username")
        .annotate(total=Count("*"))
        .order_by("-total", "user__username")[:MAX_COLLEAGUES]
    }

    def best(counts: Mapping[str, int], stewards: Collection[str]) -> list[HeirCandidate]:
        candidates = [
            HeirCandidate(name, counts.get(name, 0), name in stewards, shared_groups.get(name, 0))
            for name in {*counts, *stewards, *shared_groups}
        ]
        return sorted(
            candidates,
            key=lambda row: (-row.administered, not row.is_steward, -row.shared_groups, row.principal),
        )[:max_candidates]

    return {None: best(administrators.total, set().union(*stewards.values()))} | {
        pk: best(administrators.by_namespace[pk], stewards[pk]) for pk in namespaces
    }


@frozen
class _AdminCounts:
    """On how many entities each principal holds ADMIN."""

    total: Counter[str] = field(default_factory=Counter)
    by_namespace: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def _admin_counts(pks: Collection[int], user: User) -> _AdminCounts:
    """Count the direct grants of ADMIN on these entities to active users, and to groups with an active member, other
    than the user. Runs two queries.
    """
    counts, others = _AdminCounts(), User.objects.active_principals().exclude(pk=user.pk)
    for principal_type in PRINCIPAL_TYPES.values():
        # a join with the members would count each grant of a group once for each of them
        principals = (
            {"group__in": Membership.objects.filter(user__in=others).values("group")}
            if principal_type is GROUP
            else {"user__in": others}
        )
        grants = principal_type.grants.filter(
            content_object__pk__among=pks, permission_id=permission_ids()[Privilege.ADMIN], **in_force()
        ).filter(**principals)
        totals = (
            grants.order_by()
            .values_list(principal_type.name_path, Coalesce("namespace_id", "content_object_id"))
            .annotate(total=Count("*"))
            .order_by("-total", principal_type.name_path)
        )
        for name, namespace, total in totals[:MAX_HOLDERS_READ]:
            principal = principal_text(principal_type.name, name)
            counts.total[principal] += total
            counts.by_namespace[namespace][principal] += total
    return counts


def _changes(user: User, choices: OffBoarding) -> Iterator[Change]:
    if choices.heirs:
        yield from _hand_over(held_entities(user), choices)
    if choices.revoke_grants:
        grants = stored_grants(UserGrant.objects.filter(user=user))
        yield from (Revoke(*grant.key) for grant in islice(grants, MAX_PLAN_ITEMS + 1))
    if choices.leave_groups:
        for name in user.groups.order_by("name").values_list("name", flat=True):
            yield Leave(user.username, name)
    if choices.deactivate and user.is_active:
        yield Deactivate(user.username)


def _hand_over(held: Iterable[HeldEntity], choices: OffBoarding) -> Iterator[Change]:
    """Yield the grants to the heirs.

    No period of a grant that an heir holds already gets shorter. Runs the queries of `existing_grants`.
    """
    rows = list(held)
    grants = [
        Grant(heir, row.entity.address, privilege, period)
        for row in rows
        for heir in _heirs_of(row, choices)
        for privilege, period in row.privileges_to_give.items()
    ]
    entities = {row.entity.address: row.entity for row in rows}
    known, now = existing_grants(grants, principals_by_name(choices.heirs), entities), timezone.now()
    for grant in grants:
        stored = known.get(grant.key)
        if stored is None or stored.validity.is_over(now):
            yield grant
        elif (period := _both(stored.validity, grant.validity)) != stored.validity:
            yield replace(grant, validity=period)


def _both(first: Validity, second: Validity) -> Validity:
    """Return the period from the first beginning to the last end."""
    begins = [time for time in (first.valid_from, second.valid_from) if time is not None]
    ends = [time for time in (first.valid_until, second.valid_until) if time is not None]
    return Validity(min(begins) if len(begins) == 2 else None, max(ends) if len(ends) == 2 else None)


def _heirs_of(row: HeldEntity, choices: OffBoarding) -> list[str]:
    namespace = row.entity.namespace
    heirs = (
        choices.entity_heirs.get(str(row.entity))
        or (choices.namespace_heirs.get(str(namespace)) if namespace is not None else None)
        or (choices.stranded_heirs if row.is_stranded else ())
    )
    return list(dict.fromkeys(map(format_principal, heirs)))


def _check_heirs(user: User, choices: OffBoarding) -> None:
    """Raise PlanError if an heir does not exist, is inactive or is the user, or if an address is not one of
    the user's.
    """
    principals = principals_by_name(choices.heirs)
    for heir in sorted(choices.heirs):
        principal = principals.get(heir)
        if principal is None:
            raise PlanError(f"{heir} does not exist: correct the name")
        if principal == user:
            raise PlanError(f"{user} cannot hand over to {user}: name another user or a group")
        if isinstance(principal, User) and not principal.is_active:
            raise PlanError(f"{heir} is inactive: name an active user or a group")
    for address in [*choices.entity_heirs, *choices.namespace_heirs]:
        parse_address(address)


def _note(choices: OffBoarding) -> str:
    if not choices.deactivate:
        return ""
    return (
        "API tokens, sessions, stewardships, open reviews and pending requests of the user end when this plan is applied, "
        "and so does being a manager. Undoing the plan does not restore them. It restores the account, groups and grants."
    )


def _no_administrator_text(plan: Plan) -> str:
    total = plan.effect["stranded_none"]
    names = ", ".join(str(row.address) for row in stranded_entities(plan, max_rows=min(total, MAX_NAMED)))
    more = f" and {total - MAX_NAMED:,} more" if total > MAX_NAMED else ""
    return f"{names}{more} would have no active ADMIN holder: hand over, or confirm that they have none"
