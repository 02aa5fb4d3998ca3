"""The REST resource `groups`."""

from django.contrib.auth.models import Group
from django.http import Http404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import NameText, StrictSerializer, Text, reason_field
from authzconsole.common.past import PastQuery
from authzconsole.rest.dry_runs import (
    ForecastRequestSerializer,
    ResourceForecastSerializer,
    make_or_forecast,
    outcome_with_forecast,
)
from authzconsole.rest.framework.callers import any_account, author_of, check_administrator
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint, created_response
from authzconsole.rest.framework.locations import group_location
from authzconsole.rest.framework.operations import LOCATION, api_operation, path_parameter
from authzconsole.rest.framework.past import reads_past
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.people.users import OUTCOME_EXAMPLE, TAG, ForecastOutcomeSerializer, RemovalQuery
from entities.text import storage_fault
from grants.change_set import RemovePrincipal
from grants.changes import ChangeSet
from grants.principals.renaming import rename_group
from grants.principals.services import add_group
from grants.querysets import groups_of

GROUP_PATH = path_parameter(
    "name", "The name of the group. It is the whole rest of the path. Percent-encode reserved characters."
)


class GroupSerializer(serializers.Serializer):
    name = serializers.CharField()


class GroupsQuery(PageQuery, PastQuery):
    q = Text(required=False, max_length=200, help_text="A part of the name, ignoring case.")
    name = NameText(required=False, help_text="Only this name.")


class NewGroupSerializer(StrictSerializer):
    """A new group without members."""

    name = NameText(help_text="The name of the group.")
    reason = reason_field()


class Groups(Endpoint):
    rules = {"GET": any_account, "POST": check_administrator}
    queries = {"GET": GroupsQuery}

    @api_operation(
        "groups_list",
        TAG,
        "List groups",
        "Sorted by name. Accounts with the role `ordinary` find only their groups.",
        query=GroupsQuery,
        responses={200: page_serializer(GroupSerializer)},
        response_example={"items": [{"name": "marketing-analytics"}], "next": None},
    )
    @reads_past
    def get(self, request: Request) -> Response:
        query = self.query
        lookups = {"name__icontains": query.get("q"), "name": query.get("name")}
        rows = _visible_groups(request).filter(
            **{name: value for name, value in lookups.items() if value is not None}
        )
        return Response(
            page_of(
                [ListPart(rows, ("name",))],
                _group_as_json,
                query=query,
                identity=list_identity("groups", query),
            )
        )

    @api_operation(
        "groups_create",
        TAG,
        "Add a group",
        "Adds an empty group.",
        request=NewGroupSerializer,
        request_example={"name": "analysts"},
        responses={201: GroupSerializer},
        response_example={"name": "analysts"},
        errors=[409],
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        data = self.body(NewGroupSerializer)
        outcome = add_group(author=author_of(request, data["reason"]), name=data["name"])
        if not outcome.has_changed:
            raise Problem(409, outcome.sentence)
        return created_response({"name": data["name"]}, group_location(data["name"]))


class ChangedGroupSerializer(ResourceForecastSerializer, GroupSerializer):
    """The changed group."""


class GroupChangeSerializer(ForecastRequestSerializer):
    """The new name of a group."""

    name = NameText(help_text="The new name. Grants and memberships follow.")
    reason = reason_field()


class GroupDetail(Endpoint):
    rules = {"GET": any_account, "PATCH": check_administrator, "DELETE": check_administrator}
    queries = {"GET": PastQuery, "DELETE": RemovalQuery}

    @api_operation(
        "groups_retrieve",
        TAG,
        "Read a group",
        "Accounts with the role `ordinary` can only read their groups.",
        query=PastQuery,
        responses={200: GroupSerializer},
        response_example={"name": "marketing-analytics"},
        errors=[404],
        parameters=[GROUP_PATH],
    )
    @reads_past
    def get(self, request: Request, name: str) -> Response:
        return Response(_group_as_json(_group_or_404(request, name)))

    @api_operation(
        "groups_change",
        TAG,
        "Rename a group",
        "The journal keeps the old name. A dry run returns the group as it would be and the effect, which is always empty.",
        request=GroupChangeSerializer,
        request_example={"name": "brand-analytics", "reason": "the team has a new name"},
        responses={200: ChangedGroupSerializer},
        response_example={"name": "brand-analytics"},
        errors=[404, 409],
        parameters=[GROUP_PATH],
    )
    def patch(self, request: Request, name: str) -> Response:
        data = self.body(GroupChangeSerializer)
        _group_or_404(request, name)
        _, members = make_or_forecast(
            ChangeSet(),
            lambda: rename_group(author=author_of(request, data["reason"]), name=name, new_name=data["name"]),
            options=data,
            shows_effect=request.user.can_see_all,
        )
        return Response({"name": data["name"]} | (members if data["dry_run"] else {}))

    @api_operation(
        "groups_remove",
        TAG,
        "Remove a group",
        "Removes the group with its memberships. Groups with grants are refused (409) unless `revoke_grants` is true. A dry run "
        "reports the effect on permissions.",
        query=RemovalQuery,
        responses={200: ForecastOutcomeSerializer},
        response_example=OUTCOME_EXAMPLE | {"sentence": "group:marketing-analytics was removed"},
        errors=[404, 409],
        parameters=[GROUP_PATH],
    )
    def delete(self, request: Request, name: str) -> Response:
        _group_or_404(request, name)
        query = self.query
        return Response(
            outcome_with_forecast(
                ChangeSet.of(RemovePrincipal(f"group:{name}", query["revoke_grants"])),
                author=author_of(request, query["reason"]),
                options=query,
                would=f"group:{name} would be removed",
                shows_effect=request.user.can_see_all,
            )
        )


def _group_as_json(group: Group) -> dict:
    return {"name": group.name}


def _group_or_404(request: Request, name: str) -> Group:
    """Return the group. Raise Http404 if it does not exist, or if the caller may not see it."""
    group = None if storage_fault(name) else _visible_groups(request).filter(name=name).first()
    if group is None:
        raise Http404
    return group


def _visible_groups(request: Request):
    return Group.objects.all() if request.user.can_see_all else groups_of(request.user)
