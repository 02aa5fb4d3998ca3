"""Create plans that give a user the access of a colleague: memberships and direct grants, all of them or
chosen items.

With removals, the two users have the same groups and direct grants afterwards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from entities.address import Address
from entities.vocabulary import Privilege
from grants.errors import PlanError
from grants.journal import Author, current_revision
from grants.models import Plan, PlanVerb, User, UserGrant, privilege_of
from grants.plans.create import PlanChange, PlanDraft, PlanOrigin, create_plan
from grants.plans.periods import not_over_condition
from grants.querysets import memberships
from grants.validity import VALIDITY_COLUMNS, Validity


class AccessDifference(NamedTuple):
    """A change that makes the access of the target more like that of the colleague. group: written
    `group:NAME`, for memberships only.

    validity: the period that the colleague has.
    """

    verb: PlanVerb
    group: str = ""
    address: Address | None = None
    privilege: Privilege | None = None
    validity: Validity = Validity()

    @property
    def key(self) -> str:
        """The written form in forms and recipes, such as `join group:analysts` or `grant READ
        dataset:sales.orders`.
        """
        return " ".join(filter(None, (self.verb.value, self.group, self.privilege, str(self.address or ""))))


@dataclass(frozen=True, slots=True)
class DifferenceSelection:
    """The differences to make. keys: those of `AccessDifference.key`, or None for all. removes: include
    removals.
    """

    keys: frozenset[str] | None = None
    removes: bool = False

    def has(self, difference: AccessDifference) -> bool:
        is_removal = difference.verb in (PlanVerb.LEAVE, PlanVerb.REVOKE)
        return (self.removes or not is_removal) and (self.keys is None or difference.key in self.keys)


def differences(source: User, target: User) -> Iterator[AccessDifference]:
    """Yield the memberships and direct grants that only one of the users has: first what the target lacks.

    Expired ones are left out. Runs four queries.
    """
    is_current = not_over_condition(timezone.now())
    for verb, holder, other in ((PlanVerb.JOIN, source, target), (PlanVerb.LEAVE, target, source)):
        current = memberships().filter(is_current)
        rows = (
            current.filter(user=holder)
            .exclude(group__in=current.filter(user=other).values("group"))
            .order_by("group__name")
        )
        for name, *period in rows.values_list("group__name", *VALIDITY_COLUMNS):
            yield AccessDifference(verb, group=f"group:{name}", validity=_period_to_give(verb, period))
    for verb, holder, other in ((PlanVerb.GRANT, source, target), (PlanVerb.REVOKE, target, source)):
        columns = ("content_object__kind", "content_object__key", "permission_id")
        rows = (
            _grants_only_of(holder, other, is_current)
            .order_by(*columns)
            .values_list(*columns, *VALIDITY_COLUMNS)
        )
        for kind, key, permission, *period in rows.iterator():
            yield AccessDifference(
                verb,
                address=Address(kind, key),
                privilege=privilege_of(permission),
                validity=_period_to_give(verb, period),
            )


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
    changes = (
        _change(difference, f"user:{target}")
        for difference in differences(from_user, to_user)
        if selection.has(difference)
    )
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


def _change(difference: AccessDifference, target: str) -> PlanChange:
    if difference.group:
        return difference.verb.value, target, difference.group, None, difference.validity
    return difference.verb.value, target, difference.address, difference.privilege, difference.validity


def _period_to_give(verb: PlanVerb, period: Sequence) -> Validity:
    """Return the period of a new grant or membership; no limits for a removal."""
    return Validity(*period) if verb in (PlanVerb.GRANT, PlanVerb.JOIN) else Validity()


def _grants_only_of(holder: User, other: User, is_current: Q) -> QuerySet[UserGrant]:
    same = UserGrant.objects.filter(
        is_current,
        user=other,
        content_object_id=OuterRef("content_object_id"),
        permission_id=OuterRef("permission_id"),
    )
    return UserGrant.objects.filter(is_current, ~Exists(same), user=holder)
