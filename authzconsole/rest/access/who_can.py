"""The REST resource `who-can`: the people who can access an entity, or the entities of a container."""

from django.http import StreamingHttpResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.downloads.access_files import permission_as_json, ways_as_json, who_can_file
from authzconsole.common.fields import AddressText, Choice, KindText, NameText, QueryBoolean, Text
from authzconsole.rest.access.queries import (
    PRIVILEGES,
    TAG,
    QuestionQuery,
    WaysSerializer,
    check_operation_of,
    generation_of,
    rows_in_state,
    state_of,
)
from authzconsole.rest.framework.callers import any_account, check_can_see_all, visible_entity
from authzconsole.rest.framework.cursors import (
    PageQuery,
    cursor_for,
    list_identity,
    page_serializer,
    position_in_list,
)
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import FILE, api_operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.framework.renderers import CsvRenderer, JsonLinesRenderer
from entities.selectors import entity_at
from grants.access.access_lists import AccessList, OperationRow, Target
from grants.access.people_pages import PATH_KINDS, PeopleFilter
from grants.authority.stewards import only_namespace, sees_everything_in
from grants.models import User
from grants.policies.policy import Generation

ROWS_PER_PAGE = 200
ABOUT = (
    "For administrators and auditors. Only active users; only operations with a rule. With `contents`, the rows are about "
    "the live entities on and inside the address, sorted by entity."
)


class WhoCanFilters(QuestionQuery):
    entity = AddressText(required=True)
    contents = QueryBoolean(
        required=False, default=False, help_text="Also every live entity inside the entity."
    )
    kind = KindText(
        required=False, help_text="With `contents`: only entities of this kind, such as `dataset`."
    )
    operation = Text(
        required=False,
        max_length=70,
        help_text="Only this operation, or this privilege on exactly the entity.",
    )
    privilege = Choice(
        choices=PRIVILEGES,
        required=False,
        help_text="Only users who hold this privilege on exactly the entity.",
    )
    q = Text(required=False, max_length=200, help_text="A part of the name of the user, ignoring case.")
    group = NameText(
        required=False,
        help_text="Only members of this group. Data stewards find only members of groups with a "
        "grant in the namespace.",
    )
    path = Choice(
        choices=list(PATH_KINDS),
        required=False,
        help_text="Only operations with a path of this kind: a `direct` grant, or a grant through a `group`.",
    )


class WhoCanQuery(PageQuery, WhoCanFilters):
    sort = Choice(
        choices=["user", "-user"],
        required=False,
        default="user",
        help_text="`-user` sorts the users of each entity in reverse.",
    )


class WhoCanSerializer(WaysSerializer):
    """One operation that a user may perform on an entity."""

    entity = serializers.CharField()
    user = serializers.CharField()


class UserPathsExample:
    """The example in the document of the API."""

    PATH = {"principal": "group:marketing-analytics", "entity": "dataset:sales.orders", "privilege": "READ"}
    ROW = {
        "entity": "dataset:sales.orders",
        "user": "sofia.lindqvist",
        "operation": "read",
        "rule": "READ on the entity",
        "paths": [PATH],
        "only": [PATH],
        "complete": True,
    }


class WhoCan(Endpoint):
    rules = {"GET": any_account}
    queries = {"GET": WhoCanQuery}

    @api_operation(
        "who_can_list",
        TAG,
        "List who can access an entity",
        f"One row for each active user and each operation that is permitted, with the paths: the grants by which. {ABOUT}",
        query=WhoCanQuery,
        responses={200: page_serializer(WhoCanSerializer)},
        response_example={"items": [UserPathsExample.ROW], "next": None},
        errors=[404],
    )
    def get(self, request: Request) -> Response:
        query = self.query
        _check_access(request, query)
        with state_of(query):
            access = _access_list(request.user, query)
            identity = list_identity("who-can", query | {"generation": access.generation.name})
            after = position_in_list(query["cursor"], identity) if query["cursor"] else None
            rows, position = access.operation_page(after, query["limit"])
            items = [_row_as_json(row, access.generation) for row in rows]
        return Response(
            {"items": items, "next": None if position is None else cursor_for(position, identity)}
        )


class _WhoCanFile(Endpoint):
    rules = {"GET": any_account}
    queries = {"GET": WhoCanFilters}

    def get(self, request: Request) -> StreamingHttpResponse:
        _check_access(request, self.query)
        with state_of(self.query):
            access = _access_list(request.user, self.query)
            rows = access.all_rows(ROWS_PER_PAGE)
        return who_can_file(
            rows_in_state(self.query, rows), access.generation, self.renderer_classes[0].format, "who-can"
        )


class WhoCanCsv(_WhoCanFile):
    renderer_classes = [CsvRenderer]

    @api_operation(
        "who_can_csv",
        TAG,
        "Download who can access an entity as CSV",
        f"One line for each path. An apostrophe precedes values that a spreadsheet would treat as a formula. {ABOUT}",
        query=WhoCanFilters,
        responses={(200, "text/csv"): FILE},
        errors=[404],
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        return super().get(request)


class WhoCanJsonLines(_WhoCanFile):
    renderer_classes = [JsonLinesRenderer]

    @api_operation(
        "who_can_jsonl",
        TAG,
        "Download who can access an entity as JSON Lines",
        f"One object for each row. {ABOUT}",
        query=WhoCanFilters,
        responses={(200, "application/x-ndjson"): FILE},
        errors=[404],
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        return super().get(request)


def _check_access(request: Request, query: dict) -> None:
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
    check_operation_of(query, query.get("kind", "") if query["contents"] else address.kind)


def _access_list(account: User, query: dict) -> AccessList:
    """Return the list that the query selects.

    Raise Problem (404) if the entity did not exist at the revision of the query.
    """
    address = query["entity"]
    if "as_of" in query and entity_at(address) is None:
        raise Problem(404, f"{address} did not exist at revision {query['as_of']:,}")
    where = PeopleFilter(
        text=query.get("q", ""),
        group=query.get("group", ""),
        privilege=query.get("privilege", ""),
        operation=query.get("operation", ""),
        path_kind=query.get("path", ""),
        group_namespace=only_namespace(account, address),
    )
    return AccessList(
        Target(address, query["contents"], query.get("kind", "")),
        generation_of(query),
        where,
        query.get("sort") == "-user",
    )


def _row_as_json(row: OperationRow, generation: Generation) -> dict:
    return {
        **permission_as_json(row.address, row.operation, generation),
        "user": row.access.user,
        **ways_as_json(row.access.ways[row.operation]),
    }
