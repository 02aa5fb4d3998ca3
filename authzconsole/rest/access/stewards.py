"""The REST resource `stewards`: the data stewards of namespaces."""

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import AddressText, PrincipalText, StrictSerializer, reason_field
from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.callers import any_account, author_of, changeable_with
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import api_operation
from authzconsole.rest.people.users import OutcomeSerializer, outcome_as_json
from grants.authority.stewards import stewarded_namespaces
from grants.models import NamespaceSteward
from grants.roles.capabilities import Capability
from grants.stewards.services import add_steward, remove_steward

TAG = "Data stewards"
check_steward_manager = changeable_with(Capability.MANAGE_SETTINGS)


class StewardSerializer(serializers.Serializer):
    namespace = serializers.CharField()
    principal = serializers.CharField(help_text="The user, or the group whose members are stewards.")
    assigned_by = serializers.CharField()
    assigned_at = serializers.DateTimeField()
    reason = serializers.CharField()


class StewardsQuery(PageQuery):
    namespace = AddressText(required=False, help_text="Only stewards of this namespace.")


class NewStewardSerializer(StrictSerializer):
    """A principal that becomes data steward of a namespace."""

    namespace = AddressText(help_text="The address of a registered namespace.")
    principal = PrincipalText()
    reason = reason_field()


class StewardRemovalQuery(StrictSerializer):
    """The steward to remove."""

    namespace = AddressText()
    principal = PrincipalText()
    reason = reason_field()


EXAMPLE = {
    "namespace": "namespace:sales",
    "principal": "group:marketing-analytics",
    "assigned_by": "admin",
    "assigned_at": "2026-02-01T08:00:00Z",
    "reason": "owns the data",
}
OUTCOME_EXAMPLE = {
    "changed": True,
    "revision": 812,
    "sentence": "group:marketing-analytics is a data steward of namespace:sales now",
}
REMOVED = "group:marketing-analytics is no longer a data steward of namespace:sales"


class Stewards(Endpoint):
    rules = {"GET": any_account, "POST": check_steward_manager, "DELETE": check_steward_manager}
    queries = {"GET": StewardsQuery, "DELETE": StewardRemovalQuery}

    @api_operation(
        "stewards_list",
        TAG,
        "List data stewards",
        "The users and groups that see everything in a namespace and approve requests for it. Accounts that do not see "
        "everything get the stewards of the namespaces of which they are stewards.",
        query=StewardsQuery,
        responses={200: page_serializer(StewardSerializer)},
        response_example={"items": [EXAMPLE], "next": None},
    )
    def get(self, request: Request) -> Response:
        rows = _visible_stewards(request)
        if "namespace" in self.query:
            address = self.query["namespace"]
            rows = rows.filter(namespace=address.key) if address.kind == "namespace" else rows.none()
        return Response(
            page_of(
                [ListPart(rows.select_related("user", "group"), ("namespace", "pk"))],
                _steward_as_json,
                query=self.query,
                identity=list_identity("stewards", self.query),
            )
        )

    @api_operation(
        "stewards_add",
        TAG,
        "Assign a data steward",
        "For administrators.",
        request=NewStewardSerializer,
        request_example={
            "namespace": "namespace:sales",
            "principal": "group:marketing-analytics",
            "reason": "owns the data",
        },
        responses={200: OutcomeSerializer},
        response_example=OUTCOME_EXAMPLE,
        errors=[409],
    )
    def post(self, request: Request) -> Response:
        data = self.body(NewStewardSerializer)
        return Response(
            outcome_as_json(
                add_steward(
                    author=author_of(request, data["reason"]),
                    namespace=data["namespace"],
                    principal=data["principal"],
                )
            )
        )

    @api_operation(
        "stewards_remove",
        TAG,
        "Remove a data steward",
        "For administrators.",
        query=StewardRemovalQuery,
        responses={200: OutcomeSerializer},
        errors=[409],
        response_example=OUTCOME_EXAMPLE | {"sentence": REMOVED},
    )
    def delete(self, request: Request) -> Response:
        query = self.query
        return Response(
            outcome_as_json(
                remove_steward(
                    author=author_of(request, query["reason"]),
                    namespace=query["namespace"],
                    principal=query["principal"],
                )
            )
        )


def _visible_stewards(request: Request) -> QuerySet[NamespaceSteward]:
    if request.user.can_see_all:
        return NamespaceSteward.objects.all()
    return NamespaceSteward.objects.filter(namespace__in=stewarded_namespaces(request.user))


def _steward_as_json(steward: NamespaceSteward) -> dict:
    return {
        "namespace": str(steward.address),
        "principal": steward.principal,
        "assigned_by": steward.assigned_by,
        "assigned_at": as_json_time(steward.assigned_at),
        "reason": steward.reason,
    }
