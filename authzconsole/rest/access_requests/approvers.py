"""The groups that decide about requests for namespaces."""

from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.rest.access_requests.requests import TAG
from authzconsole.rest.access_requests.serializers import ApproversSerializer, SetApproversSerializer
from authzconsole.rest.framework.callers import author_of, check_administrator, check_can_see_all
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import api_operation
from grants.models import NamespaceApprovers
from grants.requests.approvers import set_namespace_approvers

EXAMPLE = {"namespace": "namespace:finance", "group": "finance-stewards"}


class Approvers(Endpoint):
    rules = {"GET": check_can_see_all, "PUT": check_administrator}
    queries = {"GET": PageQuery}

    @api_operation(
        "approvers_list",
        TAG,
        "List the approvers of namespaces",
        "The groups whose members decide about access requests for a namespace and everything in it, besides administrators. For "
        "administrators and auditors.",
        query=PageQuery,
        responses={200: page_serializer(ApproversSerializer)},
        response_example={"items": [EXAMPLE], "next": None},
    )
    def get(self, request: Request) -> Response:
        rows = NamespaceApprovers.objects.select_related("group")
        return Response(
            page_of(
                [ListPart(rows, ("namespace",))],
                _approvers_as_json,
                query=self.query,
                identity=list_identity("approvers", self.query),
            )
        )

    @api_operation(
        "approvers_set",
        TAG,
        "Set the approvers of a namespace",
        "Names the group, or none. The namespace need not be registered yet. For administrators.",
        request=SetApproversSerializer,
        request_example=EXAMPLE,
        responses={200: ApproversSerializer},
        response_example=EXAMPLE,
    )
    def put(self, request: Request) -> Response:
        data = self.body(SetApproversSerializer)
        set_namespace_approvers(
            author=author_of(request), namespace=data["namespace"], group=data["group"] or ""
        )
        return Response({"namespace": str(data["namespace"]), "group": data["group"]})


def _approvers_as_json(row: NamespaceApprovers) -> dict:
    return {"namespace": str(row.address), "group": row.group.name}
