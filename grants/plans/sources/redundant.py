"""Create plans that take away redundant access: direct grants that a group gives too, memberships without effect, and
what inactive users have. They change no answer, now or later, each alone and together.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum

from django.contrib.auth.models import Group
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Coalesce

from entities.address import Address
from entities.models import State
from grants.change_set import Change, Leave
from grants.errors import PlanError
from grants.models import GRANT_SOURCES, PRINCIPAL_TYPES, GrantQuerySet, GroupGrant
from grants.models.requests import NamespaceApprovers
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.plans.sources.ghosts import namespace_condition
from grants.plans.sources.recipes import read_address
from grants.policies.principals import group_text
from grants.querysets import (
    active_principal_condition,
    effective_memberships,
    memberships,
    memberships_of_principals,
    principal_condition,
)
from grants.stored_changes import revocations_of
from grants.validity import in_force, not_over_condition, question_time

MAX_WATCHED_GROUPS = 10_000
# later than the end of every period
_NEVER = Value(datetime(9999, 12, 31, tzinfo=UTC))


class RedundantPart(StrEnum):
    """What a plan takes away."""

    GRANTS = "grants"
    MEMBERSHIPS = "memberships"
    INACTIVE = "inactive"
    ALL = "all"


_TITLES = {
    RedundantPart.GRANTS: ("Revoke direct grants that groups give too", "no direct grant{} is redundant"),
    RedundantPart.MEMBERSHIPS: ("End memberships without effect", "every membership{} has an effect"),
    RedundantPart.INACTIVE: (
        "Revoke the grants and end the memberships of inactive users",
        "inactive users have nothing{}",
    ),
    RedundantPart.ALL: ("Take away redundant access", "nothing{} is redundant"),
}


@plan_source(PlanOrigin.REDUNDANT)
def redundant_plan(*, namespace: Address | str | None = None, part: str = RedundantPart.GRANTS) -> PlanDraft:
    """Return a plan that takes away one part of the redundant access, or all of it. See `redundant_grants` and
    `redundant_memberships`; of inactive users, it revokes all direct grants and ends all memberships.

    namespace: take away only grants on and inside it, and no memberships. part: a `RedundantPart`.
    The plan becomes stale with a change to one of its entities, users or memberships, such as a revocation from the
    group; if it ends memberships of active users, also with a grant to or a revocation from any of their groups.
    Raise PlanError if there is nothing to take away, or for another part.
    """
    namespace = read_address(namespace)
    where = namespace_condition(namespace)
    if part not in list(RedundantPart):
        raise PlanError(f"`part` must be one of {', '.join(RedundantPart)}")
    chosen = RedundantPart(part)
    if chosen == RedundantPart.MEMBERSHIPS and namespace:
        raise PlanError(
            "a membership belongs to no namespace: leave the namespace out, or choose another part"
        )
    place = f" in {namespace}" if namespace else ""
    title, nothing = _TITLES[chosen]
    ends_memberships = chosen in (RedundantPart.MEMBERSHIPS, RedundantPart.ALL) and not namespace
    return PlanDraft(
        title=f"{title}{place}",
        changes=_changes(chosen, where),
        recipe={"namespace": str(namespace or ""), "part": str(chosen)},
        watches=_groups_of_leaving_users() if ends_memberships else (),
        empty_message=f"there is nothing to {'revoke' if chosen == RedundantPart.GRANTS else 'take away'}: "
        f"{nothing.format(place)}",
    )


def _changes(part: RedundantPart, where: dict[str, str]) -> Iterator[Change]:
    """Yield the changes. where: limits the grants; memberships are left out if it is not empty."""
    grants: list[GrantQuerySet] = []
    ended: list[QuerySet] = []
    if part in (RedundantPart.GRANTS, RedundantPart.ALL):
        grants.append(redundant_grants(**where))
    if part in (RedundantPart.MEMBERSHIPS, RedundantPart.ALL):
        ended.append(redundant_memberships())
    if part in (RedundantPart.INACTIVE, RedundantPart.ALL):
        of_inactive = {"user__is_active": False}
        grants.append(
            PRINCIPAL_TYPES["user"].grants.filter(principal_condition("user__"), **of_inactive, **where)
        )
        ended.append(memberships_of_principals().filter(**of_inactive))
    for rows in grants:
        yield from revocations_of(rows)
    for rows in ended if not where else ():
        names = rows.order_by("user__username", "group__name").values_list("user__username", "group__name")
        for user, group in names.iterator():
            yield Leave(user, group)


def _groups_of_leaving_users() -> list[str]:
    """Return the groups of all users with a redundant membership, in written form. Raise PlanError if there are too
    many.
    """
    users = redundant_memberships().values("user")
    groups = Group.objects.filter(memberships__user__in=users).order_by("name").distinct()
    names = list(groups.values_list("name", flat=True)[: MAX_WATCHED_GROUPS + 1])
    if len(names) > MAX_WATCHED_GROUPS:
        raise PlanError(
            f"the plan would depend on more than {MAX_WATCHED_GROUPS:,} groups: end memberships on the page of each group"
        )
    return [group_text(name) for name in names]


def redundant_grants(**where) -> GrantQuerySet:
    """Return the direct grants of active users on live entities that a group of the user gives too, for the whole
    remaining period of the grant.
    """
    given_too = Q()
    for source in GRANT_SOURCES["user"]:
        if source.membership:
            # in one call, because all conditions are about the same membership
            given_too |= Exists(
                source.holder.held_grants.filter(
                    _ends_no_sooner(),
                    _ends_no_sooner(source.membership),
                    content_object=OuterRef("content_object"),
                    permission=OuterRef("permission"),
                    **{source.subject: OuterRef("user")},
                    **source.in_force(),
                )
            )
    user = PRINCIPAL_TYPES["user"]
    return user.grants.filter(given_too, user.is_effective, content_object__state=State.LIVE, **where)


def redundant_memberships() -> QuerySet:
    """Return the memberships of active users that are in force, and through which the user gets nothing, now or later,
    that one other group of the user does not give for at least as long.

    If several groups give the same, the membership that ends last remains; of several that end last, that in the
    first group by name. Grants on addresses in any state count. Memberships in groups that have another purpose
    remain: groups that are stewards or approvers, or that a guardrail or an exception names. Memberships in roles with
    groups, and in these groups, remain too: the one follows from the other.
    """
    own, other = OuterRef(OuterRef("group")), OuterRef("group")
    # the order of the memberships that give the same
    is_preferred = Q(end__gt=F("own_end")) | Q(group__name__lt=OuterRef("group__name"))
    others = (
        effective_memberships()
        .filter(_ends_no_sooner(), user=OuterRef("user"))
        .exclude(group=OuterRef("group"))
        .alias(end=Coalesce("valid_until", _NEVER), own_end=Coalesce(OuterRef("valid_until"), _NEVER))
        .filter(
            _gives_all(own, of=OuterRef(OuterRef("group"))),
            ~_gives_all(other, of=OuterRef(OuterRef(OuterRef("group")))) | is_preferred,
        )
    )
    gives_nothing = ~Exists(_grants_not_over().filter(group=OuterRef("group")))
    own_memberships = memberships().filter(active_principal_condition("user__"), **in_force())
    is_role = Q(group__role_groups__isnull=False)
    return own_memberships.filter(gives_nothing | Exists(others)).exclude(has_other_purpose() | is_role)


def has_other_purpose(group: str = "group__") -> Q:
    """Return the condition on memberships that their group has a duty or is in a role. group: as for `has_duty`."""
    return has_duty(group) | Q((f"{group}roles__isnull", False))


def has_duty(group: str) -> Q:
    """Return the condition that a group is a steward or approver, or that a guardrail or an exception names it.

    group: the path to the group; empty for groups themselves.
    """
    return (
        Q((f"{group}stewardships__isnull", False))
        | Q((f"{group}guardrails__isnull", False))
        | Q((f"{group}guardrail_exceptions__isnull", False))
        | Q((f"{group}pk__in", NamespaceApprovers.objects.values("group")))
    )


def _grants_not_over() -> GrantQuerySet:
    return GroupGrant.held.filter(not_over_condition(question_time()))


def _gives_all(group: OuterRef, *, of: OuterRef) -> Q:
    """Return the condition that the group `of` gives everything that `group` gives, from now or from the same time on,
    and for as long. group: seen from the grants of `group`. of: seen from those of `of`, one level deeper.
    """
    same = GroupGrant.held.filter(
        _ends_no_sooner(),
        Q(valid_from__isnull=True)
        | Q(valid_from__lte=question_time())
        | Q(valid_from__lte=OuterRef("valid_from")),
        group=of,
        content_object=OuterRef("content_object"),
        permission=OuterRef("permission"),
    )
    return ~Q(Exists(_grants_not_over().filter(~Exists(same), group=group)))


def _ends_no_sooner(path: str = "") -> Q:
    """Return the condition that a period does not end before that of the outer row."""
    return Q(**{f"{path}valid_until__isnull": True}) | Q(
        **{f"{path}valid_until__gte": OuterRef("valid_until")}
    )
