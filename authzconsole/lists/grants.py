"""The list of grants."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

from django.db.models import QuerySet

from authzconsole.common import output
from authzconsole.common.fields import (
    AddressText,
    Choice,
    GrantableText,
    NameText,
    PrincipalText,
    QueryBoolean,
    QuerySerializer,
)
from authzconsole.common.periods import VALID_FROM, VALID_UNTIL, period_condition_of, period_filter
from authzconsole.lists.base import List
from entities.models import State
from entities.vocabulary import Privilege
from grants.authority.rights import can_see_holders
from grants.journal_queries import custom_query_plan
from grants.models import GroupGrant, User, UserGrant, permission_ids
from grants.policies.principals import group_text
from grants.principal_names import parse_principal
from grants.querysets import groups_of, memberships_in_force, on_and_inside

PRIVILEGES = list(map(str, Privilege))


def _principal(grant: UserGrant | GroupGrant) -> str:
    return str(grant.user) if isinstance(grant, UserGrant) else group_text(grant.group.name)


class GrantSerializer(output.Output):
    """One privilege of one principal on one address."""

    principal = output.Text(get=_principal, help_text="`user:NAME` or `group:NAME`.")
    entity = output.Text(source="content_object")
    state = output.Text(
        source="content_object.state",
        example="live",
        help_text="The state of the entity: planned, live or deleted; `pattern` for a pattern.",
    )
    privilege = output.Choice(PRIVILEGES)
    granted_by = output.Text(
        source="granted_by.username",
        allow_null=True,
        example="admin",
        help_text="The name of the account; null if a command granted it.",
    )
    granted_at = output.Time()
    valid_from, valid_until = VALID_FROM, VALID_UNTIL
    reason = output.Text()


class GrantFilters(QuerySerializer):
    principal = PrincipalText(help_text="Only grants of `user:NAME` or `group:NAME`.")
    through_groups = QueryBoolean(
        default=False, help_text="For a user: also the grants of the user's groups."
    )
    entity = GrantableText(help_text="Only grants on exactly this address, or on exactly this pattern.")
    within = AddressText(help_text="Only grants on this namespace or application, or inside it.")
    privilege = Choice(choices=PRIVILEGES, help_text="Only grants of this privilege.")
    state = Choice(choices=State.values, help_text="Only grants on addresses in this state.")
    granted_by = NameText(help_text="Only grants that this account made.")
    valid = period_filter()


class Grants(List):
    """The grants of users, then those of groups, that the account may read."""

    name = "grants"
    output = GrantSerializer
    filter_fields = GrantFilters
    reads_past = True

    @cached_property
    def sees_holders(self) -> bool:
        """Whether the account may see who holds what on the entity of the filter."""
        return "entity" in self.filters and can_see_holders(self.account, self.filters["entity"])

    @property
    def is_readable(self) -> bool:
        """Whether the account may read the grants of the principal of the filter."""
        if "principal" not in self.filters or self.account.can_see_all:
            return True
        kind, name = parse_principal(self.filters["principal"])
        return (
            # the groups of a user are not part of the holders
            (self.sees_holders and not self.filters["through_groups"])
            or (kind == "user" and name == self.account.username)
            or (kind == "group" and groups_of(self.account).filter(name=name).exists())
        )

    def query_plan(self) -> AbstractContextManager[None]:
        # a query plan for a frequent value would read all grants to find a rare one
        is_rare = self._conditions or "valid" in self.filters
        return custom_query_plan() if is_rare else nullcontext()

    def parts(self):
        period, places = period_condition_of(self.filters), self._places()
        return [
            (
                rows.filter(period, **places, **self._conditions).select_related(
                    "content_object", "granted_by", relation
                ),
                (f"{relation}_id", "content_object_id", "permission_id"),
            )
            for relation, rows in self._tables()
        ]

    def _tables(self) -> Iterator[tuple[str, QuerySet]]:
        """Yield "user" and "group" with the grants of the principal, or with all that the account may read."""
        if "principal" not in self.filters:
            users, groups = UserGrant.objects.all(), GroupGrant.objects.all()
            if not (self.account.can_see_all or self.sees_holders):
                users = users.filter(user=self.account)
                groups = groups.filter(group__in=groups_of(self.account).order_by().values("pk"))
            yield "user", users
            yield "group", groups
            return
        kind, name = parse_principal(self.filters["principal"])
        if kind == "group":
            yield "group", GroupGrant.objects.filter(group__name=name)
            return
        yield "user", UserGrant.objects.filter(user__username=name)
        if self.filters["through_groups"]:
            # a subquery, because a join would repeat each group for each of its members
            found = memberships_in_force().filter(user__username=name).values("group_id")
            yield "group", GroupGrant.objects.filter(group_id__in=found)

    def _places(self) -> dict:
        conditions = {}
        if "entity" in self.filters:
            entity = self.filters["entity"]
            conditions = {"content_object__kind": entity.kind, "content_object__key": entity.key}
        if "within" in self.filters:
            conditions |= on_and_inside(self.filters["within"])
        return conditions

    @cached_property
    def _conditions(self) -> dict:
        conditions = self.equal(state="content_object__state")
        if "privilege" in self.filters:
            conditions["permission_id"] = permission_ids()[Privilege[self.filters["privilege"]]]
        if "granted_by" in self.filters:
            # the primary key and not the name, so that PostgreSQL knows how many grants there are; 0 is no key
            accounts = User.objects.filter(username=self.filters["granted_by"])
            conditions["granted_by_id"] = accounts.values_list("pk", flat=True).first() or 0
        return conditions
