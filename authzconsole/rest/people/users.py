"""The REST resource `users`."""

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
    StrictSerializer,
    Text,
    reason_field,
)
from authzconsole.common.past import PastQuery
from authzconsole.lists.people import USER_READERS, Users, UserSerializer
from authzconsole.rest.dry_runs import (
    ChangeEndpoint,
    ChangeForecastSerializer,
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
from authzconsole.rest.framework.endpoint import Resource, created_response
from authzconsole.rest.framework.etags import check_match, etag_of
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.locations import user_location
from authzconsole.rest.framework.operations import ETAG, IF_MATCH, operation
from authzconsole.rest.framework.past import reads_past
from authzconsole.rest.framework.problems import Problem
from entities.text import storage_fault
from grants.change_set import Activate, Deactivate, MakePrincipal, RemovePrincipal
from grants.changes import ChangeSet, apply
from grants.journal import Author, lock_journal
from grants.models import Role, User
from grants.principals.renaming import rename_user
from grants.principals.services import (
    MAX_EMAIL_CHARACTERS,
    MAX_FULL_NAME_CHARACTERS,
    add_user,
    set_full_name,
    set_user_email,
    set_user_role,
)
from grants.roles.capabilities import Capability


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

    revoke_grants = QueryBoolean(required=False, default=False, help_text="Also revoke the direct grants.")
    reason = reason_field()


class NewUserSerializer(StrictSerializer):
    """A new user."""

    name = NameText(help_text="The name of the user.")
    email = Text(
        required=False,
        allow_blank=True,
        default="",
        max_length=MAX_EMAIL_CHARACTERS,
        help_text="The e-mail address; empty if there is none.",
    )
    full_name = Text(
        required=False,
        allow_blank=True,
        default="",
        max_length=MAX_FULL_NAME_CHARACTERS,
        help_text="The name of the person; empty if it is not known.",
    )
    active = Boolean(
        required=False, default=True, help_text="Whether the user can sign in and be permitted anything."
    )
    role = Choice(
        choices=Role.values,
        required=False,
        default=Role.ORDINARY.value,
        help_text="The console role of the account. It grants no access to data.",
    )
    is_service = Boolean(
        required=False, default=False, help_text="A service account owns API tokens and can never sign in."
    )
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

    route, url_name = "users", "rest-users"
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
                    f"user:{data['name']} already exists: change it with PATCH {user_location(data['name'])}",
                )
            user = {name: value for name, value in data.items() if name not in ("reason", "full_name")}
            add_user(author=self.author, **user)
            if data["full_name"]:
                set_full_name(author=self.author, name=data["name"], full_name=data["full_name"])
            user = User.objects.get(username=data["name"])
        return created_response(
            UserSerializer.data_of(user), user_location(user.username), ETag=_user_etag(user)
        )


class UserDetail(ChangeEndpoint):
    route, url_name = "users/<path:name>", "rest-user"
    resource = USER

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
            check_match(self.request, _user_etag(before), is_required=not self.is_dry_run)
            user, members = self.make(
                _permission_changes(name, changes), lambda: _changed_user(self.author, name, changes)
            )
        if self.is_dry_run:
            return Response(UserSerializer.data_of(user) | members, headers={"ETag": _user_etag(before)})
        return _user_response(user)

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
        principal = f"user:{self.kwargs['name']}"
        return self.outcome(
            RemovePrincipal(principal, self.query["revoke_grants"]), f"{principal} would be removed"
        )


def _permission_changes(name: str, data: dict) -> ChangeSet:
    """Return the changes of a user that can change permissions."""
    return ChangeSet.of(
        *([_activation(name, active=data["active"])] if "active" in data else []),
        *([MakePrincipal(name)] if "is_principal" in data else []),
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
        rename_user(author=author, name=name, new_name=data["name"])
    return User.objects.get(username=data.get("name", name))


def _user_etag(user: User) -> str:
    return etag_of(user.pk, *UserSerializer.data_of(user).values())


def _user_response(user: User) -> Response:
    return Response(UserSerializer.data_of(user), headers={"ETag": _user_etag(user)})
