"""The REST resources `users`, `groups` and `members`."""

from collections.abc import Callable

from django.contrib.auth.models import Group
from django.db import transaction
from django.http import Http404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.rest.framework.callers import author_of, check_administrator
from authzconsole.rest.framework.cursors import PageQuery, Part, list_identity, page_of, page_shape
from authzconsole.rest.framework.endpoint import Endpoint, created_response
from authzconsole.rest.framework.etags import check_match, etag_of
from authzconsole.rest.framework.fields import Boolean, Choice, NameText, QueryBoolean, Shape, Text, reason_field
from authzconsole.rest.framework.locations import group_location, user_location
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.openapi.operations import ETAG, IF_MATCH, LOCATION, described, in_path
from entities.text import storage_fault
from grants.changes.outcomes import Outcome
from grants.errors import PrincipalError
from grants.journal import Author, lock_journal
from grants.models import Role, User
from grants.principals.services import (
    MAX_EMAIL_CHARACTERS,
    add_group,
    add_member,
    add_user,
    remove_member,
    set_user_active,
    set_user_email,
    set_user_role,
)

TAG = "Users and groups"
USER_PATH = in_path("name", "The name of the user. It is the whole rest of the path; percent-encode reserved characters.")
GROUP_PATH = in_path("name", "The name of the group. It is the whole rest of the path; percent-encode reserved characters.")


class UserSerializer(serializers.Serializer):
    name = serializers.CharField()
    active = serializers.BooleanField(help_text="An inactive user cannot sign in and is denied everything.")
    email = serializers.CharField()
    role = serializers.ChoiceField(Role.values, help_text="The console role of the account. It grants no access to data.")
    is_principal = serializers.BooleanField(help_text="False for an account that is not a principal; it is an unknown subject "
                                                      "in every decision.")


class GroupSerializer(serializers.Serializer):
    name = serializers.CharField()


class MemberSerializer(serializers.Serializer):
    group = serializers.CharField()
    user = serializers.CharField()


class OutcomeSerializer(serializers.Serializer):
    changed = serializers.BooleanField()
    sentence = serializers.CharField()
    revision = serializers.IntegerField(help_text="The newest revision of the journal.")


class UsersQuery(PageQuery):
    q = Text(required=False, max_length=200, help_text="A part of the name, ignoring case.")
    name = NameText(required=False, help_text="Only this name.")
    active = QueryBoolean(required=False)
    role = Choice(choices=Role.values, required=False)


class GroupsQuery(PageQuery):
    q = Text(required=False, max_length=200, help_text="A part of the name, ignoring case.")
    name = NameText(required=False, help_text="Only this name.")


class MembersQuery(PageQuery):
    group = NameText(required=False, help_text="Only members of this group.")
    user = NameText(required=False, help_text="Only groups of this user.")


class MemberQuery(Shape):
    group = NameText()
    user = NameText()
    reason = reason_field()


class NewUserSerializer(Shape):
    name = NameText()
    email = Text(required=False, allow_blank=True, default="", max_length=MAX_EMAIL_CHARACTERS)
    active = Boolean(required=False, default=True)
    role = Choice(choices=Role.values, required=False, default=Role.ORDINARY.value)
    reason = reason_field()


class UserChangeSerializer(Shape):
    """Members that are left out are not changed."""

    email = Text(required=False, allow_blank=True, max_length=MAX_EMAIL_CHARACTERS)
    active = Boolean(required=False)
    role = Choice(choices=Role.values, required=False)
    reason = reason_field()


class NewGroupSerializer(Shape):
    name = NameText()
    reason = reason_field()


class NewMemberSerializer(Shape):
    group = NameText()
    user = NameText()
    reason = reason_field()


SOFIA = {"name": "sofia.lindqvist", "active": True, "email": "sofia.lindqvist@example.com", "role": "ordinary",
         "is_principal": True}
ALICE = SOFIA | {"name": "alice", "email": "alice@example.com"}
ADDED = {"changed": True, "sentence": "user:sofia.lindqvist is in group:marketing-analytics now", "revision": 812}


class Users(Endpoint):
    queries = {"GET": UsersQuery}

    @described("users_list", TAG, "List users",
        "Sorted by name. Accounts with the role `ordinary` find only themselves.", query=UsersQuery,
               answers={200: page_shape(UserSerializer)}, example={"items": [SOFIA], "next": None})
    def get(self, request: Request) -> Response:
        query = self.query
        rows = User.objects.all() if request.user.can_see_all else User.objects.filter(pk=request.user.pk)
        where = {"username__icontains": query.get("q"), "username": query.get("name"), "is_active": query.get("active"),
                 "role": query.get("role")}
        rows = rows.filter(**{name: value for name, value in where.items() if value is not None})
        return Response(page_of([Part(rows, ("username",))], user_as_json, query=query, identity=list_identity("users", query)))

    @described("users_create", TAG, "Add a user", "The user cannot sign in until an administrator sets a password.",
               sends=NewUserSerializer, sent={"name": "alice", "email": "alice@example.com"}, answers={201: UserSerializer},
               example=ALICE, errors=[409], parameters=[LOCATION, ETAG])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent = self.body(NewUserSerializer)
        with transaction.atomic():
            lock_journal()
            if User.objects.filter(username=sent["name"]).exists():
                raise Problem(409, f"user:{sent['name']} exists already: change it with PATCH {user_location(sent['name'])}")
            add_user(author=author_of(request, sent.pop("reason")), **sent)
            user = _user_or_404(sent["name"])
        return created_response(user_as_json(user), user_location(user.username), ETag=_user_etag(user))


class OneUser(Endpoint):
    @described("users_retrieve", TAG, "Read a user",
        "Accounts with the role `ordinary` can only read themselves.", answers={200: UserSerializer},
               example=SOFIA, errors=[404], parameters=[USER_PATH, ETAG])
    def get(self, request: Request, name: str) -> Response:
        return _user_response(_visible_user(request, name))

    @described("users_change", TAG, "Change a user",
               "Changes activity, role and email, whichever is sent. The last active administrator cannot be removed.",
               sends=UserChangeSerializer, sent={"active": False, "reason": "left the company"}, answers={200: UserSerializer},
               example=SOFIA | {"active": False}, errors=[404, 409, 412, 428], parameters=[USER_PATH, IF_MATCH, ETAG])
    def patch(self, request: Request, name: str) -> Response:
        _visible_user(request, name)
        check_administrator(request)
        sent = self.body(UserChangeSerializer)
        author = author_of(request, sent.pop("reason"))
        if not sent:
            raise Problem(400, "nothing to change: send `active`, `role` or `email`")
        with transaction.atomic():
            lock_journal()
            check_match(request, _user_etag(_user_or_404(name)))
            _change_user(author, name, sent)
        return _user_response(_user_or_404(name))


class Groups(Endpoint):
    queries = {"GET": GroupsQuery}

    @described("groups_list", TAG, "List groups", "Sorted by name. Accounts with the role `ordinary` find only their "
                                                  "groups.", query=GroupsQuery,
               answers={200: page_shape(GroupSerializer)}, example={"items": [{"name": "marketing-analytics"}], "next": None})
    def get(self, request: Request) -> Response:
        query = self.query
        where = {"name__icontains": query.get("q"), "name": query.get("name")}
        rows = _visible_groups(request).filter(**{name: value for name, value in where.items() if value is not None})
        return Response(page_of([Part(rows, ("name",))], _group_as_json, query=query, identity=list_identity("groups", query)))

    @described("groups_create", TAG, "Add a group", "Adds an empty group.", sends=NewGroupSerializer, sent={"name": "analysts"},
               answers={201: GroupSerializer}, example={"name": "analysts"}, errors=[409], parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent = self.body(NewGroupSerializer)
        outcome = add_group(author=author_of(request, sent["reason"]), name=sent["name"])
        if not outcome.has_changed:
            raise Problem(409, outcome.sentence)
        return created_response({"name": sent["name"]}, group_location(sent["name"]))


class OneGroup(Endpoint):
    @described("groups_retrieve", TAG, "Read a group", "Accounts with the role `ordinary` can only read their groups.",
               answers={200: GroupSerializer}, example={"name": "marketing-analytics"}, errors=[404], parameters=[GROUP_PATH])
    def get(self, request: Request, name: str) -> Response:
        group = None if storage_fault(name) else _visible_groups(request).filter(name=name).first()
        if group is None:
            raise Http404
        return Response(_group_as_json(group))


class Members(Endpoint):
    queries = {"GET": MembersQuery, "DELETE": MemberQuery}

    @described("members_list", TAG, "List memberships", "Memberships of a group, of a user, or all. Accounts with the role "
                                                        "`ordinary` find only their memberships.",
               query=MembersQuery, answers={200: page_shape(MemberSerializer)},
               example={"items": [{"group": "marketing-analytics", "user": "sofia.lindqvist"}], "next": None})
    def get(self, request: Request) -> Response:
        query, rows = self.query, User.groups.through.objects.select_related("user", "group")
        if not request.user.can_see_all:
            rows = rows.filter(user=request.user)
        where = {"group__name": query.get("group"), "user__username": query.get("user")}
        rows = rows.filter(**{name: value for name, value in where.items() if value is not None})
        return Response(page_of([Part(rows, ("group_id", "user_id"))], _member_as_json, query=query,
                                identity=list_identity("members", query)))

    @described("members_add", TAG, "Add a member", "Adding an existing member changes nothing.", sends=NewMemberSerializer,
               sent={"group": "marketing-analytics", "user": "sofia.lindqvist", "reason": "joined the team"},
               answers={200: OutcomeSerializer}, example=ADDED)
    def post(self, request: Request) -> Response:
        check_administrator(request)
        return _change_membership(request, add_member, self.body(NewMemberSerializer))

    @described("members_remove", TAG, "Remove a member",
        "Removing a user who is not a member changes nothing.", query=MemberQuery,
               answers={200: OutcomeSerializer},
               example=ADDED | {"sentence": "user:sofia.lindqvist is no longer in group:marketing-analytics"})
    def delete(self, request: Request) -> Response:
        check_administrator(request)
        return _change_membership(request, remove_member, self.query)


def user_as_json(user: User) -> dict:
    return {"name": user.username, "active": user.is_active, "email": user.email, "role": str(user.role),
            "is_principal": user.is_principal}


def _group_as_json(group: Group) -> dict:
    return {"name": group.name}


def _member_as_json(row) -> dict:
    return {"group": row.group.name, "user": row.user.username}


def _change_membership(request: Request, service: Callable[..., Outcome], sent: dict) -> Response:
    try:
        outcome = service(author=author_of(request, sent["reason"]), user=sent["user"], group=sent["group"])
    except PrincipalError as error:
        raise Problem(400, str(error), errors=[{"field": error.field, "message": str(error)}] if error.field else []) from None
    return Response({"changed": outcome.has_changed, "sentence": outcome.sentence, "revision": outcome.revision})


def _change_user(author: Author, name: str, sent: dict) -> None:
    if "role" in sent:
        set_user_role(author=author, name=name, role=sent["role"])
    if "active" in sent:
        set_user_active(author=author, name=name, active=sent["active"])
    if "email" in sent:
        set_user_email(author=author, name=name, email=sent["email"])


def _visible_user(request: Request, name: str) -> User:
    if not (request.user.can_see_all or name == request.user.username):
        raise Http404
    return _user_or_404(name)


def _user_or_404(name: str) -> User:
    user = None if storage_fault(name) else User.objects.filter(username=name).first()
    if user is None:
        raise Http404
    return user


def _visible_groups(request: Request):
    return Group.objects.all() if request.user.can_see_all else Group.objects.filter(user=request.user)


def _user_etag(user: User) -> str:
    return etag_of(user.pk, user.is_active, user.email, user.role)


def _user_response(user: User) -> Response:
    return Response(user_as_json(user), headers={"ETag": _user_etag(user)})
