"""The REST resource `managers`: the managers of users, who review their access."""

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import List, NameText, StrictSerializer, Text, reason_field
from authzconsole.lists.reviews import Managers
from authzconsole.rest.framework.callers import author_of, check_administrator
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.operations import api_operation
from authzconsole.rest.reviews.campaigns import TAG
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
    rows = Managers
    rules = {"PUT": check_administrator}
    operation = (
        "managers_list",
        TAG,
        "List managers",
        "Sorted by the key of the user. For administrators, approvers and auditors.",
    )

    @api_operation(
        "managers_set",
        TAG,
        "Set managers",
        f"Sets the managers of up to {MAX_MANAGERS:,} users, all or none. Other users keep their manager. Managers review the "
        "access of these users in reviews with that rule. Being a manager gives no access.",
        request=ManagersSerializer,
        request_example={"managers": [{"user": "sofia.lindqvist", "manager": "diego.morales"}]},
        responses={200: ManagersOutcomeSerializer},
        errors=[409],
    )
    def put(self, request: Request) -> Response:
        data = self.body(ManagersSerializer)
        author = author_of(request, data["reason"])
        with transaction.atomic():
            lock_journal()
            outcomes = [
                set_manager(author=author, name=row["user"], manager=row["manager"])
                for row in data["managers"]
            ]
        return Response({"changed": sum(outcome.has_changed for outcome in outcomes)})
