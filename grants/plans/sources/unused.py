"""Create plans that revoke grants that nobody used for some time."""

from datetime import date, timedelta
from itertools import chain

from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Subquery, When
from django.utils import timezone

from entities.address import Address
from entities.frozen import frozen
from entities.models import State
from entities.vocabulary import quantity
from grants.change_set import Leave
from grants.errors import PlanError
from grants.models import PRINCIPAL_TYPES, GrantQuerySet, JournalLine, PlanItem, User
from grants.models.reviews import UsageDay
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.plans.sources.ghosts import namespace_condition
from grants.plans.sources.recipes import read_address
from grants.plans.sources.redundant import has_other_purpose
from grants.policies.principals import group_text
from grants.principals.services import user_by_name
from grants.querysets import (
    active_principal_condition,
    effective_memberships,
    memberships,
    principal_expression,
)
from grants.stored_changes import revocations_of
from grants.usage import first_day_of_use
from grants.validity import in_force


@plan_source(PlanOrigin.UNUSED)
def unused_plan(*, since: int, namespace: Address | str | None = None, user: str = "") -> PlanDraft:
    """Return a plan that revokes the grants that nobody used in the last `since` days, or only those on and inside
    `namespace`; see `unused_grants`.

    user: only what the user of this name holds: direct grants and, without a namespace, memberships; see `UnusedAccess`.
    Raise PlanError if there is nothing to revoke, or if the records of use do not cover the window, and PrincipalError for
    an unknown user.
    """
    namespace = read_address(namespace)
    condition = namespace_condition(namespace)
    today, first_day = timezone.now().date(), first_day_of_use()
    if first_day is None:
        raise PlanError(
            "no use is recorded, so nothing is known to be unused: import uses with manage.py import_usage"
        )
    if not 1 <= since <= (today - first_day).days:
        raise PlanError(
            f"uses are recorded only since {first_day}, so nothing is known to be unused for "
            f"{quantity(since, 'day', 'days')}"
        )
    window_since = today - timedelta(days=since)
    where = f" in {namespace}" if namespace else ""
    recipe = {"namespace": str(namespace or ""), "since": since}
    if user:
        access = UnusedAccess(user_by_name(user), window_since)
        groups = [] if namespace else list(access.memberships().values_list("group__name", flat=True))
        return PlanDraft(
            title=f"Revoke what user:{user} has not used since {window_since}{where}",
            changes=(
                *revocations_of(access.grants().filter(**condition)),
                *(Leave(user, group) for group in groups),
            ),
            recipe=recipe | {"user": user},
            watches=[group_text(group) for group in groups],
            empty_message=f"there is nothing to revoke: user:{user} has used everything{where} since {window_since}, or has "
            "it for a shorter time",
        )
    return PlanDraft(
        title=f"Revoke grants without a use since {window_since}{where}",
        changes=chain.from_iterable(map(revocations_of, unused_grants(window_since, **condition))),
        recipe=recipe,
        empty_message=f"there is nothing to revoke: every grant{where} was used since {window_since}, or is newer",
    )


@frozen
class UnusedAccess:
    """What a user has held for longer than since a day, and has not used since then, as in `unused_grants`. Access to the instance
    remains.
    """

    user: User
    since: date

    def exists(self) -> bool:
        """Return whether there is something to revoke. Runs at most two queries."""
        return self.grants().exists() or self.memberships().exists()

    def grants(self) -> GrantQuerySet:
        """Return the direct grants."""
        return _grants_without_use("user", self._uses, self.since, user=self.user)

    def memberships(self) -> QuerySet:
        """Return the memberships without an end in groups of which the user used nothing. Memberships in groups that have
        another purpose remain.
        """
        given = PRINCIPAL_TYPES["group"].held_grants.filter(
            content_object__state=State.LIVE, group=OuterRef("group")
        )
        joined = JournalLine.objects.filter(
            action="member-add",
            principal=f"user:{self.user.username}",
            detail=principal_expression("group", OuterRef("group__name")),
        ).order_by("-revision")
        return (
            memberships()
            .filter(active_principal_condition("user__"), **in_force())
            .alias(joined=Subquery(joined.values("at")[:1]))
            .filter(
                Exists(given),
                ~Exists(given.filter(_use_condition(self._uses) | Q(content_object__kind="instance"))),
                user=self.user,
                valid_until__isnull=True,
                joined__date__lt=self.since,
            )
            .exclude(has_other_purpose())
        )

    @property
    def _uses(self) -> QuerySet:
        return UsageDay.objects.filter(user=self.user, day__gte=self.since)


def unused_grants(since: date, **where) -> list[GrantQuerySet]:
    """Return the grants of active users and of groups with active members, on live entities, that are in force and older
    than `since`, and that no holder used since then: one queryset for each type of principal.

    A use of anything inside a container counts as a use of the container, because rules also ask for privileges on
    containers. Grants on the instance are kept for the same reason.
    """
    uses = UsageDay.objects.filter(day__gte=since)
    of_members = {"user__belongings__group": OuterRef("group"), **in_force("user__belongings__")}
    has_members = Exists(effective_memberships().filter(group=OuterRef("group")))
    return [
        _grants_without_use("user", uses.filter(user=OuterRef("user")), since, **where),
        _grants_without_use("group", uses.filter(**of_members), since, **where).filter(has_members),
    ]


def with_last_use(items: QuerySet[PlanItem]) -> QuerySet[PlanItem]:
    """Add `last_use` to items that revoke grants: the last recorded day on which a holder used the entity or anything inside
    it, or None.
    """
    inside = Q()
    for path in ("entity__", "entity__namespace__", "entity__application__"):
        inside |= Q(**{f"{path}kind": OuterRef("kind"), f"{path}key": OuterRef("key")})
    name = OuterRef("principal_name")
    of_members = {"user__memberships__group__name": name, **in_force("user__memberships__")}
    uses = UsageDay.objects.filter(inside).order_by("-day").values("day")
    return items.annotate(
        last_use=Case(
            When(principal_type="user", then=Subquery(uses.filter(user__username=name)[:1])),
            default=Subquery(uses.filter(**of_members)[:1]),
        )
    )


def _grants_without_use(principal_type: str, uses: QuerySet, since: date, **where) -> GrantQuerySet:
    """Return the grants of a type of principal as `unused_grants` does. uses: those of the holders since then."""
    row = PRINCIPAL_TYPES[principal_type]
    return row.grants.filter(
        row.is_effective,
        ~_use_condition(uses),
        content_object__state=State.LIVE,
        granted_at__date__lt=since,
        **where,
    ).exclude(content_object__kind="instance")


def _use_condition(uses: QuerySet) -> Q:
    """Return the condition on grants that one of the uses is of their entity or of anything inside it. The three places are
    separate conditions, so that the database can read the uses once.
    """
    return (
        Q(Exists(uses.filter(entity=OuterRef("content_object"))))
        | Q(Exists(uses.filter(entity__namespace=OuterRef("content_object"))))
        | Q(Exists(uses.filter(entity__application=OuterRef("content_object"))))
    )
