"""The REST resource `groups`."""

from django.contrib.auth.models import Group
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import NameText, StrictSerializer, reason_field
from authzconsole.common.past import PastQuery
from authzconsole.lists.people import Groups, GroupSerializer
from authzconsole.rest.dry_runs import (
    ChangeEndpoint,
    ForecastRequestSerializer,
    ResourceForecastSerializer,
)
from authzconsole.rest.framework.callers import any_account, check_administrator
from authzconsole.rest.framework.endpoint import Resource, created_response
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.locations import group_location
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.framework.past import reads_past
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.people.users import ForecastOutcomeSerializer, RemovalQuery
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
    """List groups.

    Sorted by name. Accounts with the role `ordinary` find only their groups.
    """

    route, url_name = "groups", "rest-groups"
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
        return created_response({"name": data["name"]}, group_location(data["name"]))


class ChangedGroupSerializer(ResourceForecastSerializer, GroupSerializer):
    """The changed group."""


class GroupChangeSerializer(ForecastRequestSerializer):
    """The new name of a group."""

    name = NameText(help_text="The new name. Grants and memberships follow.")
    reason = reason_field()


class GroupDetail(ChangeEndpoint):
    route, url_name = "groups/<path:name>", "rest-group"
    resource = GROUP
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
        new_name = self.data["name"]
        self.find_object(self.kwargs)
        _, members = self.make(
            ChangeSet(),
            lambda: rename_group(author=self.author, name=self.kwargs["name"], new_name=new_name),
        )
        return Response({"name": new_name} | (members if self.is_dry_run else {}))

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
        principal = f"group:{self.kwargs['name']}"
        return self.outcome(
            RemovePrincipal(principal, self.query["revoke_grants"]), f"{principal} would be removed"
        )
