"""The lists of users, groups and memberships."""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet

from authzconsole.common import output
from authzconsole.common.fields import Choice, NameText, QueryBoolean, QuerySerializer, Text
from authzconsole.common.periods import VALID_FROM, VALID_UNTIL, period_condition_of, period_filter
from authzconsole.lists.base import List
from grants.models import JournalLine, Role, RoleGroup, User
from grants.policies.principals import ROLE_PREFIX
from grants.principals.services import open_invitations
from grants.querysets import groups_of
from grants.roles.capabilities import Capability

# other accounts read only themselves
USER_READERS = (Capability.READ_ALL, Capability.READ_ACCOUNTS)


class UserSerializer(output.Output):
    name = output.Text(source="username", example="sofia.lindqvist")
    active = output.Boolean(
        source="is_active",
        example=True,
        help_text="An inactive user cannot sign in and is denied everything.",
    )
    email = output.Text(example="sofia.lindqvist@example.com")
    full_name = output.Text(
        get=User.get_full_name,
        example="Sofia Lindqvist",
        help_text="The name of the person; empty if it is not known.",
    )
    role = output.Choice(
        Role.values,
        example="ordinary",
        help_text="The console role of the account. It grants no access to data.",
    )
    is_principal = output.Boolean(
        example=True,
        help_text="False for an account that is not a principal. Decisions treat it as an unknown subject.",
    )
    is_service = output.Boolean(help_text="A service account owns API tokens and can never sign in.")


class UserFilters(QuerySerializer):
    q = Text(max_length=200, help_text="A part of the name, ignoring case.")
    name = NameText(help_text="Only this name.")
    active = QueryBoolean()
    role = Choice(
        choices=Role.values,
    )


class Users(List):
    """The users that the account may read, by name."""

    name = "users"
    output = UserSerializer
    filter_fields = UserFilters
    order = ("username",)
    reads_past = True

    def select(self) -> QuerySet[User]:
        rows = (
            User.objects.all() if self.account.can(*USER_READERS) else User.objects.filter(pk=self.account.pk)
        )
        return rows.filter(
            **self.equal(q="username__icontains", name="username", active="is_active", role="role")
        )


class InvitationSerializer(output.Output):
    user = output.Text(get=lambda line: line.principal.removeprefix("user:"))
    invited_by = output.Text(source="actor", example="admin")
    invited_at = output.Time(source="at", example=output.TIME_EXAMPLE)
    until = output.Time(
        get=lambda line: line.at + timedelta(hours=settings.FIRST_PASSWORD_HOURS),
        example="2026-02-04T08:00:00Z",
        help_text="When the link ends.",
    )


class Invitations(List):
    """The invited users who have not chosen a password yet, the newest invitation first. Never their links."""

    name = "invitations"
    output = InvitationSerializer
    order = ("-revision",)
    readers = USER_READERS

    def select(self) -> QuerySet[JournalLine]:
        return open_invitations()


class GroupSerializer(output.Output):
    name = output.Text(example="marketing-analytics")


class GroupFilters(QuerySerializer):
    q = Text(max_length=200, help_text="A part of the name, ignoring case.")
    name = NameText(help_text="Only this name.")


class Groups(List):
    """The groups that the account may read, by name: all, or its own."""

    name = "groups"
    output = GroupSerializer
    filter_fields = GroupFilters
    order = ("name",)
    reads_past = True
    is_role = False

    def select(self) -> QuerySet[Group]:
        rows = Group.objects.all() if self.account.can_see_all else groups_of(self.account)
        of_type = Q(name__startswith=ROLE_PREFIX)
        rows = rows.filter(of_type if self.is_role else ~of_type)
        if name := self.filters.get("name"):
            rows = rows.filter(name=f"{ROLE_PREFIX}{name}" if self.is_role else name)
        return rows.filter(**self.equal(q="name__icontains"))


class NamedRoleSerializer(output.Output):
    name = output.Text(get=lambda role: role.name.removeprefix(ROLE_PREFIX), example="stewards")


class Roles(Groups):
    """The roles that the account may read, by name: all, or its own."""

    name = "roles"
    output = NamedRoleSerializer  # type: ignore[assignment]
    is_role = True


class MemberSerializer(output.Output):
    group = output.Text(source="group.name")
    user = output.Text(source="user.username")
    valid_from, valid_until = VALID_FROM, VALID_UNTIL


class MemberFilters(QuerySerializer):
    group = NameText(help_text="Only members of this group.")
    user = NameText(help_text="Only groups of this user.")
    valid = period_filter()


class Members(List):
    """The memberships that the account may read: all, or its own."""

    name = "members"
    output = MemberSerializer
    filter_fields = MemberFilters
    order = ("group_id", "user_id")
    reads_past = True

    def select(self) -> QuerySet:
        rows = User.groups.through.objects.select_related("user", "group")
        if not self.account.can_see_all:
            rows = rows.filter(user=self.account)
        return rows.filter(
            period_condition_of(self.filters), **self.equal(group="group__name", user="user__username")
        )


class RoleGroupSerializer(output.Output):
    role = output.Text(get=lambda row: row.role.name.removeprefix(ROLE_PREFIX), example="stewards")
    group = output.Text(source="group.name", example="marketing-analytics")
    valid_from, valid_until = VALID_FROM, VALID_UNTIL


class RoleGroupFilters(QuerySerializer):
    role = NameText(help_text="Only groups in this role.")
    group = NameText(help_text="Only roles of this group.")
    valid = period_filter()


class RoleGroups(List):
    """The groups in roles."""

    name = "role-groups"
    output = RoleGroupSerializer
    filter_fields = RoleGroupFilters
    order = ("role_id", "group_id")
    readers = (Capability.READ_ALL,)
    reads_past = True

    def select(self) -> QuerySet:
        rows = RoleGroup.objects.select_related("role", "group").filter(period_condition_of(self.filters))
        if role := self.filters.get("role"):
            rows = rows.filter(role__name=f"{ROLE_PREFIX}{role}")
        return rows.filter(**self.equal(group="group__name"))
