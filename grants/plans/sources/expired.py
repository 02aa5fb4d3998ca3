"""Create plans that revoke expired grants and remove expired memberships, which already have no effect."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet
from django.utils import timezone

from entities.address import Address, parse_address
from grants.change_set import Leave, Revoke
from grants.journal import Author, current_revision
from grants.models import GRANT_TABLES, NAME_COLUMNS, Membership, Plan, privilege_of
from grants.plans.create import PlanDraft, PlanOrigin, create_plan
from grants.principal_names import parse_principal

ROWS_PER_READ = 2_000
CONTAINERS = ("namespace", "application")


@dataclass(frozen=True, slots=True)
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
        is_listed = condition & self._place()
        tables = {
            type_: model.objects.filter(is_listed, **({NAME_COLUMNS[type_]: name} if kind else {}))
            for type_, (model, _) in GRANT_TABLES.items()
            if kind in ("", type_)
        }
        if self.within is None:
            members = {"user": {"user__username": name}, "group": {"group__name": name}}.get(kind, {})
            tables["member"] = Membership.objects.filter(condition, **members)
        return tables

    def _place(self) -> Q:
        if self.within is None or self.within.kind == "instance":
            return Q()
        is_at = Q(content_object__kind=self.within.kind, content_object__key=self.within.key)
        if self.within.kind not in CONTAINERS:
            return is_at
        return is_at | Q(
            **{f"{self.within.kind}__kind": self.within.kind, f"{self.within.kind}__key": self.within.key}
        )


def create_expired_plan(
    *, author: Author, scope: PeriodScope | None = None, renewal_of: Plan | None = None
) -> Plan:
    """Create a plan that revokes what has expired. Raise PlanError if there is nothing, or too much.

    Runs the statements of `create_plan` and at most three others.
    """
    scope = scope or PeriodScope()
    return create_plan(
        author=author,
        draft=PlanDraft(
            title=f"Revoke expired grants and memberships{scope}",
            origin=PlanOrigin.EXPIRED,
            base_revision=current_revision(),
            changes=_changes(scope, timezone.now()),
            renewal_of=renewal_of,
            recipe={"principal": scope.principal, "within": str(scope.within or "")},
            empty_message=f"there is nothing to revoke: no grant or membership{scope} has expired",
        ),
    )


def renew(author: Author, plan: Plan) -> Plan:
    """Create a plan with what has expired by now in the same scope."""
    within = plan.recipe["within"]
    scope = PeriodScope(plan.recipe["principal"], parse_address(within) if within else None)
    return create_expired_plan(author=author, scope=scope, renewal_of=plan)


def _changes(scope: PeriodScope, now: datetime) -> Iterator[Revoke | Leave]:
    for type_, rows in scope.rows(Q(valid_until__lte=now)).items():
        if type_ == "member":
            columns: tuple[str, ...] = ("user__username", "group__name")
            for user, group in (
                rows.order_by(*columns).values_list(*columns).iterator(chunk_size=ROWS_PER_READ)
            ):
                yield Leave(user, group)
            continue
        columns = (NAME_COLUMNS[type_], "content_object__kind", "content_object__key", "permission_id")
        for name, kind, key, permission in (
            rows.order_by(*columns).values_list(*columns).iterator(chunk_size=ROWS_PER_READ)
        ):
            yield Revoke(f"{type_}:{name}", Address(kind, key), privilege_of(permission))
