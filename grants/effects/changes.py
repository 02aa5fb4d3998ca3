"""Define the changes that can be evaluated, and read the changes of a plan.

Principals are written in full, such as `user:alice`; users and groups of memberships are plain names. A
change that has no effect on the stored data, such as a grant that exists already, is allowed and is ignored.

An effect is evaluated at one time, before and after the changes. A grant or membership whose validity does
not include this time does not count, whether it is stored or added. If something that the changes add begins
later, the effect is also evaluated at the first beginnings, MAX_TIMES times in all (`effect_times`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from entities.address import Address
from entities.models import State
from entities.vocabulary import Privilege
from grants.models import GRANT_VERBS, MEMBERSHIP_VERBS, Plan, PlanItem, PlanVerb
from grants.policies.policy import Generation
from grants.principal_names import parse_principal
from grants.validity import Validity, question_time

ITEMS_PER_READ = 2_000
# the time of the question and the first beginnings
MAX_TIMES = 4


@dataclass(frozen=True, slots=True)
class GrantChange:
    """A grant, or a revocation if `is_grant` is false. principal: `user:NAME` or `group:NAME`. validity: that
    of the grant.
    """

    principal: str
    address: Address
    privilege: Privilege
    is_grant: bool = True
    validity: Validity = Validity()


@dataclass(frozen=True, slots=True)
class MembershipChange:
    """A user joins a group, or leaves it if `is_join` is false. user, group: names. validity: that of the
    membership.
    """

    user: str
    group: str
    is_join: bool = True
    validity: Validity = Validity()


@dataclass(frozen=True, slots=True)
class ActivationChange:
    """A user is activated, or deactivated if `is_active` is false. user: a name."""

    user: str
    is_active: bool


@dataclass(frozen=True, slots=True)
class PrincipalChange:
    """An account of the console becomes a principal. user: a name."""

    user: str


@dataclass(frozen=True, slots=True)
class StateChange:
    """An address gets a new state: it is registered, recreated or deleted."""

    address: Address
    state: State


@dataclass(frozen=True, slots=True)
class SubtreeDeletion:
    """A live entity is deleted with all live entities inside it. Only runs evaluate this; see
    `changes_for_run`.

    removes_grants: whether the grants on these entities are removed too.
    """

    address: Address
    removes_grants: bool


@dataclass(frozen=True, slots=True)
class GenerationChange:
    """Another generation becomes active.

    Operations without a rule in one of the two generations are left out.
    """

    generation: Generation


EffectChange = (
    GrantChange
    | MembershipChange
    | ActivationChange
    | PrincipalChange
    | StateChange
    | SubtreeDeletion
    | GenerationChange
)


def changes_of_plan(plan: Plan) -> Iterator[EffectChange]:
    """Yield the change of each item of a plan, in order. Runs one query."""
    for item in plan.items.order_by("position").iterator(chunk_size=ITEMS_PER_READ):
        yield change_of_item(item)


def change_of_item(item: PlanItem) -> EffectChange:
    """Return the change of a plan item."""
    if item.verb in GRANT_VERBS:
        return GrantChange(
            item.principal, item.address, item.privilege, item.verb == PlanVerb.GRANT, _validity_of(item)
        )
    if item.verb in MEMBERSHIP_VERBS:
        return MembershipChange(
            item.principal_name, item.group_name, item.verb == PlanVerb.JOIN, _validity_of(item)
        )
    return ActivationChange(item.principal_name, item.verb == PlanVerb.ACTIVATE)


def _validity_of(item: PlanItem) -> Validity:
    return Validity(item.valid_from, item.valid_until)


def effect_times(changes: Sequence[EffectChange]) -> list[datetime]:
    """Return the time of the question, and each later beginning of a grant or membership that the changes
    add.
    """
    now = question_time()
    later = {
        change.validity.valid_from
        for change in changes
        if _is_addition(change) and change.validity.valid_from
    }
    return [now, *sorted(beginning for beginning in later if beginning > now)]


def next_limit(changes: Iterable[EffectChange], after: datetime) -> datetime | None:
    """Return the first time after `after` at which something that the changes add begins or ends; None if
    there is none.
    """
    limits = (
        limit
        for change in changes
        if isinstance(change, GrantChange | MembershipChange) and _is_addition(change)
        for limit in change.validity
    )
    return min((limit for limit in limits if limit is not None and limit > after), default=None)


def changes_at(changes: Iterable[EffectChange], at: datetime) -> list[EffectChange]:
    """Return the changes as they count at this time.

    An added grant that is not in force at this time counts as a revocation, because its validity replaces
    that of a stored grant. The same applies to memberships. The users become principals immediately.
    """
    result: list[EffectChange] = []
    for change in changes:
        if not _is_not_in_force(change, at):
            result.append(change)
        elif isinstance(change, GrantChange):
            principal_type, name = parse_principal(change.principal)
            result += [
                replace(change, is_grant=False),
                *([PrincipalChange(name)] if principal_type == "user" else []),
            ]
        elif isinstance(change, MembershipChange):
            result += [replace(change, is_join=False), PrincipalChange(change.user)]
    return result


def _is_not_in_force(change: EffectChange, at: datetime) -> bool:
    """Return whether something is added that does not count at this time."""
    return _is_addition(change) and not change.validity.includes(at)


def _is_addition(change: EffectChange) -> bool:
    return (
        isinstance(change, GrantChange)
        and change.is_grant
        or isinstance(change, MembershipChange)
        and change.is_join
    )
