"""The REST resource `members`: memberships, one at a time or many together."""

from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import NameText, reason_field
from authzconsole.common.periods import VALID_FROM, VALID_UNTIL, PeriodSerializer
from authzconsole.lists.people import Members
from authzconsole.rest.dry_runs import (
    ChangeEndpoint,
    ChangeSetOptions,
    DryRunSerializer,
    ForecastQuery,
    ForecastRequestSerializer,
    with_periods,
)
from authzconsole.rest.framework.callers import check_administrator
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.grants import MAX_ITEMS
from authzconsole.rest.people.users import ForecastOutcomeSerializer
from authzconsole.rest.plan_serializers import (
    MembershipItemSerializer,
    NewMembershipSerializer,
    memberships_of,
)
from grants.change_set import Join, Leave
from grants.errors import ChangeRefused
from grants.validity import Validity


class MemberQuery(ForecastQuery):
    group = NameText()
    user = NameText()
    reason = reason_field()


class NewMemberSerializer(ForecastRequestSerializer, PeriodSerializer):
    """A user who becomes a member of a group, in a period. An existing membership gets this period."""

    group = NameText(help_text="The name of the group.")
    user = NameText(help_text="The name of the user.")
    reason = reason_field()


class MembershipChangesSerializer(ChangeSetOptions):
    """Memberships that are added and removed together or not at all."""

    join = NewMembershipSerializer(many=True, required=False, default=list, max_length=MAX_ITEMS)  # type: ignore[call-arg]
    leave = MembershipItemSerializer(many=True, required=False, default=list, max_length=MAX_ITEMS)  # type: ignore[call-arg]


class ChangedMembershipSerializer(output.Output):
    user = output.Text(source="change.user")
    group = output.Text(source="change.group")
    valid_from, valid_until = VALID_FROM, VALID_UNTIL


class MembershipChanges(output.Output):
    joined = ChangedMembershipSerializer(many=True, get=with_periods("joined"))
    left = ChangedMembershipSerializer(many=True, get=with_periods("left"))
    changed_periods = ChangedMembershipSerializer(
        many=True,
        get=with_periods("changed_periods"),
        help_text="Existing memberships that got another period.",
    )


class MembershipOutcomeSerializer(DryRunSerializer, MembershipChanges):
    """The memberships that were changed, or for a dry run would be changed."""


class MemberList(ChangeEndpoint, ListEndpoint):
    """List memberships.

    Memberships of a group, of a user, or all. Accounts with the role `ordinary` find only their
    memberships.
    """

    route, url_name = "members", "rest-members"
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
            return self.outcome(change, f"user:{change.user} {would} group:{change.group}")
        except ChangeRefused as refusal:
            (error,) = refusal.errors
            errors = [{"field": error.field, "message": error.message}] if error.field else []
            raise Problem(400, error.message, errors=errors) from None


class MembershipChangeSet(ChangeEndpoint):
    route, url_name = "memberships", "rest-memberships"

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
                400, f"{len(errors):,} items are invalid, so nothing was changed", errors=errors
            ) from None
        return Response(members | MembershipChanges.data_of(outcome))
