"""Lists in REST: the endpoint of a list with its signed cursors, and the downloads.

Every page costs as much as the first one. Renderers declare the media types of files for content negotiation and
the OpenAPI document; views write the files.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.response import Response

from authzconsole.common.fields import QueryInteger, QuerySerializer, StrictSerializer, Text
from authzconsole.common.paging import CursorOfAnotherList, InvalidCursor, read_cursor, sign_cursor
from authzconsole.common.periods import PastQuery
from authzconsole.common.zip_files import ZIP
from authzconsole.lists.base import List
from authzconsole.lists.files import list_file
from authzconsole.rest.framework.callers import any_account, readable_with
from authzconsole.rest.framework.endpoint import Endpoint, reads_past
from authzconsole.rest.framework.operations import FILE, operation, texts_of
from authzconsole.rest.framework.problems import Problem

MAX_ROWS, DEFAULT_ROWS = 1_000, 50
SALT = "authzconsole.rest.cursor"


class PageQuery(QuerySerializer):
    limit = QueryInteger(
        default=DEFAULT_ROWS,
        min_value=1,
        max_value=MAX_ROWS,
        help_text=f"The number of items per page: 1 to {MAX_ROWS:,}, by default {DEFAULT_ROWS}.",
    )
    cursor = Text(
        default="",
        allow_blank=True,
        max_length=4_000,
        help_text="The `next` member of the previous page. All other parameters except `limit` must stay the same.",
    )


@cache
def page_serializer(
    item: type[serializers.Serializer], **fields: serializers.Field
) -> type[serializers.Serializer]:
    """Return the serializer of a page of `item`. `fields` are further members of the page."""
    name = item.__name__.removesuffix("Serializer") + "Page"
    return type(
        name,
        (serializers.Serializer,),
        {
            "items": item(many=True),
            "next": serializers.CharField(
                allow_null=True, help_text="The cursor of the next page; null on the last page."
            ),
            **fields,
            "__doc__": None,
        },
    )


def cursor_for(position: object, identity: object) -> str:
    return sign_cursor(position, list_identity=identity, salt=SALT)


def position_in_list(cursor: str, identity: object):
    """Return the position in a cursor. Raise Problem if it was altered or belongs to another list."""
    try:
        return read_cursor(cursor, list_identity=identity, salt=SALT)
    except InvalidCursor:
        raise Problem(
            400,
            "`cursor` was not issued by this console, or was altered: leave it out to start with the first page",
            errors=[{"field": "cursor", "message": "not a cursor of this console"}],
        ) from None
    except CursorOfAnotherList:
        raise Problem(
            400,
            "`cursor` belongs to another list: do not change any other parameter",
            errors=[{"field": "cursor", "message": "a cursor of another list"}],
        ) from None


def list_identity(name: str, query: dict) -> Iterable:
    """Return the identity of this list: its name and its filters, but not its page size."""
    return [
        name,
        *(f"{key}={value}" for key, value in sorted(query.items()) if key not in ("cursor", "limit", "wait")),
    ]


class CsvRenderer(BaseRenderer):
    media_type, format = "text/csv", "csv"
    title = "CSV"


class JsonLinesRenderer(BaseRenderer):
    media_type, format = "application/x-ndjson", "jsonl"
    title = "JSON Lines"


class ParquetRenderer(BaseRenderer):
    media_type, format = "application/vnd.apache.parquet", "parquet"
    title = "Parquet"


class ZipRenderer(BaseRenderer):
    media_type, format = ZIP, "zip"


RENDERERS = {"csv": CsvRenderer, "jsonl": JsonLinesRenderer, "parquet": ParquetRenderer}
FORMULAS = "An apostrophe precedes values that a spreadsheet would treat as a formula."


class Download(Endpoint):
    """A list as a file, in one format for each extension of `files`.

    The docstring of a subclass is the text of the OpenAPI document.

    rows: the list. files: what a line is, by extension. files_id: the operation id and the
    name of the URL, which the extension follows. files_route: the URL without the extension; by default that of the list.
    files_query: the parameters; by default the filters of the list.
    rule: of reads; by default the readers of the list. errors, parameters: those besides the usual ones.
    """

    rows: ClassVar[type[List]]
    files: ClassVar[dict[str, str]] = {}
    files_id: ClassVar[str] = ""
    files_route: ClassVar[str] = ""
    files_query: ClassVar[type[StrictSerializer] | None] = None
    rule: ClassVar[Callable | None] = None
    errors: ClassVar[tuple[int, ...]] = ()
    parameters: ClassVar[tuple[OpenApiParameter, ...]] = ()

    def read_list(self) -> List:
        """Return the list of the request."""
        return self.rows(self.request.user, self.query, self.object)

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which the list is read. It raises Problem if the caller may not read it."""
        return nullcontext()

    def file(self, extension: str) -> HttpResponseBase:
        return list_file(self.read_list(), extension)

    @classmethod
    def paths(cls) -> list[URLPattern]:
        return [
            path(
                f"{cls.files_route or cls.route}.{extension}",
                cls._file_view(extension),
                name=f"{cls.files_id}_{extension}",
            )
            for extension in cls.files
        ]

    @classmethod
    def _rule(cls) -> Callable:
        default = readable_with(*cls.rows.readers) if cls.rows.readers else any_account
        return cls.rule or default

    @classmethod
    def _file_view(cls, extension: str) -> Callable:
        renderer = RENDERERS[extension]
        summary, about = texts_of(cls)

        def get(self) -> HttpResponseBase:
            with self.reading():
                return self.file(extension)

        get.__doc__ = f"""Download {summary.partition(" ")[2]} as {renderer.title}

        {cls.files[extension]} {about}"""
        describe = operation(
            f"{cls.files_id}_{extension}",
            cls._rule(),
            {(200, renderer.media_type): FILE},
            query=cls.files_query or cls.rows.filter_fields,
            errors=cls.errors,
            parameters=cls.parameters,
        )
        members = {
            "get": describe(get),
            "renderer_classes": [renderer],
            "http_method_names": ["get", "head"],
        }
        return type(f"{cls.__name__}{renderer.__name__}", (cls,), members).as_view()


class ListEndpoint(Download):
    """A list in pages. Subclasses can have the methods of other verbs too, and files.

    operation_id: of the pages. more: members of a page besides `items` and `next`; `more_members` returns
    their values. options: query parameters besides those of pages and the filters.
    """

    operation_id: ClassVar[str]
    more: ClassVar[dict[str, serializers.Field]] = {}
    options: ClassVar[tuple[type[StrictSerializer], ...]] = ()

    def __init_subclass__(cls, **arguments):
        if "rows" in vars(cls):
            past = (PastQuery,) if cls.rows.reads_past else ()
            bases = (PageQuery, *past, cls.rows.filter_fields, *cls.options)

            def get(self) -> Response:
                with self.reading():
                    return self.list_page()

            get.__doc__, get.__module__ = cls.__doc__, cls.__module__
            cls.get = operation(
                cls.operation_id,
                cls._rule(),
                page_serializer(cls.rows.output, **cls.more),
                query=type(f"{cls.__name__}Query", bases, {"__doc__": None}),
                errors=cls.errors,
            )(reads_past(get) if cls.rows.reads_past else get)
            cls.files_id = cls.files_id or cls.operation_id.removesuffix("_list")
        super().__init_subclass__(**arguments)

    @classmethod
    def paths(cls) -> list[URLPattern]:
        return [path(cls.route, cls.as_view()), *super().paths()]

    def more_members(self) -> dict:
        """Return further members of the page. They are read before the rows."""
        return {}

    def list_page(self) -> Response:
        more = self.more_members()
        return Response(page_members(self.read_list(), self.query) | more)


def page_members(listed: List, query: Mapping[str, Any]) -> dict:
    """Return the rows of a page and the cursor of the next one. query: the data of a PageQuery."""
    identity = [*listed.identity(), *list_identity("", query)]
    after = position_in_list(query["cursor"], identity) if query["cursor"] else None
    rows, position = listed.page(after, query["limit"])
    next_cursor = None if position is None else cursor_for(position, identity)
    return {"items": listed.members(rows), "next": next_cursor}
