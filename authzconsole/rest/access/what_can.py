"""The REST resource `what-can`: the entities and operations that are permitted to a user or group."""

from collections.abc import Iterator, Sequence

from django.http import Http404, StreamingHttpResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.downloads.access_files import permission_as_json, ways_as_json, what_can_file
from authzconsole.common.fields import Choice, KindText, PrincipalText, Text
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
from authzconsole.rest.framework.callers import any_account, check_can_see_all
from authzconsole.rest.framework.cursors import (
    PageQuery,
    cursor_for,
    list_identity,
    page_serializer,
    position_in_list,
)
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import FILE, api_operation
from authzconsole.rest.framework.renderers import CsvRenderer, JsonLinesRenderer
from entities.address import Address
from grants.access.entity_pages import AccessibleEntities, EntityFilter
from grants.access.what_can import kinds_in_byte_order
from grants.active_generation import active_generation
from grants.principal_names import parse_principal
from grants.principal_rows import principals_by_name

ABOUT = (
    "Only live entities and operations with a rule. An inactive user can do nothing. Accounts with the role `ordinary` "
    "can only ask about themselves, and get only entities that they see or have a grant on."
)


class WhatCanFilters(QuestionQuery):
    principal = PrincipalText(required=True)
    q = Text(
        required=False,
        max_length=200,
        help_text="A part of the key, ignoring case, or a kind with the start of a key, such as `dataset:sales.or`.",
    )
    kind = KindText(required=False, help_text="Only entities of this kind, such as `dataset`.")
    namespace = Text(
        required=False, max_length=200, help_text="Only this namespace and the entities inside it."
    )
    operation = Text(
        required=False, max_length=70, help_text="Only entities on which this operation is permitted."
    )
    privilege = Choice(
        choices=PRIVILEGES, required=False, help_text="Only entities on which exactly this privilege is held."
    )


class WhatCanQuery(PageQuery, WhatCanFilters):
    pass


class WhatCanSerializer(WaysSerializer):
    """One operation that is permitted on an entity."""

    entity = serializers.CharField()


PATH = {"principal": "group:marketing-analytics", "entity": "dataset:sales.orders", "privilege": "READ"}
EXAMPLE = {
    "entity": "dataset:sales.orders",
    "operation": "read",
    "rule": "READ on the entity",
    "paths": [PATH],
    "only": [PATH],
    "complete": True,
}


class WhatCan(Endpoint):
    rules = {"GET": any_account}
    queries = {"GET": WhatCanQuery}

    @api_operation(
        "what_can_list",
        TAG,
        "List what a principal can do",
        f"One row for each live entity and each operation that is permitted, with the paths: the grants by which. {ABOUT}",
        query=WhatCanQuery,
        responses={200: page_serializer(WhatCanSerializer)},
        response_example={"items": [EXAMPLE], "next": None},
        errors=[404],
    )
    def get(self, request: Request) -> Response:
        query = self.query
        _check_access(request, query)
        with state_of(query):
            entities = _entities(request, query)
            identity = list_identity("what-can", query | {"generation": entities.generation.name})
            after = position_in_list(query["cursor"], identity) if query["cursor"] else None
            rows, position = _operation_page(entities, after, query["limit"])
        return Response({"items": rows, "next": None if position is None else cursor_for(position, identity)})


class _WhatCanFile(Endpoint):
    rules = {"GET": any_account}
    queries = {"GET": WhatCanFilters}

    def get(self, request: Request) -> StreamingHttpResponse:
        _check_access(request, self.query)
        with state_of(self.query):
            entities = _entities(request, self.query)
            rows = entities.all_rows()
        return what_can_file(
            rows_in_state(self.query, rows), entities.generation, self.renderer_classes[0].format, "what-can"
        )


class WhatCanCsv(_WhatCanFile):
    renderer_classes = [CsvRenderer]

    @api_operation(
        "what_can_csv",
        TAG,
        "Download what a principal can do as CSV",
        f"One line for each path. An apostrophe precedes values that a spreadsheet would treat as a formula. {ABOUT}",
        query=WhatCanFilters,
        responses={(200, "text/csv"): FILE},
        errors=[404],
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        return super().get(request)


class WhatCanJsonLines(_WhatCanFile):
    renderer_classes = [JsonLinesRenderer]

    @api_operation(
        "what_can_jsonl",
        TAG,
        "Download what a principal can do as JSON Lines",
        f"One object for each row. {ABOUT}",
        query=WhatCanFilters,
        responses={(200, "application/x-ndjson"): FILE},
        errors=[404],
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        return super().get(request)


def _check_access(request: Request, query: dict) -> None:
    """Raise Http404 or Problem (403) for accounts that may not read the list, ValidationError for an unknown
    operation.
    """
    if not request.user.can_see_all and query["principal"] != f"user:{request.user.username}":
        raise Http404
    if "at" in query:
        # the grants of another time do not decide which of the present entities an account may see
        check_can_see_all(request)
    check_operation_of(query, query.get("kind", ""))


def _entities(request: Request, query: dict) -> AccessibleEntities:
    """Return the entities that the query selects. Raise Http404 if there is no such principal."""
    principal = query["principal"]
    if principal not in principals_by_name([principal]):
        raise Http404
    where = EntityFilter(
        text=query.get("q", ""),
        kind=query.get("kind", ""),
        namespace=query.get("namespace", ""),
        privilege=query.get("privilege", ""),
        operation=query.get("operation", ""),
    )
    return AccessibleEntities.of(
        *parse_principal(principal),
        generation_of(query),
        where,
        kinds_in_byte_order(),
        visible_in=None if request.user.can_see_all else active_generation(),
    )


def _operation_page(
    entities: AccessibleEntities, after: Sequence | None, max_rows: int
) -> tuple[list[dict], tuple | None]:
    """Return a page with a row for each operation on an entity, and the position of its last row; None on the
    last page.
    """
    rows: list[dict] = []
    for row in _rows(entities, after, max_rows):
        if len(rows) == max_rows:
            kind, _, key = rows[-1]["entity"].partition(":")
            return rows, (kind, key, rows[-1]["operation"])
        rows.append(row)
    return rows, None


def _rows(entities: AccessibleEntities, after: Sequence | None, max_rows: int) -> Iterator[dict]:
    address = None
    if after is not None:
        address = Address(after[0], after[1])
        for row in entities.access_to([address]):
            yield from (
                permission_as_json(row.address, operation, entities.generation) | ways_as_json(ways)
                for operation, ways in row.ways.items()
                if operation > after[2]
            )
    for row in entities.all_rows(address, max(10, max_rows // 4)):
        for operation, ways in row.ways.items():
            yield permission_as_json(row.address, operation, entities.generation) | ways_as_json(ways)
