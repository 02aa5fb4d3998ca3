"""The REST resource `managers`: the managers of users, who review their access."""

from django.db import transaction
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import List, NameText, StrictSerializer, Text, reason_field
from authzconsole.rest.framework.callers import author_of, check_administrator, check_can_see_all
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import api_operation
from authzconsole.rest.reviews.campaigns import TAG
from grants.journal import lock_journal
from grants.models.reviews import UserManagerLink
from grants.principal_names import MAX_NAME_CHARACTERS
from grants.reviews.reviewers import set_manager

MAX_MANAGERS = 1_000


class ManagerSerializer(serializers.Serializer):
    user = serializers.CharField()
    manager = serializers.CharField()


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


class ManagersOutcomeSerializer(serializers.Serializer):
    changed = serializers.IntegerField(help_text="The number of users with another manager than before.")


class Managers(Endpoint):
    rules = {"GET": check_can_see_all, "PUT": check_administrator}
    queries = {"GET": PageQuery}

    @api_operation(
        "managers_list",
        TAG,
        "List managers",
        "Sorted by the key of the user. For administrators, approvers and auditors.",
        query=PageQuery,
        responses={200: page_serializer(ManagerSerializer)},
        response_example={"items": [{"user": "sofia.lindqvist", "manager": "diego.morales"}], "next": None},
    )
    def get(self, request: Request) -> Response:
        rows = UserManagerLink.objects.select_related("user", "manager")
        return Response(
            page_of(
                [ListPart(rows, ("pk",))],
                _link_as_json,
                query=self.query,
                identity=list_identity("managers", self.query),
            )
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
        response_example={"changed": 1},
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


def _link_as_json(link: UserManagerLink) -> dict:
    return {"user": link.user.username, "manager": link.manager.username}
