"""Create plans that revoke expired grants and remove expired memberships, which already have no effect."""

from collections.abc import Iterator

from django.db.models import Q, QuerySet
from django.utils import timezone

from entities.address import Address
from entities.frozen import frozen
from grants.change_set import Leave, Revoke, ending_of
from grants.models import PRINCIPAL_TYPES, Membership
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.plans.sources.recipes import read_address
from grants.principal_names import parse_principal
from grants.querysets import on_and_inside
from grants.stored_changes import stored_grants, stored_memberships


@frozen
class PeriodScope:
    """A part of all grants and memberships.

    principal: only grants and memberships of this user or group. within: only grants on this address, and
    inside it if it is a namespace or an application; no memberships.
    """

    principal: str = ""
    within: Address | None = None

    def __str__(self) -> str:
        return "".join(
            f" {word} {part}" for word, part in (("of", self.principal), ("on", self.within)) if part
        )

    def rows(self, condition: Q) -> dict[str, QuerySet]:
        """Return the matching grants of users and of groups, and the memberships, by `user`, `group` and
        `member`.
        """
        kind, name = parse_principal(self.principal) if self.principal else ("", "")
        is_listed = condition & Q(**on_and_inside(self.within) if self.within else {})
        tables = {
            type_: (row.grants_to(name) if kind else row.grants).filter(is_listed)
            for type_, row in PRINCIPAL_TYPES.items()
            if kind in ("", type_)
        }
        if self.within is None:
            members = {"user": {"user__username": name}, "group": {"group__name": name}}.get(kind, {})
            tables["member"] = Membership.objects.filter(condition, **members)
        return tables


@plan_source(PlanOrigin.EXPIRED)
def expired_plan(*, principal: str = "", within: Address | str | None = None) -> PlanDraft:
    """Return a plan that revokes what has expired in a PeriodScope. Raise PlanError if there is nothing, or
    too much.
    """
    scope = PeriodScope(principal, read_address(within))
    return PlanDraft(
        title=f"Revoke expired grants and memberships{scope}",
        changes=_endings(scope),
        recipe={"principal": principal, "within": str(scope.within or "")},
        empty_message=f"there is nothing to revoke: no grant or membership{scope} has expired",
    )


def _endings(scope: PeriodScope) -> Iterator[Revoke | Leave]:
    """Yield the changes that end what has expired. Runs at most three queries."""
    for type_, rows in scope.rows(Q(valid_until__lte=timezone.now())).items():
        yield from map(ending_of, stored_memberships(rows) if type_ == "member" else stored_grants(rows))
