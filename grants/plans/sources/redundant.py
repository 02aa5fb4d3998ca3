"""Create plans that revoke direct grants that a group gives too. They change no answer, now or later."""

from django.db.models import Exists, OuterRef, Q

from entities.address import Address
from entities.models import State
from grants.change_set import Revoke
from grants.models import GRANT_SOURCES, PRINCIPAL_TYPES, GrantQuerySet
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.plans.sources.ghosts import namespace_condition
from grants.plans.sources.recipes import read_address
from grants.stored_changes import ENTITY_COLUMNS


@plan_source(PlanOrigin.REDUNDANT)
def redundant_plan(*, namespace: Address | str | None = None) -> PlanDraft:
    """Return a plan that revokes the redundant direct grants of active users on live entities, or only those on and
    inside `namespace`.

    The plan becomes stale with a change to one of its entities, users or memberships, such as a revocation from the
    group. Raise PlanError if there is nothing to revoke.
    """
    namespace = read_address(namespace)
    grants = redundant_grants(**namespace_condition(namespace))
    where = f" in {namespace}" if namespace else ""
    return PlanDraft(
        title=f"Revoke direct grants that groups give too{where}",
        changes=(
            Revoke(*key)
            for key in grants.order_by(*ENTITY_COLUMNS, "user__username", "permission_id").grant_keys()
        ),
        recipe={"namespace": str(namespace or "")},
        empty_message=f"there is nothing to revoke: no direct grant{where} is redundant",
    )


def redundant_grants(**where) -> GrantQuerySet:
    """Return the direct grants of active users on live entities that a group of the user gives too, for the whole
    remaining period of the grant.
    """
    given_too = Q()
    for source in GRANT_SOURCES["user"]:
        if source.membership:
            # in one call, because all conditions are about the same membership
            given_too |= Exists(
                source.holder.grants.filter(
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


def _ends_no_sooner(path: str = "") -> Q:
    """Return the condition that a period does not end before that of the outer row."""
    return Q(**{f"{path}valid_until__isnull": True}) | Q(
        **{f"{path}valid_until__gte": OuterRef("valid_until")}
    )
