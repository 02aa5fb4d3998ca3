"""Create plans that revoke grants that nobody used for some time."""

from datetime import date, timedelta

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from entities.address import Address
from entities.models import State
from entities.vocabulary import quantity
from grants.change_set import Revoke
from grants.errors import PlanError
from grants.models import PRINCIPAL_TYPES, GrantQuerySet
from grants.models.reviews import UsageDay
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.plans.sources.ghosts import namespace_condition
from grants.plans.sources.recipes import read_address
from grants.querysets import effective_memberships
from grants.stored_changes import ENTITY_COLUMNS
from grants.usage import first_day_of_use
from grants.validity import in_force


@plan_source(PlanOrigin.UNUSED)
def unused_plan(*, since: int, namespace: Address | str | None = None) -> PlanDraft:
    """Return a plan that revokes the grants that nobody used in the last `since` days, or only those on and inside
    `namespace`; see `unused_grants`.

    Raise PlanError if there is nothing to revoke, or if the records of use do not cover the window.
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
    return PlanDraft(
        title=f"Revoke grants without a use since {window_since}{where}",
        changes=(
            Revoke(*key)
            for grants in unused_grants(window_since, **condition)
            for key in grants.order_by(
                *ENTITY_COLUMNS, grants.principal_type.name_path, "permission_id"
            ).grant_keys()
        ),
        recipe={"namespace": str(namespace or ""), "since": since},
        empty_message=f"there is nothing to revoke: every grant{where} was used since {window_since}, or is newer",
    )


def unused_grants(since: date, **where) -> list[GrantQuerySet]:
    """Return the grants of active users and of groups with active members, on live entities, that are in force and older
    than `since`, and that no holder used since then: one queryset for each type of principal.

    A use of anything inside a container counts as a use of the container, because rules also ask for privileges on
    containers. Grants on the instance are kept for the same reason.
    """
    user, group = PRINCIPAL_TYPES["user"], PRINCIPAL_TYPES["group"]
    uses = UsageDay.objects.filter(
        Q(entity=OuterRef("content_object"))
        | Q(entity__namespace=OuterRef("content_object"))
        | Q(entity__application=OuterRef("content_object")),
        day__gte=since,
    )
    members = effective_memberships().filter(group=OuterRef("group"))
    of_members = {"user__memberships__group": OuterRef("group"), **in_force("user__memberships__")}
    older = {"content_object__state": State.LIVE, "granted_at__date__lt": since, **where}
    return [
        user.grants.filter(user.is_effective, ~Exists(uses.filter(user=OuterRef("user"))), **older).exclude(
            content_object__kind="instance"
        ),
        group.grants.filter(
            group.is_effective, Exists(members), ~Exists(uses.filter(**of_members)), **older
        ).exclude(content_object__kind="instance"),
    ]
