"""The REST resource `members`: memberships, one at a time or many together."""

from typing import NamedTuple

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import Boolean, Integer, NameText, StrictSerializer, reason_field
from authzconsole.common.periods import VALID_FROM, VALID_UNTIL, PeriodSerializer
from authzconsole.lists.people import Members
from authzconsole.rest.dry_runs import (
    DryRunSerializer,
    ForecastQuery,
    ForecastRequestSerializer,
    change_set_outcome,
    outcome_with_forecast,
)
from authzconsole.rest.framework.callers import author_of, check_administrator
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.grants import MAX_ITEMS
from authzconsole.rest.people.users import ForecastOutcomeSerializer
from authzconsole.rest.permission_effects import effect_digest_field
from authzconsole.rest.plan_serializers import (
    MembershipItemSerializer,
    NewMembershipSerializer,
    memberships_of,
)
from grants.change_set import Join, Leave
from grants.changes import ChangeSet
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


class MembershipChangesSerializer(StrictSerializer):
    """Memberships that are added and removed together or not at all."""

    join = NewMembershipSerializer(many=True, required=False, default=list, max_length=MAX_ITEMS)  # type: ignore[call-arg]
    leave = MembershipItemSerializer(many=True, required=False, default=list, max_length=MAX_ITEMS)  # type: ignore[call-arg]
    reason = reason_field()
    base_revision = Integer(required=False, help_text="Refuse (409) if the journal has a newer revision.")
    dry_run = Boolean(required=False, default=False, help_text="Report the effect without changing anything.")
    effect_digest = effect_digest_field()


class ShownMembership(NamedTuple):
    """A membership that was changed. validity: the period to show."""

    change: Join | Leave
    validity: Validity


class ChangedMembershipSerializer(output.Output):
    user = output.Text(source="change.user")
    group = output.Text(source="change.group")
    valid_from, valid_until = VALID_FROM, VALID_UNTIL


class MembershipOutcomeSerializer(DryRunSerializer):
    """The memberships that were changed, or for a dry run would be changed."""

    dry_run = serializers.BooleanField()
    changed = serializers.BooleanField()
    sentence = serializers.CharField()
    revision = serializers.IntegerField(
        help_text="The newest revision of the journal; use it as the `base_revision` of the next change."
    )
    joined = ChangedMembershipSerializer(many=True)
    left = ChangedMembershipSerializer(many=True)
    changed_periods = ChangedMembershipSerializer(
        many=True, help_text="Existing memberships that got another period."
    )
    unchanged = serializers.ListField(
        child=serializers.CharField(), help_text="One sentence for each item that changed nothing."
    )
    principals = serializers.ListField(
        child=serializers.CharField(), help_text="Accounts of the console that became principals."
    )


class MemberList(ListEndpoint):
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
        change = Join(data["user"], data["group"], data.get("validity", Validity()))
        return _change_membership(self.request, change, data, "would be in")

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
        change = Leave(self.query["user"], self.query["group"])
        return _change_membership(self.request, change, self.query, "would no longer be in")


class MembershipChangeSet(Endpoint):
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
        data = self.data
        change_set = memberships_of(data)
        if not len(change_set):
            raise Problem(400, "nothing to change: put items into `join` or `leave`")
        if len(change_set) > MAX_ITEMS:
            raise Problem(400, f"the request contains {len(change_set):,} items; the limit is {MAX_ITEMS:,}")
        try:
            outcome, members = change_set_outcome(
                change_set,
                author=self.author,
                options=data,
                base_revision=data.get("base_revision"),
            )
        except ChangeRefused as refusal:
            errors = [
                {"list": error.verb, "index": error.index, "message": error.message}
                for error in refusal.errors
            ]
            raise Problem(
                400, f"{len(errors):,} items are invalid, so nothing was changed", errors=errors
            ) from None
        return Response(
            members
            | {
                "joined": [_change_as_json(change, change.validity) for change in outcome.joined],
                "left": [_change_as_json(change, outcome.before[change.key]) for change in outcome.left],
                "changed_periods": [
                    _change_as_json(change, change.validity) for change in outcome.changed_periods
                ],
            }
        )


def _change_as_json(change: Join | Leave, validity: Validity) -> dict:
    return ChangedMembershipSerializer.data_of(ShownMembership(change, validity))


def _change_membership(request: Request, change: Join | Leave, data: dict, would: str) -> Response:
    try:
        content = outcome_with_forecast(
            ChangeSet.of(change),
            author=author_of(request, data["reason"]),
            options=data,
            would=f"user:{change.user} {would} group:{change.group}",
            shows_effect=request.user.can_see_all,
        )
    except ChangeRefused as refusal:
        (error,) = refusal.errors
        raise Problem(
            400,
            error.message,
            errors=[{"field": error.field, "message": error.message}] if error.field else [],
        ) from None
    return Response(content)
