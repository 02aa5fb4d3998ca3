"""The REST resource `groups`."""

from django.contrib.auth.models import Group
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import NameText, StrictSerializer, reason_field
from authzconsole.common.past import PastQuery
from authzconsole.lists.people import Groups, GroupSerializer
from authzconsole.rest.dry_runs import (
    ForecastRequestSerializer,
    ResourceForecastSerializer,
    make_or_forecast,
    outcome_with_forecast,
)
from authzconsole.rest.framework.callers import any_account, author_of, check_administrator
from authzconsole.rest.framework.endpoint import Endpoint, Resource, created_response
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.locations import group_location
from authzconsole.rest.framework.operations import LOCATION, api_operation
from authzconsole.rest.framework.past import reads_past
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.people.users import OUTCOME_EXAMPLE, TAG, ForecastOutcomeSerializer, RemovalQuery
from entities.text import storage_fault
from grants.change_set import RemovePrincipal
from grants.changes import ChangeSet
from grants.principals.renaming import rename_group
from grants.principals.services import add_group


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
    rows = Groups
    rules = {"POST": check_administrator}
    operation = (
        "groups_list",
        TAG,
        "List groups",
        "Sorted by name. Accounts with the role `ordinary` find only their groups.",
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
    resource = GROUP
    found_after_body = ("PATCH",)
    rules = {"GET": any_account, "PATCH": check_administrator, "DELETE": check_administrator}
    queries = {"GET": PastQuery, "DELETE": RemovalQuery}

    @api_operation(
        "groups_retrieve",
        TAG,
        "Read a group",
        "Accounts with the role `ordinary` can only read their groups.",
        query=PastQuery,
        responses={200: GroupSerializer},
    )
    @reads_past
    def get(self, request: Request, name: str) -> Response:
        return Response(GroupSerializer.data_of(self.object))

    @api_operation(
        "groups_change",
        TAG,
        "Rename a group",
        "The journal keeps the old name. A dry run returns the group as it would be and the effect, which is always empty.",
        request=GroupChangeSerializer,
        request_example={"name": "brand-analytics", "reason": "the team has a new name"},
        responses={200: ChangedGroupSerializer},
        response_example={"name": "brand-analytics"},
        errors=[409],
    )
    def patch(self, request: Request, name: str) -> Response:
        data = self.body(GroupChangeSerializer)
        self.find_object({"name": name})
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
        errors=[409],
    )
    def delete(self, request: Request, name: str) -> Response:
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
