"""The base class of REST endpoints.

It checks the scope, and validates query parameters and bodies strictly. An ETag covers the whole representation of a
resource: it refuses a change that is based on outdated data, and saves content that the caller already has.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from typing import Any, ClassVar
from urllib.parse import quote

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponseNotModified
from django.http.response import HttpResponseBase
from django.urls import URLPattern
from django.urls import path as url_path
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from authzconsole.common.api_caller import author_of
from authzconsole.common.fields import MAX_INTEGER, StrictSerializer
from authzconsole.common.output import Output
from authzconsole.common.periods import moment_of_query, reading_moment
from authzconsole.common.request_body import MAX_BODY_BYTES, read_json_object, read_text
from authzconsole.models import TokenScope
from authzconsole.rest.fixed_openapi import FIXED
from authzconsole.rest.framework.callers import check_journal_reader
from authzconsole.rest.framework.operations import ETAG, EmptySerializer, Operation, path_parameter
from authzconsole.rest.framework.problems import Problem, problem_response
from entities.frozen import frozen
from grants.history import NOW
from grants.journal import Author


def reads_past(method: Callable[..., Any]) -> Callable[..., Any]:
    """Call the method of an endpoint with the state and time that `as_of` and `at` name. It must return plain
    data.

    Only administrators and auditors may use them, because the grants of another time do not decide what an
    account may see now.
    """

    @wraps(method)
    def read(self) -> Any:
        moment = moment_of_query(self.query)
        if moment == NOW:
            self.find_object(self.kwargs)
            return method(self)
        check_journal_reader(self.request)
        with reading_moment(moment, self.request.user):
            self.find_object(self.kwargs)
            content = method(self)
            return content if isinstance(content, HttpResponseBase) else self.response(content)

    read.reads_past = True  # type: ignore[attr-defined]
    return read


_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')


def etag_of(*values: object) -> str:
    digest = hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()
    return f'"{digest[:32]}"'


def check_match(request: Request, etag: str, *, is_required: bool) -> None:
    """Raise Problem: 428 if If-Match is required and missing, 412 if it does not match, or if If-None-Match
    matches.
    """
    if is_known(request, etag):
        raise Problem(412, "the resource has an ETag of If-None-Match", headers={"ETag": etag})
    header = request.headers.get("If-Match")
    if header is None:
        if is_required:
            raise Problem(
                428, "send If-Match with the ETag that you read, so that no change made since then is lost"
            )
        return
    if header.strip() != "*" and etag not in _TAG.findall(header):
        raise Problem(
            412,
            "the resource has changed since you read it: read it again and repeat the change with the new ETag",
            headers={"ETag": etag},
        )


def is_known(request: Request, etag: str) -> bool:
    """Return whether If-None-Match contains the ETag.

    Weak and strong tags are equal here (RFC 9110, section 13.1.2).
    """
    header = request.headers.get("If-None-Match")
    if header is None:
        return False
    return header.strip() == "*" or etag in (tag.removeprefix("W/") for tag in _TAG.findall(header))


TEXT_TYPES = ("text/csv", "application/x-ndjson")
METHODS_WITH_BODY = ("POST", "PUT", "PATCH")
# headers of a response that a 304 has too (RFC 9110, section 15.4.5)
KEPT_HEADERS = ("Cache-Control", "ETag", "Vary")


@frozen
class Resource:
    """What the variable part of a URL names.

    description: of this part in the OpenAPI document. find: returns the object for a caller, or None if there
    is none or the caller may not see it. missing: the detail of the response 404; by default it does not tell
    these two cases apart.
    """

    part: str
    description: str
    find: Callable[[Request, Any], Any]
    type: type = str
    missing: str = ""

    @classmethod
    def numbered(cls, description: str, rows: Callable[[Request], QuerySet], missing: str = "") -> "Resource":
        """Return the resource of an object with a number. rows: the objects that a caller may see."""
        return cls(
            "number", description, lambda request, number: _numbered(rows(request), number), int, missing
        )

    @property
    def parameter(self) -> OpenApiParameter:
        return path_parameter(self.part, self.description, self.type)

    def object_or_404(self, request: Request, value: Any) -> Any:
        """Return the object. Raise Http404 or Problem (404) if there is none."""
        found = self.find(request, value)
        if found is None:
            raise Problem(404, self.missing.format(value)) if self.missing else Http404
        return found


def _numbered(rows: QuerySet, number: int) -> Any:
    return rows.filter(pk=number).first() if number <= MAX_INTEGER else None


class Endpoint(APIView):
    """A REST endpoint. Its methods are decorated with `operation`.

    route: its URL below /api/v1.
    scopes: the token scope, by method; by default ADMINISTER for changes, and READ for other methods.
    self_methods: those that tokens with the scope SELF may use too.
    resource: what the URL names; None if it has no variable part. found_after_body: the methods that call
    `find_object` themselves, after they have validated the body.
    max_body_bytes: the limit of a body. text_member: the member of the body that a body of a type in TEXT_TYPES replaces.
    query: the validated parameters of the request. object: what the URL names.
    """

    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    route: ClassVar[str] = ""
    queries: dict[str, type[StrictSerializer]] = {}
    scopes: dict[str, str] = {}
    self_methods: ClassVar[tuple[str, ...]] = ()
    rules: dict[str, Callable[[Request], None]] = {}
    resource: Resource | None = None
    found_after_body: tuple[str, ...] = ()
    max_body_bytes: ClassVar[int] = MAX_BODY_BYTES
    text_member: ClassVar[str] = ""
    query: dict = {}
    object: Any = None

    def __init_subclass__(cls, **options):
        """Describe the methods of the class in the OpenAPI document."""
        super().__init_subclass__(**options)
        parameter = cls.resource.parameter if cls.resource else None
        for name in cls.http_method_names:
            method = vars(cls).get(name)
            if operation := getattr(method, "operation", None):
                cls.rules = cls.rules | {name.upper(): operation.rule}
                cls.queries = cls.queries | {name.upper(): operation.query}
                scopes = cls.scopes_of(name.upper())
                operation.describe(method, FIXED["tags"][cls.route.partition("/")[0]], parameter, scopes)
            if describe := getattr(method, "describe", None):
                describe(parameter)

    @classmethod
    def paths(cls) -> list[URLPattern]:
        """Return the URLs of the endpoint."""
        return [url_path(cls.route, cls.as_view())]

    @property
    def operation(self) -> Operation:
        """The operation of the request."""
        name = "get" if self.request.method == "HEAD" else self.request.method.lower()
        return getattr(self, name).operation

    @cached_property
    def data(self) -> dict:
        """The validated body, or the query parameters of an operation without a body.

        Raise Problem (400, 413, 415) or ValidationError when it is read first.
        """
        serializer = self.operation.body
        return validated_data(serializer, self.raw_body()) if serializer else self.query

    @property
    def author(self) -> Author:
        """The author of a change, with the reason in the body or the query."""
        return author_of(self.request, self.data.get("reason", ""))

    def response(self, value: Any, status: int | None = None, **headers: str) -> Response:
        """Return what the serializer of the operation makes of the value.

        status: by default, that of the first response of the operation. A resource with an ETag gets one.
        """
        responses = self.operation.responses
        serializer = responses[status or min(responses)]
        is_output = isinstance(serializer, type) and issubclass(serializer, Output)
        if ETAG in self.operation.parameters:
            headers = {"ETag": etag_of_resource(serializer, value)} | headers
        content = serializer.data_of(value) if is_output else value
        return Response(content, status=status or min(responses), headers=headers)

    def creation_response(self, value: Any, collection: str, key: object = None) -> Response:
        """Return the response of a new resource. key: of the resource; by default its primary key."""
        return self.response(value, Location=location(collection, value.pk if key is None else key))

    def check_etag(self, value: Any, *, is_required: bool) -> None:
        """Compare If-Match with the ETag of a resource. Raise Problem as `check_match` does."""
        serializer = self.operation.responses[200]
        check_match(self.request, etag_of_resource(serializer, value), is_required=is_required)

    @classmethod
    def scopes_of(cls, method: str) -> tuple[str, ...]:
        """Return the token scopes of which one is sufficient."""
        is_change = method in (*METHODS_WITH_BODY, "DELETE")
        scope = cls.scopes.get(method, TokenScope.ADMINISTER if is_change else TokenScope.READ)
        others = (TokenScope.SELF,) if method in cls.self_methods or scope == TokenScope.DECIDE else ()
        return (scope, *others)

    def initial(self, request: Request, *args, **kwargs) -> None:
        # before authentication, because the CSRF check of a session would parse a form in the body
        if request.method in METHODS_WITH_BODY and request._request.content_type not in (
            "",
            *self.media_types(),
        ):
            raise Problem(415, f"the Content-Type must be {' or '.join(self.media_types())}")
        super().initial(request, *args, **kwargs)
        if request.method.lower() in self.http_method_names and hasattr(self, request.method.lower()):
            self.query = self._read_query(request)
            # a method that reads the past finds it there
            reads_past = getattr(getattr(self, request.method.lower()), "reads_past", False)
            if not reads_past and request.method not in self.found_after_body:
                self.find_object(kwargs)

    def find_object(self, path: Mapping[str, Any]) -> None:
        """Find what the URL names. Raise Http404 or Problem (404) if it does not exist, or is not visible."""
        if self.resource:
            self.object = self.resource.object_or_404(self.request, path[self.resource.part])

    def finalize_response(self, request, response, *args, **kwargs):
        response = super().finalize_response(request, response, *args, **kwargs)
        response.headers.setdefault("Cache-Control", "no-store")
        return _not_modified_response(response) if self._is_known(request, response) else response

    def _is_known(self, request: Request, response) -> bool:
        is_read = request.method in ("GET", "HEAD") and response.status_code == 200
        return is_read and "ETag" in response.headers and is_known(request, response.headers["ETag"])

    def _read_query(self, request: Request) -> dict:
        serializer_class = self.queries.get(
            "GET" if request.method == "HEAD" else request.method, EmptySerializer
        )
        parameters = request.query_params
        if repeated_names := [name for name, values in parameters.lists() if len(values) > 1]:
            raise serializers.ValidationError(
                {name: ["this parameter is given more than once"] for name in repeated_names}
            )
        return validated_data(serializer_class, parameters.dict())

    def check_empty_body(self) -> None:
        """Accept no body or an empty object.

        Raise Problem (400, 413) or ValidationError for other bodies.
        """
        validated_data(EmptySerializer, read_json_object(self.request._request, default={}))

    @classmethod
    def media_types(cls) -> tuple[str, ...]:
        return ("application/json", *(TEXT_TYPES if cls.text_member else ()))

    def raw_body(self, *, allows_surrogates: bool = True) -> dict:
        if self.text_member and self.request._request.content_type in TEXT_TYPES:
            return {self.text_member: read_text(self.request._request, self.max_body_bytes)}
        if self.request._request.content_type == "":
            raise Problem(415, "the Content-Type must be application/json")
        return read_json_object(
            self.request._request, allows_surrogates=allows_surrogates, max_bytes=self.max_body_bytes
        )


def etag_of_resource(serializer: type[Output], value: Any) -> str:
    """Return the ETag of a resource, which covers its key and its representation."""
    return etag_of(getattr(value, "pk", None), *serializer.data_of(value).values())


def _not_modified_response(response) -> HttpResponseNotModified:
    """Return the response without its content."""
    return HttpResponseNotModified(
        headers={name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    )


def validated_data(serializer_class: type[StrictSerializer], data: object) -> dict:
    """Return the validated data. Raise ValidationError if it is invalid."""
    serializer = serializer_class(data=data)
    serializer.is_valid(raise_exception=True)
    return serializer.validated_data


def unknown_path(request: HttpRequest, **kwargs):
    """Return 404 for every path of the API that has no endpoint."""
    return problem_response(
        Problem(404, "this API has no such path; /api/v1/openapi.json lists all paths"), request
    )


def location(collection: str, key: object, *, safe: str = "@") -> str:
    """Return the URL of a resource. The key is percent-encoded, including slashes, but not characters in `safe`."""
    return f"/api/v1/{collection}/{quote(str(key), safe=safe)}"
