"""Define the changes that can be evaluated, and read the changes of a plan.

Principals are written in full, such as `user:alice`; users and groups of memberships are plain names. A change that has no effect
on the stored data, such as a grant that exists already, is allowed and is ignored.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from entities.address import Address
from entities.models import State
from entities.vocabulary import Privilege
from grants.models import GRANT_VERBS, MEMBERSHIP_VERBS, Plan, PlanItem, PlanVerb

ITEMS_PER_READ = 2_000


@dataclass(frozen=True, slots=True)
class GrantChange:
    """A grant, or a revocation if `is_grant` is false. principal: `user:NAME` or `group:NAME`."""

    principal: str
    address: Address
    privilege: Privilege
    is_grant: bool = True


@dataclass(frozen=True, slots=True)
class MembershipChange:
    """A user joins a group, or leaves it if `is_join` is false. user, group: names."""

    user: str
    group: str
    is_join: bool = True


@dataclass(frozen=True, slots=True)
class ActivationChange:
    """A user is activated, or deactivated if `is_active` is false. user: a name."""

    user: str
    is_active: bool


@dataclass(frozen=True, slots=True)
class StateChange:
    """An address gets a new state: it is registered, recreated or deleted."""

    address: Address
    state: State


EffectChange = GrantChange | MembershipChange | ActivationChange | StateChange


def changes_of_plan(plan: Plan) -> Iterator[EffectChange]:
    """Yield the change of each item of a plan, in order. Runs one query."""
    for item in plan.items.order_by("position").iterator(chunk_size=ITEMS_PER_READ):
        yield change_of_item(item)


def change_of_item(item: PlanItem) -> EffectChange:
    """Return the change of a plan item."""
    if item.verb in GRANT_VERBS:
        return GrantChange(item.principal, item.address, item.privilege, item.verb == PlanVerb.GRANT)
    if item.verb in MEMBERSHIP_VERBS:
        return MembershipChange(item.principal_name, item.group_name, item.verb == PlanVerb.JOIN)
    return ActivationChange(item.principal_name, item.verb == PlanVerb.ACTIVATE)
