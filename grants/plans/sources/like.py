"""Create plans that give a user the access of a colleague: memberships and direct grants, all of them or
chosen items.

With removals, the two users have the same groups and direct grants afterwards.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from django.db.models import Q, QuerySet
from django.utils import timezone

from grants.change_set import Grant, Join, Leave, Revoke
from grants.errors import PlanError
from grants.models import User
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.plans.sources.copy import grants_only_of
from grants.plans.sources.recipes import read_period
from grants.querysets import memberships
from grants.stored_changes import stored_memberships
from grants.validity import Validity, not_over_condition

AccessDifference = Join | Leave | Grant | Revoke


def difference_key(change: AccessDifference) -> str:
    """Return the written form in forms and recipes, such as `join group:analysts` or `grant READ
    dataset:sales.orders`.
    """
    match change:
        case Join(_, group) | Leave(_, group):
            return f"{change.verb} group:{group}"
    return f"{change.verb} {change.privilege} {change.address}"


@dataclass(frozen=True, slots=True)
class DifferenceSelection:
    """The differences to make. keys: those of `difference_key`, or None for all. removes: include removals."""

    keys: frozenset[str] | None = None
    removes: bool = False

    def has(self, difference: AccessDifference) -> bool:
        is_removal = isinstance(difference, Leave | Revoke)
        return (self.removes or not is_removal) and (
            self.keys is None or difference_key(difference) in self.keys
        )


def differences(source: User, target: User) -> Iterator[AccessDifference]:
    """Yield the changes that give the target the memberships and direct grants that only the source has, with
    their periods, and end those that only the target has.

    Expired ones are left out. Runs four queries.
    """
    is_current, name = not_over_condition(timezone.now()), target.username
    for join in stored_memberships(_memberships_only_of(source, target, is_current)):
        yield replace(join, user=name)
    for join in stored_memberships(_memberships_only_of(target, source, is_current)):
        yield Leave(name, join.group)
    for grant in grants_only_of(str(source), str(target)):
        yield replace(grant, principal=str(target))
    for grant in grants_only_of(str(target), str(source)):
        yield Revoke(*grant.key)


@plan_source(PlanOrigin.LIKE)
def like_plan(
    *,
    source: str,
    target: str,
    remove: bool = False,
    items: Collection[str] | None = None,
    period: Validity | Sequence[str] = (),
    note: str = "",
) -> PlanDraft:
    """Return a plan that gives the user `target` what the user `source` has.

    remove: also remove what only the target has. items: the `difference_key` of the differences to make; None
    for all. period: see PlanDraft. note: a sentence for the page of the plan. Runs six queries. Raise PlanError if a user does not exist, or if nothing would change.
    """
    users = {name: User.objects.filter(username=name).first() for name in (source, target)}
    if missing := next((name for name, user in users.items() if user is None), None):
        raise PlanError(f"user:{missing} does not exist: add it first, or correct the name")
    if source == target:
        raise PlanError(f"user:{source} is both users: name two different users")
    from_user, to_user = users[source], users[target]
    assert from_user is not None and to_user is not None
    selection = DifferenceSelection(None if items is None else frozenset(items), remove)
    return PlanDraft(
        title=f"{'Make' if remove else 'Give'} user:{target} {'' if remove else 'access '}like user:{source}",
        watches=[f"user:{source}", f"user:{target}"],
        changes=filter(selection.has, differences(from_user, to_user)),
        recipe={
            "source": source,
            "target": target,
            "remove": remove,
            "items": None if items is None else sorted(items),
            "note": note,
        },
        period=read_period(period),
        empty_message=f"nothing is selected, or user:{target} has all groups and direct grants of user:{source} already",
    )


def _memberships_only_of(holder: User, other: User, is_current: Q) -> QuerySet:
    current = memberships().filter(is_current)
    return current.filter(user=holder).exclude(group__in=current.filter(user=other).values("group"))
