"""The base class of REST endpoints.

It checks the scope, and validates query parameters and bodies strictly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponseNotModified
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from authzconsole.common.fields import MAX_INTEGER, StrictSerializer
from authzconsole.common.request_body import MAX_BODY_BYTES, read_json_object
from authzconsole.models import TokenScope
from authzconsole.rest.framework.etags import is_known
from authzconsole.rest.framework.operations import path_parameter
from authzconsole.rest.framework.problems import Problem, problem_response

METHODS_WITH_BODY = ("POST", "PUT", "PATCH")
# headers of a response that a 304 has too (RFC 9110, section 15.4.5)
KEPT_HEADERS = ("Cache-Control", "ETag", "Vary")


class EmptySerializer(StrictSerializer):
    """An object without members."""


@dataclass(frozen=True, slots=True)
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
    """A REST endpoint.

    queries: the serializer of the query parameters, by method; methods that are not listed have no
    parameters.
    scopes: the token scope, by method; by default ADMINISTER for changes, and READ for other methods.
    rules: the function that raises Problem for callers without access, by method (see
    `callers.RulePermission`).
    resource: what the URL names; None if it has no variable part. found_after_body: the methods that call
    `find_object` themselves, after they have validated the body.
    query: the validated parameters of the request. object: what the URL names.
    """

    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    queries: dict[str, type[StrictSerializer]] = {}
    scopes: dict[str, str] = {}
    rules: dict[str, Callable[[Request], None]] = {}
    resource: Resource | None = None
    found_after_body: tuple[str, ...] = ()
    query: dict = {}
    object: Any = None

    def __init_subclass__(cls, **options):
        """Describe the methods of the class in the OpenAPI document."""
        super().__init_subclass__(**options)
        for name in cls.http_method_names:
            if describe := getattr(vars(cls).get(name), "describe", None):
                describe(cls.resource.parameter if cls.resource else None)

    def scope_of(self, method: str) -> str:
        return self.scopes.get(
            method, TokenScope.ADMINISTER if method in (*METHODS_WITH_BODY, "DELETE") else TokenScope.READ
        )

    def initial(self, request: Request, *args, **kwargs) -> None:
        # before authentication, because the CSRF check of a session would parse a form in the body
        if request.method in METHODS_WITH_BODY and request._request.content_type not in (
            "",
            "application/json",
        ):
            raise Problem(415, "the Content-Type must be application/json")
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

    def body(self, serializer_class: type[StrictSerializer], *, max_bytes: int = MAX_BODY_BYTES) -> dict:
        """Return the validated body. Raise Problem (400, 413, 415) or ValidationError."""
        return validated_data(serializer_class, self.raw_body(max_bytes=max_bytes))

    def check_empty_body(self) -> None:
        """Accept no body or an empty object.

        Raise Problem (400, 413) or ValidationError for other bodies.
        """
        validated_data(EmptySerializer, read_json_object(self.request._request, default={}))

    def raw_body(self, *, allows_surrogates: bool = True, max_bytes: int = MAX_BODY_BYTES) -> dict:
        if self.request._request.content_type == "":
            raise Problem(415, "the Content-Type must be application/json")
        return read_json_object(
            self.request._request, allows_surrogates=allows_surrogates, max_bytes=max_bytes
        )


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


def created_response(content: dict, location: str, **headers: str) -> Response:
    return Response(content, status=201, headers={"Location": location, **headers})
