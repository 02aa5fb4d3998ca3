"""Create plans that give a user the access of a colleague: memberships and direct grants, all of them or
chosen items.

With removals, the two users have the same groups and direct grants afterwards.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from entities.address import Address
from entities.vocabulary import Privilege
from grants.change_set import Grant, Join, Leave, Revoke
from grants.errors import PlanError
from grants.journal import Author, current_revision
from grants.models import Plan, User, UserGrant, privilege_of
from grants.plans.create import PlanDraft, PlanOrigin, create_plan
from grants.plans.periods import not_over_condition
from grants.querysets import memberships
from grants.validity import VALIDITY_COLUMNS, Validity

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
    for group, *period in _memberships_only_of(source, target, is_current):
        yield Join(name, group, Validity(*period))
    for group, *_ in _memberships_only_of(target, source, is_current):
        yield Leave(name, group)
    for address, privilege, validity in _grants_only_of(source, target, is_current):
        yield Grant(str(target), address, privilege, validity)
    for address, privilege, _ in _grants_only_of(target, source, is_current):
        yield Revoke(str(target), address, privilege)


def create_like_plan(
    *,
    author: Author,
    source: str,
    target: str,
    selection: DifferenceSelection,
    renewal_of: Plan | None = None,
) -> Plan:
    """Create a plan that gives the user `target` what the user `source` has.

    Runs the statements of `create_plan`, and six others.
    Raise PlanError if a user does not exist, or if nothing would change.
    """
    revision = current_revision()
    users = {name: User.objects.filter(username=name).first() for name in (source, target)}
    if missing := next((name for name, user in users.items() if user is None), None):
        raise PlanError(f"user:{missing} does not exist: add it first, or correct the name")
    if source == target:
        raise PlanError(f"user:{source} is both users: name two different users")
    from_user, to_user = users[source], users[target]
    assert from_user is not None and to_user is not None
    changes = filter(selection.has, differences(from_user, to_user))
    verb = f"Make user:{target} like" if selection.removes else f"Give user:{target} access like"
    return create_plan(
        author=author,
        draft=PlanDraft(
            title=f"{verb} user:{source}",
            origin=PlanOrigin.LIKE,
            base_revision=revision,
            watches=[f"user:{source}", f"user:{target}"],
            changes=changes,
            renewal_of=renewal_of,
            recipe={
                "source": source,
                "target": target,
                "remove": selection.removes,
                "items": None if selection.keys is None else sorted(selection.keys),
            },
            empty_message=f"nothing is selected, or user:{target} has all groups and direct grants of user:{source} already",
        ),
    )


def renew(author: Author, plan: Plan) -> Plan:
    """Create the plan again with the same items, as far as the users still differ in them."""
    recipe = plan.recipe
    keys = None if recipe["items"] is None else frozenset(recipe["items"])
    return create_like_plan(
        author=author,
        source=recipe["source"],
        target=recipe["target"],
        selection=DifferenceSelection(keys, recipe["remove"]),
        renewal_of=plan,
    )


def _memberships_only_of(holder: User, other: User, is_current: Q) -> QuerySet:
    current = memberships().filter(is_current)
    rows = current.filter(user=holder).exclude(group__in=current.filter(user=other).values("group"))
    return rows.order_by("group__name").values_list("group__name", *VALIDITY_COLUMNS)


def _grants_only_of(
    holder: User, other: User, is_current: Q
) -> Iterator[tuple[Address, Privilege, Validity]]:
    same = UserGrant.objects.filter(
        is_current,
        user=other,
        content_object_id=OuterRef("content_object_id"),
        permission_id=OuterRef("permission_id"),
    )
    rows = UserGrant.objects.filter(is_current, ~Exists(same), user=holder)
    columns = ("content_object__kind", "content_object__key", "permission_id")
    for kind, key, permission, *period in (
        rows.order_by(*columns).values_list(*columns, *VALIDITY_COLUMNS).iterator()
    ):
        yield Address(kind, key), privilege_of(permission), Validity(*period)
