"""Lists in REST: the endpoint of a list with its signed cursors, and the downloads."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import StrictSerializer
from authzconsole.common.past import PastQuery
from authzconsole.lists.base import List
from authzconsole.lists.files import list_file
from authzconsole.rest.framework.callers import any_account, readable_with
from authzconsole.rest.framework.cursors import (
    PageQuery,
    cursor_for,
    list_identity,
    page_serializer,
    position_in_list,
)
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import FILE, api_operation
from authzconsole.rest.framework.past import reads_past
from authzconsole.rest.framework.renderers import CsvRenderer, JsonLinesRenderer, ParquetRenderer

RENDERERS = {"csv": CsvRenderer, "jsonl": JsonLinesRenderer, "parquet": ParquetRenderer}
FORMULAS = "An apostrophe precedes values that a spreadsheet would treat as a formula."


class ListResource(Endpoint):
    """What the pages of a list and its downloads have in common.

    rows: the list. operation: the operation id, the tag, the summary and the description in the OpenAPI
    document. errors, parameters: those besides the usual ones.
    """

    rows: ClassVar[type[List]]
    operation: ClassVar[tuple[str, str, str, str]]
    errors: ClassVar[tuple[int, ...]] = ()
    parameters: ClassVar[tuple[OpenApiParameter, ...]] = ()

    def read_list(self, request: Request, **path: Any) -> List:
        """Return the list of the request. path: the variable parts of the URL."""
        return self.rows(request.user, self.query, self.object)


class ListEndpoint(ListResource):
    """A list in pages. Subclasses can have the methods of other verbs too.

    more: members of a page besides `items` and `next`; `more_members` returns their values.
    options: query parameters besides those of pages and the filters.
    """

    more: ClassVar[dict[str, serializers.Field]] = {}
    options: ClassVar[tuple[type[StrictSerializer], ...]] = ()

    def __init_subclass__(cls, **arguments):
        if "rows" in vars(cls):
            past = (PastQuery,) if cls.rows.reads_past else ()
            bases = (PageQuery, *past, cls.rows.filter_fields, *cls.options)
            query = type(f"{cls.__name__}Query", bases, {"__doc__": None})
            cls.queries = {"GET": query, **cls.queries}
            cls.rules = {
                "GET": readable_with(*cls.rows.readers) if cls.rows.readers else any_account
            } | cls.rules

            def get(self, request: Request, **path: Any) -> Response:
                return self.list_page(request, **path)

            cls.get = api_operation(
                *cls.operation,
                query=query,
                responses={200: page_serializer(cls.rows.output, **cls.more)},
                errors=cls.errors,
            )(reads_past(get) if cls.rows.reads_past else get)
        super().__init_subclass__(**arguments)

    def more_members(self) -> dict:
        """Return further members of the page. They are read before the rows."""
        return {}

    def list_page(self, request: Request, **path: Any) -> Response:
        more, listed, query = self.more_members(), self.read_list(request, **path), self.query
        identity = [*listed.identity(), *list_identity("", query)]
        after = position_in_list(query["cursor"], identity) if query["cursor"] else None
        rows, position = listed.page(after, query["limit"])
        next_cursor = None if position is None else cursor_for(position, identity)
        return Response({"items": listed.members(rows), "next": next_cursor, **more})


class Download(ListResource):
    """A list as a file, in one format for each extension of `lines`.

    operation: as of a list, but the id is followed by the extension, and the summary by the format.
    lines: what a line is, by extension.
    """

    lines: ClassVar[dict[str, str]] = {"csv": FORMULAS, "jsonl": ""}

    @classmethod
    def paths(cls, route: str, name: str) -> list[URLPattern]:
        """Return the URLs of the files."""
        return [
            path(f"{route}.{extension}", cls._view(extension), name=f"{name}-{extension}")
            for extension in cls.lines
        ]

    @classmethod
    def _view(cls, extension: str) -> Callable:
        renderer = RENDERERS[extension]
        operation_id, tag, summary, about = cls.operation
        rules = {"GET": readable_with(*cls.rows.readers) if cls.rows.readers else any_account}

        def get(self, request: Request, **path: Any) -> HttpResponseBase:
            return self.file(request, extension, **path)

        describe = api_operation(
            f"{operation_id}_{extension}",
            tag,
            f"Download {summary} as {renderer.title}",
            f"{cls.lines[extension]} {about}".strip(),
            query=cls.queries.get("GET", cls.rows.filter_fields),
            responses={(200, renderer.media_type): FILE},
            errors=cls.errors,
            parameters=cls.parameters,
        )
        members = {"get": describe(get), "renderer_classes": [renderer], "rules": rules | cls.rules}
        if "GET" not in cls.queries:
            members["queries"] = {"GET": cls.rows.filter_fields}
        return type(f"{cls.__name__}{renderer.__name__}", (cls,), members).as_view()

    def file(self, request: Request, extension: str, **path: Any) -> HttpResponseBase:
        return list_file(self.read_list(request, **path), extension)
