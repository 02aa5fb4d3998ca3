"""The REST resources `who-can`, `what-can` and `stewards`: effective access, and the data stewards of
namespaces.
"""

from django.http import Http404
from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import AddressText, Choice, PrincipalText, StrictSerializer, reason_field
from authzconsole.common.past import moment_of_query
from authzconsole.lists.access import Stewards, WhatCan, WhoCan
from authzconsole.rest.framework.callers import (
    author_of,
    changeable_with,
    check_can_see_all,
    visible_entity,
)
from authzconsole.rest.framework.lists import FORMULAS, Download, ListEndpoint
from authzconsole.rest.framework.operations import api_operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.people.users import OutcomeSerializer
from entities.selectors import entity_at
from entities.vocabulary import KINDS, Privilege, clip
from grants.access.requirements import UnknownOperation, check_operation
from grants.authority.stewards import sees_everything_in
from grants.history import at_moment
from grants.principal_rows import principals_by_name
from grants.roles.capabilities import Capability
from grants.stewards.services import add_steward, remove_steward

TAG = "Access"
ABOUT_WHO_CAN = (
    "For administrators and auditors. Only active users; only operations with a rule. With `contents`, the rows are about "
    "the live entities on and inside the address, sorted by entity."
)
ABOUT_WHAT_CAN = (
    "Only live entities and operations with a rule. An inactive user can do nothing. Accounts with the role `ordinary` "
    "can only ask about themselves, and get only entities that they see or have a grant on."
)
check_steward_manager = changeable_with(Capability.MANAGE_SETTINGS)


class WhoCanOptions(StrictSerializer):
    """How the users are sorted."""

    sort = Choice(
        choices=["user", "-user"],
        required=False,
        default="user",
        help_text="`-user` sorts the users of each entity in reverse.",
    )


class WhoCanList(ListEndpoint):
    rows = WhoCan
    options = (WhoCanOptions,)
    operation = (
        "who_can_list",
        TAG,
        "List who can access an entity",
        f"One row for each active user and each operation that is permitted, with the paths: the grants by which. {ABOUT_WHO_CAN}",
    )
    errors = (404,)

    def list_page(self, request: Request, **path) -> Response:
        _check_who_can(request, self.query)
        with at_moment(moment_of_query(self.query)):
            _check_existed(self.query)
            return super().list_page(request)


class WhoCanFiles(Download):
    rows = WhoCan
    operation = "who_can", TAG, "who can access an entity", ABOUT_WHO_CAN
    lines = {"csv": f"One line for each path. {FORMULAS}", "jsonl": "One object for each row."}
    errors = (404,)

    def file(self, request: Request, extension: str, **path) -> HttpResponseBase:
        _check_who_can(request, self.query)
        with at_moment(moment_of_query(self.query)):
            _check_existed(self.query)
            return super().file(request, extension)


class WhatCanList(ListEndpoint):
    rows = WhatCan
    operation = (
        "what_can_list",
        TAG,
        "List what a principal can do",
        f"One row for each live entity and each operation that is permitted, with the paths: the grants by which. {ABOUT_WHAT_CAN}",
    )
    errors = (404,)

    def list_page(self, request: Request, **path) -> Response:
        _check_what_can(request, self.query)
        with at_moment(moment_of_query(self.query)):
            _check_principal(self.query)
            return super().list_page(request)


class WhatCanFiles(Download):
    rows = WhatCan
    operation = "what_can", TAG, "what a principal can do", ABOUT_WHAT_CAN
    lines = WhoCanFiles.lines
    errors = (404,)

    def file(self, request: Request, extension: str, **path) -> HttpResponseBase:
        _check_what_can(request, self.query)
        with at_moment(moment_of_query(self.query)):
            _check_principal(self.query)
            return super().file(request, extension)


def _check_who_can(request: Request, query: dict) -> None:
    """Raise Http404 or Problem (403) for accounts that may not read the list, ValidationError for
    contradictory parameters.
    """
    address = query["entity"]
    if not sees_everything_in(request.user, address):
        visible_entity(request, address)
        check_can_see_all(request)
    elif not request.user.can_see_all:
        visible_entity(request, address)
    if "kind" in query and not query["contents"]:
        raise serializers.ValidationError({"kind": ["this needs `contents=true`"]})
    _check_operation(query, query.get("kind", "") if query["contents"] else address.kind)


def _check_existed(query: dict) -> None:
    """Raise Problem (404) if the entity did not exist at the revision of the query."""
    if "as_of" in query and entity_at(query["entity"]) is None:
        raise Problem(404, f"{query['entity']} did not exist at revision {query['as_of']:,}")


def _check_what_can(request: Request, query: dict) -> None:
    """Raise Http404 or Problem (403) for accounts that may not read the list, ValidationError for an unknown
    operation.
    """
    if not request.user.can_see_all and query["principal"] != f"user:{request.user.username}":
        raise Http404
    if "at" in query:
        # the grants of another time do not decide which of the present entities an account may see
        check_can_see_all(request)
    _check_operation(query, query.get("kind", ""))


def _check_principal(query: dict) -> None:
    """Raise Http404 if there is no such principal."""
    if query["principal"] not in principals_by_name([query["principal"]]):
        raise Http404


def _check_operation(query: dict, kind: str) -> None:
    """Raise ValidationError if the kind does not have the operation of the query. kind: empty for any kind."""
    operation = query.get("operation")
    if operation is None:
        return
    try:
        if kind:
            check_operation(kind, operation)
        elif operation not in Privilege.__members__ and not any(
            operation in kind.operations for kind in KINDS.values()
        ):
            raise UnknownOperation(f"`{clip(operation)}` is not an operation of any kind")
    except UnknownOperation as error:
        raise serializers.ValidationError({"operation": [str(error)]}) from None


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


OUTCOME_EXAMPLE = {
    "changed": True,
    "revision": 812,
    "sentence": "group:marketing-analytics is a data steward of namespace:sales now",
}
REMOVED = "group:marketing-analytics is no longer a data steward of namespace:sales"


class StewardList(ListEndpoint):
    rows = Stewards
    rules = {"POST": check_steward_manager, "DELETE": check_steward_manager}
    queries = {"DELETE": StewardRemovalQuery}
    operation = (
        "stewards_list",
        "Data stewards",
        "List data stewards",
        "The users and groups that see everything in a namespace and approve requests for it. Accounts that do not see "
        "everything get the stewards of the namespaces of which they are stewards.",
    )

    @api_operation(
        "stewards_add",
        "Data stewards",
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
            OutcomeSerializer.data_of(
                add_steward(
                    author=author_of(request, data["reason"]),
                    namespace=data["namespace"],
                    principal=data["principal"],
                )
            )
        )

    @api_operation(
        "stewards_remove",
        "Data stewards",
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
            OutcomeSerializer.data_of(
                remove_steward(
                    author=author_of(request, query["reason"]),
                    namespace=query["namespace"],
                    principal=query["principal"],
                )
            )
        )
