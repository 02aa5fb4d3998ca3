"""The REST resource `managers`: the managers of users, who review their access."""

from django.db import transaction
from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import List, NameText, StrictSerializer, Text, reason_field
from authzconsole.lists.reviews import Managers
from authzconsole.rest.framework.callers import check_administrator
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.operations import operation
from grants.journal import lock_journal
from grants.principal_names import MAX_NAME_CHARACTERS
from grants.reviews.reviewers import set_manager

MAX_MANAGERS = 1_000


class ManagerChangeSerializer(StrictSerializer):
    """The manager of a user."""

    user = NameText(help_text="The name of a user.")
    manager = Text(
        allow_blank=True,
        max_length=MAX_NAME_CHARACTERS,
        help_text="The name of a user; empty removes the manager.",
    )


class ManagersSerializer(StrictSerializer):
    """The managers of users."""

    managers = List(child=ManagerChangeSerializer(), min_length=1, max_length=MAX_MANAGERS)
    reason = reason_field()


class ManagersOutcomeSerializer(output.Output):
    changed = output.Integer(example=1, help_text="The number of users with another manager than before.")


class ManagerList(ListEndpoint):
    """List managers.

    Sorted by the key of the user. For administrators, approvers and auditors.
    """

    route, url_name = "managers", "rest-managers"
    operation_id = "managers_list"
    rows = Managers

    @operation(
        "managers_set",
        check_administrator,
        ManagersOutcomeSerializer,
        body=ManagersSerializer,
    )
    def put(self) -> Response:
        """Set managers.

        Sets the managers of up to {MAX_MANAGERS:,} users, all or none. Other users keep their manager.
        Managers review the access of these users in reviews with that rule. Being a manager gives no
        access.
        """
        data = self.data
        author = self.author
        with transaction.atomic():
            lock_journal()
            outcomes = [
                set_manager(author=author, name=row["user"], manager=row["manager"])
                for row in data["managers"]
            ]
        return Response({"changed": sum(outcome.has_changed for outcome in outcomes)})
