"""The REST resources `users`, `invitations`, `groups`, `members` and `memberships`.

Grants are in `authzconsole.rest.grants`, changes of one account's sign-in in `authzconsole.web.accounts`.
"""

from dataclasses import replace
from typing import ClassVar

from django.contrib.auth.models import Group
from django.db import transaction
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import (
    Boolean,
    Choice,
    NameText,
    QueryBoolean,
    ReasonQuery,
    StrictSerializer,
    Text,
    optional_text,
    reason_field,
)
from authzconsole.common.invitations import invite, send_invitations
from authzconsole.common.periods import VALID_FROM, VALID_UNTIL, PastQuery, PeriodSerializer
from authzconsole.lists.people import (
    USER_READERS,
    Groups,
    GroupSerializer,
    Invitations,
    Members,
    NamedRoleSerializer,
    RoleGroups,
    Roles,
    Users,
    UserSerializer,
)
from authzconsole.rest.dry_runs import (
    ChangeEndpoint,
    ChangeForecastSerializer,
    ChangeSetOptions,
    DryRunSerializer,
    ForecastQuery,
    ForecastRequestSerializer,
    ResourceForecastSerializer,
)
from authzconsole.rest.framework.callers import (
    any_account,
    changeable_with,
    check_administrator,
    check_recent_authentication,
)
from authzconsole.rest.framework.endpoint import Resource, check_match, etag_of_resource, location, reads_past
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.operations import ETAG, IF_MATCH, operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.grants import MAX_ITEMS, items_of
from authzconsole.rest.plans import MembershipItemSerializer, NewMembershipSerializer, memberships_of
from entities.text import storage_fault
from entities.vocabulary import quantity
from grants.change_set import (
    Activate,
    Deactivate,
    Exclude,
    Include,
    Join,
    Leave,
    MakePrincipal,
    RemovePrincipal,
    Rename,
)
from grants.changes import ChangeSet, apply
from grants.errors import ChangeRefused
from grants.journal import Author, lock_journal
from grants.models import Role, User
from grants.policies.principals import ROLE_PREFIX, group_text
from grants.principals.services import (
    MAX_EMAIL_CHARACTERS,
    MAX_FULL_NAME_CHARACTERS,
    add_group,
    add_role,
    add_user,
    cancel_invitation,
    set_full_name,
    set_user_email,
    set_user_role,
)
from grants.roles.capabilities import Capability
from grants.validity import Validity


class ChangedUserSerializer(ResourceForecastSerializer, UserSerializer):
    """The changed user."""


class OutcomeSerializer(output.Output):
    changed = output.Boolean(source="has_changed", example=True)
    sentence = output.Text()
    revision = output.Integer(help_text="The newest revision of the journal.")


class ForecastOutcomeSerializer(ChangeForecastSerializer, OutcomeSerializer):
    """What the request changed, or for a dry run would change."""


class RemovalQuery(ForecastQuery):
    """How a user or group is removed."""

    revoke_grants = QueryBoolean(default=False, help_text="Also revoke the direct grants.")
    reason = reason_field()


class NewUserSerializer(StrictSerializer):
    """A new user."""

    name = NameText(help_text="The name of the user.")
    email = optional_text("The e-mail address; empty if there is none.", MAX_EMAIL_CHARACTERS)
    full_name = optional_text("The name of the person; empty if it is not known.", MAX_FULL_NAME_CHARACTERS)
    active = Boolean(default=True, help_text="Whether the user can sign in and be permitted anything.")
    role = Choice(
        choices=Role.values,
        default=Role.ORDINARY.value,
        help_text="The console role of the account. It grants no access to data.",
    )
    is_service = Boolean(default=False, help_text="A service account owns API tokens and can never sign in.")
    reason = reason_field()


# members of a change of a user besides its properties
OPTIONS = ("dry_run", "effect_digest", "reason")


class UserChangeSerializer(ForecastRequestSerializer):
    """The properties to change. Omitted properties stay as they are."""

    name = NameText(
        required=False, help_text="The new name. Grants, memberships, tokens and sessions follow."
    )
    email = Text(
        required=False,
        allow_blank=True,
        max_length=MAX_EMAIL_CHARACTERS,
        help_text="The e-mail address; empty if there is none.",
    )
    full_name = Text(
        required=False,
        allow_blank=True,
        max_length=MAX_FULL_NAME_CHARACTERS,
        help_text="The name of the person; empty if it is not known.",
    )
    active = Boolean(required=False, help_text="Whether the user can sign in and be permitted anything.")
    role = Choice(
        choices=Role.values,
        required=False,
        help_text="The console role of the account. It grants no access to data.",
    )
    is_principal = Boolean(
        required=False, help_text="True makes an account a principal. A principal stays one."
    )
    reason = reason_field()

    def validate_is_principal(self, value: bool) -> bool:
        if not value:
            raise serializers.ValidationError(
                "a principal cannot become an account only: deactivate or remove the user instead"
            )
        return value


def _visible_user(request: Request, name: str) -> User | None:
    """Return the user; None if it does not exist, or if the caller may not see it."""
    if not (request.user.can(*USER_READERS) or name == request.user.username) or storage_fault(name):
        return None
    return User.objects.filter(username=name).first()


USER = Resource(
    "name",
    "The name of the user. It is the whole rest of the path. Percent-encode reserved characters.",
    _visible_user,
)


class UserList(ListEndpoint):
    """List users.

    Sorted by name. Accounts with the role `ordinary` find only themselves.
    """

    route = "users"
    operation_id = "users_list"
    rows = Users

    @operation(
        "users_create",
        changeable_with(Capability.MANAGE_ACCOUNTS),
        {201: UserSerializer},
        body=NewUserSerializer,
        parameters=[ETAG],
    )
    def post(self) -> Response:
        """Add a user.

        The user cannot sign in until an administrator sets a password.
        """
        data = self.data
        if data["role"] != Role.ORDINARY:
            check_recent_authentication(self.request)
        with transaction.atomic():
            lock_journal()
            if User.objects.filter(username=data["name"]).exists():
                raise Problem(
                    409,
                    f"user:{data['name']} already exists: change it with PATCH {location('users', data['name'])}",
                )
            user = {name: value for name, value in data.items() if name not in ("reason", "full_name")}
            add_user(author=self.author, **user)
            if data["full_name"]:
                set_full_name(author=self.author, name=data["name"], full_name=data["full_name"])
            user = User.objects.get(username=data["name"])
        return self.creation_response(user, "users", user.username)


class _PrincipalDetail(ChangeEndpoint):
    """One principal. prefix: of its written form."""

    prefix: ClassVar[str]

    @property
    def principal(self) -> str:
        return f"{self.prefix}{self.kwargs['name']}"

    def rename(self) -> Response:
        """Rename a group or role, or report the effect."""
        new_name = self.data["name"]
        self.find_object(self.kwargs)
        _, members = self.make(ChangeSet.of(Rename(self.principal, new_name)))
        return Response({"name": new_name} | (members if self.is_dry_run else {}))

    def remove(self) -> Response:
        """Remove the principal, or report the effect."""
        change = RemovePrincipal(self.principal, self.query["revoke_grants"])
        return self.outcome(change, f"{self.principal} would be removed")


class UserDetail(_PrincipalDetail):
    route = "users/<path:name>"
    resource = USER
    prefix = "user:"

    @operation(
        "users_retrieve",
        any_account,
        UserSerializer,
        query=PastQuery,
        parameters=[ETAG],
    )
    @reads_past
    def get(self) -> User:
        """Read a user.

        Accounts with the role `ordinary` can only read themselves.
        """
        return self.object

    @operation(
        "users_change",
        any_account,
        ChangedUserSerializer,
        body=UserChangeSerializer,
        parameters=[IF_MATCH, ETAG],
    )
    def patch(self) -> Response:
        """Change a user.

        Changes `name`, `full_name`, `active`, `role`, `email` or `is_principal`. The journal keeps the
        old name. The last active administrator cannot be deactivated and keeps the role. A dry run needs
        no If-Match, and returns the user as it would be and the effect on permissions.
        """
        changeable_with(Capability.MANAGE_ACCOUNTS)(self.request)
        check_recent_authentication(self.request)
        changes = {name: value for name, value in self.data.items() if name not in OPTIONS}
        if not changes:
            raise Problem(
                400,
                "nothing to change: send `name`, `full_name`, `active`, `role`, `email` or `is_principal`",
            )
        with transaction.atomic():
            lock_journal()
            name = self.kwargs["name"]
            before = self.resource.object_or_404(self.request, name)
            etag = etag_of_resource(UserSerializer, before)
            check_match(self.request, etag, is_required=not self.is_dry_run)
            user, members = self.make(
                _permission_changes(name, changes), lambda: _changed_user(self.author, name, changes)
            )
        if self.is_dry_run:
            return Response(UserSerializer.data_of(user) | members, headers={"ETag": etag})
        return self.response(user)

    @operation(
        "users_remove",
        any_account,
        ForecastOutcomeSerializer,
        query=RemovalQuery,
    )
    def delete(self) -> Response:
        """Remove a user.

        Removes the user for good, with memberships, tokens, sessions and identity links. The journal
        keeps the name. Users with direct grants are refused (409) unless `revoke_grants` is true. To end
        the access of a person, deactivate the user instead. A dry run reports the effect on permissions.
        """
        check_administrator(self.request)
        check_recent_authentication(self.request)
        return self.remove()


class NewInvitationSerializer(StrictSerializer):
    """The user who is invited."""

    user = NameText(help_text="The name of an active user without a password.")
    reason = reason_field()


class SentInvitationSerializer(output.Output):
    """An invitation. This is the only response with its link."""

    user = output.Text(source="name")
    email = output.Text(example="sofia.lindqvist@example.com")
    url = output.Text(
        allow_null=True,
        example="https://authz.example.com/invitation/Mg/TOKEN",
        help_text="The link, which is a secret; null if it was sent to the e-mail address.",
    )


class InvitationQuery(ReasonQuery):
    """The user of the invitation, and why it is cancelled."""

    user = NameText(required=True, help_text="The name of the user.")


class InvitationList(ListEndpoint):
    """List open invitations.

    The invited users who have not chosen a password yet, the newest first, without their links. A user who was renamed since
    the invitation is not listed.
    """

    route = "invitations"
    operation_id = "invitations_list"
    rows = Invitations

    @operation(
        "invitations_create",
        changeable_with(Capability.MANAGE_ACCOUNTS),
        {201: SentInvitationSerializer},
        body=NewInvitationSerializer,
    )
    def post(self) -> Response:
        """Invite a user.

        Makes a link with which a user without a password chooses the first one, and sends it by e-mail if a mail server is
        configured and the user has an address; otherwise the response has the link. Earlier links stop working.
        """
        check_recent_authentication(self.request)
        with transaction.atomic():
            invitation = invite(author=self.author, name=self.data["user"])
        if invitation.name in send_invitations([invitation]):
            invitation = replace(invitation, url="")
        return self.response(invitation, Location=location("users", invitation.name))

    @operation(
        "invitations_cancel",
        changeable_with(Capability.MANAGE_ACCOUNTS),
        OutcomeSerializer,
        query=InvitationQuery,
    )
    def delete(self) -> object:
        """Cancel an invitation.

        The links of a user without a password stop working. Nothing changes if the user has a password.
        """
        check_recent_authentication(self.request)
        return cancel_invitation(author=self.author, name=self.query["user"])


def _permission_changes(name: str, data: dict) -> ChangeSet:
    """Return the changes of a user that can change permissions."""
    return ChangeSet.of(
        *([_activation(name, active=data["active"])] if "active" in data else []),
        *([MakePrincipal(name)] if "is_principal" in data else []),
        *([Rename(f"user:{name}", data["name"])] if "name" in data else []),
    )


def _activation(name: str, *, active: bool) -> Activate | Deactivate:
    return Activate(name) if active else Deactivate(name)


def _changed_user(author: Author, name: str, data: dict) -> User:
    """Change the user and return it."""
    if "is_principal" in data:
        apply(ChangeSet.of(MakePrincipal(name)), author=author)
    if "role" in data:
        set_user_role(author=author, name=name, role=data["role"])
    if "active" in data:
        apply(ChangeSet.of(_activation(name, active=data["active"])), author=author)
    if "email" in data:
        set_user_email(author=author, name=name, email=data["email"])
    if "full_name" in data:
        set_full_name(author=author, name=name, full_name=data["full_name"])
    if "name" in data:
        apply(ChangeSet.of(Rename(f"user:{name}", data["name"])), author=author)
    return User.objects.get(username=data.get("name", name))


def _visible_group(request: Request, name: str) -> Group | None:
    """Return the group; None if it does not exist, or if the caller may not see it."""
    return None if storage_fault(name) else Groups(request.user).select().filter(name=name).first()


GROUP = Resource(
    "name",
    "The name of the group. It is the whole rest of the path. Percent-encode reserved characters.",
    _visible_group,
)


class NewGroupSerializer(StrictSerializer):
    """A new group without members."""

    name = NameText(help_text="The name of the group.")
    reason = reason_field()


class GroupList(ListEndpoint):
    """List groups.

    Sorted by name. Accounts with the role `ordinary` find only their groups.
    """

    route = "groups"
    operation_id = "groups_list"
    rows = Groups

    @operation(
        "groups_create",
        check_administrator,
        {201: GroupSerializer},
        body=NewGroupSerializer,
    )
    def post(self) -> Response:
        """Add a group.

        Adds an empty group.
        """
        data = self.data
        outcome = add_group(author=self.author, name=data["name"])
        if not outcome.has_changed:
            raise Problem(409, outcome.sentence)
        return self.creation_response(data, "groups", data["name"])


class ChangedGroupSerializer(ResourceForecastSerializer, GroupSerializer):
    """The changed group."""


class GroupChangeSerializer(ForecastRequestSerializer):
    """The new name of a group."""

    name = NameText(help_text="The new name. Grants and memberships follow.")
    reason = reason_field()


class GroupDetail(_PrincipalDetail):
    route = "groups/<path:name>"
    resource = GROUP
    prefix = "group:"
    found_after_body = ("PATCH",)

    @operation(
        "groups_retrieve",
        any_account,
        GroupSerializer,
        query=PastQuery,
    )
    @reads_past
    def get(self) -> object:
        """Read a group.

        Accounts with the role `ordinary` can only read their groups.
        """
        return self.object

    @operation(
        "groups_change",
        check_administrator,
        ChangedGroupSerializer,
        body=GroupChangeSerializer,
    )
    def patch(self) -> Response:
        """Rename a group.

        The journal keeps the old name. A dry run returns the group as it would be and the effect, which
        is always empty.
        """
        return self.rename()

    @operation(
        "groups_remove",
        check_administrator,
        ForecastOutcomeSerializer,
        query=RemovalQuery,
    )
    def delete(self) -> Response:
        """Remove a group.

        Removes the group with its memberships. Groups with grants are refused (409) unless
        `revoke_grants` is true. A dry run reports the effect on permissions.
        """
        return self.remove()


def _visible_role(request: Request, name: str) -> Group | None:
    """Return the role; None if it does not exist, or if the caller may not see it."""
    stored = f"{ROLE_PREFIX}{name}"
    return None if storage_fault(name) else Roles(request.user).select().filter(name=stored).first()


class RoleList(ListEndpoint):
    """List roles.

    Sorted by name. Accounts with the role `ordinary` find only their roles.
    """

    route = "roles"
    operation_id = "roles_list"
    rows = Roles

    @operation("roles_create", check_administrator, {201: NamedRoleSerializer}, body=NewGroupSerializer)
    def post(self) -> Response:
        """Add a role.

        Adds an empty role.
        """
        data = self.data
        outcome = add_role(author=self.author, name=data["name"])
        if not outcome.has_changed:
            raise Problem(409, outcome.sentence)
        return self.creation_response(Group(name=f"{ROLE_PREFIX}{data['name']}"), "roles", data["name"])


class ChangedRoleSerializer(ResourceForecastSerializer, NamedRoleSerializer):
    """The changed role."""


class RoleDetail(_PrincipalDetail):
    route = "roles/<path:name>"
    prefix = ROLE_PREFIX
    resource = Resource(
        "name",
        "The name of the role. It is the whole rest of the path. Percent-encode reserved characters.",
        _visible_role,
    )
    found_after_body = ("PATCH",)

    @operation("roles_retrieve", any_account, NamedRoleSerializer, query=PastQuery)
    @reads_past
    def get(self) -> object:
        """Read a role.

        Accounts with the role `ordinary` can only read their roles.
        """
        return self.object

    @operation("roles_change", check_administrator, ChangedRoleSerializer, body=GroupChangeSerializer)
    def patch(self) -> Response:
        """Rename a role.

        The journal keeps the old name. A dry run returns the role as it would be and the effect, which
        is always empty.
        """
        return self.rename()

    @operation("roles_remove", check_administrator, ForecastOutcomeSerializer, query=RemovalQuery)
    def delete(self) -> Response:
        """Remove a role.

        Removes the role with its memberships. Roles with grants are refused (409) unless `revoke_grants`
        is true. A dry run reports the effect on permissions.
        """
        return self.remove()


class MemberQuery(ForecastQuery):
    group = NameText(required=True)
    user = NameText(required=True)
    reason = reason_field()


class NewMemberSerializer(ForecastRequestSerializer, PeriodSerializer):
    """A user who becomes a member of a group, in a period. An existing membership gets this period."""

    group = NameText(help_text="The name of the group.")
    user = NameText(help_text="The name of the user.")
    reason = reason_field()


class MembershipChangesSerializer(ChangeSetOptions):
    """Memberships that are added and removed together or not at all."""

    join = items_of(NewMembershipSerializer, default=list)
    leave = items_of(MembershipItemSerializer, default=list)


class ChangedMembershipSerializer(output.Output):
    user = output.Text()
    group = output.Text()
    valid_from, valid_until = VALID_FROM, VALID_UNTIL


class MembershipChanges(output.Output):
    joined = ChangedMembershipSerializer(many=True)
    left = ChangedMembershipSerializer(
        many=True,
        # with their earlier periods
        get=lambda outcome: [
            Join(change.user, change.group, outcome.before[change.key]) for change in outcome.left
        ],
    )
    changed_periods = ChangedMembershipSerializer(
        many=True,
        help_text="Existing memberships that got another period.",
    )


class MembershipOutcomeSerializer(DryRunSerializer, MembershipChanges):
    """The memberships that were changed, or for a dry run would be changed."""


class MemberList(ChangeEndpoint, ListEndpoint):
    """List memberships.

    Memberships of a group, of a user, or all. Accounts with the role `ordinary` find only their
    memberships.
    """

    route = "members"
    operation_id = "members_list"
    rows = Members

    @operation(
        "members_add",
        check_administrator,
        ForecastOutcomeSerializer,
        body=NewMemberSerializer,
    )
    def post(self) -> object:
        """Add a member.

        Adding an existing member with the same period changes nothing; with another one it changes the
        period. A dry run reports the effect on permissions.
        """
        data = self.data
        return self.change(Join(data["user"], data["group"], data.get("validity", Validity())), "would be in")

    @operation(
        "members_remove",
        check_administrator,
        ForecastOutcomeSerializer,
        query=MemberQuery,
    )
    def delete(self) -> object:
        """Remove a member.

        Removing a user who is not a member changes nothing. A dry run reports the effect on permissions.
        """
        return self.change(Leave(self.query["user"], self.query["group"]), "would no longer be in")

    def change(self, change: Join | Leave, would: str) -> Response:
        try:
            return self.outcome(change, f"user:{change.user} {would} {group_text(change.group)}")
        except ChangeRefused as refusal:
            (error,) = refusal.errors
            errors = [{"field": error.field, "message": error.message}] if error.field else []
            raise Problem(400, error.message, errors=errors) from None


class RoleGroupQuery(ForecastQuery):
    role = NameText(required=True)
    group = NameText(required=True)
    reason = reason_field()


class NewRoleGroupSerializer(ForecastRequestSerializer, PeriodSerializer):
    """A group that becomes a member of a role, in a period. An existing membership gets this period."""

    role = NameText(help_text="The name of the role.")
    group = NameText(help_text="The name of the group.")
    reason = reason_field()


class RoleGroupList(ChangeEndpoint, ListEndpoint):
    """List the groups in roles.

    The users in a role are listed by `/members`, where its name is written `role:NAME`.
    """

    route = "role-groups"
    operation_id = "role_groups_list"
    rows = RoleGroups

    @operation("role_groups_add", check_administrator, ForecastOutcomeSerializer, body=NewRoleGroupSerializer)
    def post(self) -> object:
        """Add a group to a role.

        The members of the group get the grants of the role. A dry run reports the effect on permissions.
        """
        role, group = self.data["role"], self.data["group"]
        change = Include(group, f"{ROLE_PREFIX}{role}", self.data.get("validity", Validity()))
        return self.outcome(change, f"{change.key[0]} would be in {change.role}")

    @operation("role_groups_remove", check_administrator, ForecastOutcomeSerializer, query=RoleGroupQuery)
    def delete(self) -> object:
        """Remove a group from a role.

        Removing a group that is not in the role changes nothing. A dry run reports the effect on permissions.
        """
        change = Exclude(self.query["group"], f"{ROLE_PREFIX}{self.query['role']}")
        return self.outcome(change, f"{change.key[0]} would no longer be in {change.role}")


class MembershipChangeSet(ChangeEndpoint):
    route = "memberships"

    @operation(
        "memberships_change",
        check_administrator,
        MembershipOutcomeSerializer,
        body=MembershipChangesSerializer,
    )
    def post(self) -> Response:
        """Add and remove members.

        Accepts up to {MAX_ITEMS:,} memberships in both lists together. They are changed as a whole or not
        at all. Every error names its list and index. A dry run reports the effect as a plan does, with
        the entities that would be stranded.
        """
        change_set = memberships_of(self.data)
        if not len(change_set):
            raise Problem(400, "nothing to change: put items into `join` or `leave`")
        if len(change_set) > MAX_ITEMS:
            raise Problem(400, f"the request contains {len(change_set):,} items; the limit is {MAX_ITEMS:,}")
        try:
            outcome, members = self.change_set_outcome(change_set)
        except ChangeRefused as refusal:
            errors = [
                {"list": error.verb, "index": error.index, "message": error.message}
                for error in refusal.errors
            ]
            raise Problem(
                400,
                f"{quantity(len(errors), 'item is', 'items are')} invalid, so nothing was changed",
                errors=errors,
            ) from None
        return Response(members | MembershipChanges.data_of(outcome))
