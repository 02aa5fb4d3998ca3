"""Create plans that give a user the access of a colleague: memberships and direct grants, all of them or
chosen items.

With removals, the two users have the same groups and direct grants afterwards. Without some namespaces, a group with grants
there is not joined; its other grants become direct ones, so that the user gets all other access of the colleague.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from django.db.models import Q, QuerySet
from django.utils import timezone

from entities.address import Address, parse_address
from entities.frozen import frozen
from grants.change_set import Grant, Join, Leave, Revoke
from grants.errors import PlanError
from grants.models import GroupGrant, RoleGroup, User
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, PlanOrigin, plan_source
from grants.plans.sources.copy import grants_only_of
from grants.plans.sources.recipes import read_period
from grants.policies.principals import group_text
from grants.querysets import memberships
from grants.stored_changes import stored_memberships
from grants.validity import VALIDITY_COLUMNS, Validity, not_over_condition

AccessDifference = Join | Leave | Grant | Revoke


def difference_key(change: AccessDifference) -> str:
    """Return the written form in forms and recipes, such as `join group:analysts` or `grant READ
    dataset:sales.orders`.
    """
    match change:
        case Join(_, group) | Leave(_, group):
            return f"{change.verb} {group_text(group)}"
    return f"{change.verb} {change.privilege} {change.address}"


@frozen
class DifferenceSelection:
    """The differences to make. keys: those of `difference_key`, or None for all. removes: include removals."""

    keys: frozenset[str] | None = None
    removes: bool = False

    def has(self, difference: AccessDifference) -> bool:
        is_removal = isinstance(difference, Leave | Revoke)
        return (self.removes or not is_removal) and (
            self.keys is None or difference_key(difference) in self.keys
        )


def differences(source: User, target: User, without: Collection[Address] = ()) -> Iterator[AccessDifference]:
    """Yield the changes that give the target the memberships and direct grants that only the source has, with
    their periods, and end those that only the target has.

    Expired ones are left out. without: namespaces to leave out: their grants are not given, and of a group that has some,
    the other grants are given instead of a membership. Runs four queries; with namespaces one more, and one for each of
    these groups.
    """
    is_current, name = not_over_condition(timezone.now()), target.username
    replaced = replaced_memberships(source, target, without)
    groups = {join.group for join in replaced}
    for join in stored_memberships(_memberships_only_of(source, target, is_current)):
        if join.group not in groups:
            yield replace(join, user=name)
    for join in stored_memberships(_memberships_only_of(target, source, is_current)):
        yield Leave(name, join.group)
    grants = grants_only_of(str(source), str(target))
    if without:
        grants = iter(_grants_outside(grants, replaced, str(target), without).values())
    for grant in grants:
        yield replace(grant, principal=str(target))
    for grant in grants_only_of(str(target), str(source)):
        yield Revoke(*grant.key)


def replaced_memberships(source: User, target: User, without: Collection[Address]) -> list[Join]:
    """Return the memberships that only the source has, of the groups with grants in one of the namespaces.

    `differences` gives the other grants of these groups directly. Runs one query, none without namespaces.
    """
    if not without:
        return []
    is_current = not_over_condition(timezone.now())
    grants = GroupGrant.objects.filter(is_current, namespace__key__in=[each.key for each in without])
    groups = grants.filter(group__belongings__user=source).values("group")
    of_groups = Q(group__in=groups) | Q(group__in=RoleGroup.objects.filter(role__in=groups).values("group"))
    return list(stored_memberships(_memberships_only_of(source, target, is_current).filter(of_groups)))


def _grants_outside(
    grants: Iterator[Grant], joins: Collection[Join], target: str, without: Collection[Address]
) -> dict[tuple[Address, str], Grant]:
    """Return the grants, and those of the groups within the periods of the memberships, outside the namespaces.

    If a privilege is given in several periods that meet, it is given in all of them, otherwise in the first. Reads at most
    MAX_PLAN_ITEMS + 1 grants.
    """
    found: dict[tuple[Address, str], Grant] = {}

    def add(grant: Grant, period: Validity | None) -> None:
        if period is None or grant.address.namespace in without:
            return
        key = (grant.address, grant.privilege)
        known = found.get(key)
        period = period if known is None else known.validity.union(period)
        found[key] = replace(grant, principal=target, validity=period)

    for grant in grants:
        add(grant, grant.validity)
    for group, period in _with_roles(joins):
        for grant in grants_only_of(group_text(group), target):
            add(grant, grant.validity.within(period))
            if len(found) > MAX_PLAN_ITEMS:
                return found
    return found


def _with_roles(joins: Collection[Join]) -> Iterator[tuple[str, Validity]]:
    """Yield the groups, and the roles that they are in, with the periods of the user in them. Runs one query."""
    periods = {join.group: join.validity for join in joins}
    yield from periods.items()
    rows = RoleGroup.objects.filter(group__name__in=periods).order_by("role__name", "group__name")
    for role, group, *period in rows.values_list("role__name", "group__name", *VALIDITY_COLUMNS):
        if (common := periods[group].within(Validity(*period))) is not None:
            yield role, common


@plan_source(PlanOrigin.LIKE)
def like_plan(
    *,
    source: str,
    target: str,
    remove: bool = False,
    items: Collection[str] | None = None,
    period: Validity | Sequence[str] = (),
    note: str = "",
    without: Collection[str] = (),
) -> PlanDraft:
    """Return a plan that gives the user `target` what the user `source` has.

    remove: also remove what only the target has. items: the `difference_key` of the differences to make; None
    for all. period: see PlanDraft. note: a sentence for the page of the plan. without: the addresses of namespaces to leave
    out; see `differences`. Runs two queries and those of `differences`. Raise PlanError if a user does not exist, or if
    nothing would change.
    """
    users = {name: User.objects.filter(username=name).first() for name in (source, target)}
    if missing := next((name for name, user in users.items() if user is None), None):
        raise PlanError(f"user:{missing} does not exist: add it first, or correct the name")
    if source == target:
        raise PlanError(f"user:{source} is both users: name two different users")
    namespaces = _namespaces(without)
    if remove and namespaces:
        raise PlanError("users cannot be made alike without a namespace: leave out `remove` or `without`")
    from_user, to_user = users[source], users[target]
    assert from_user is not None and to_user is not None
    selection = DifferenceSelection(None if items is None else frozenset(items), remove)
    limit = f" without {', '.join(map(str, namespaces))}" if namespaces else ""
    groups = (
        [group_text(name) for name in from_user.groups.values_list("name", flat=True)] if namespaces else []
    )
    return PlanDraft(
        title=f"{'Make' if remove else 'Give'} user:{target} {'' if remove else 'access '}like user:{source}{limit}",
        watches=[f"user:{source}", f"user:{target}", *groups],
        changes=filter(selection.has, differences(from_user, to_user, namespaces)),
        recipe={
            "source": source,
            "target": target,
            "remove": remove,
            "items": None if items is None else sorted(items),
            "note": note,
            "without": [str(namespace) for namespace in namespaces],
        },
        period=read_period(period),
        empty_message=f"nothing is selected, or user:{target} has all groups and direct grants of user:{source} already",
    )


def _namespaces(addresses: Collection[str]) -> list[Address]:
    """Return the namespaces at these addresses. Raise PlanError if one is not a namespace."""
    namespaces = sorted({parse_address(address) for address in addresses}, key=str)
    if other := next((address for address in namespaces if address.kind != "namespace"), None):
        raise PlanError(f"{other} is not a namespace: name namespaces to leave out")
    return namespaces


def _memberships_only_of(holder: User, other: User, is_current: Q) -> QuerySet:
    current = memberships().filter(is_current)
    return current.filter(user=holder).exclude(group__in=current.filter(user=other).values("group"))
