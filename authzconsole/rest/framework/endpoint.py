"""The base class of REST endpoints: check the scope, read query parameters and bodies strictly."""

from django.http import HttpRequest
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from authzconsole.common.request_body import read_json_object
from authzconsole.models import TokenScope
from authzconsole.rest.framework.fields import Shape
from authzconsole.rest.framework.problems import Problem, problem_response

METHODS_WITH_BODY = ("POST", "PUT", "PATCH")


class Nothing(Shape):
    """A shape without members."""


class Endpoint(APIView):
    """A REST endpoint.

    queries: the shape of the query parameters, by method; a method that is not listed takes none. scopes: the token scope,
    by method; by default ADMINISTER for changes and READ for the rest. query: the parameters of this request.
    """

    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    queries: dict[str, type[Shape]] = {}
    scopes: dict[str, str] = {}
    query: dict = {}

    def scope_of(self, method: str) -> str:
        return self.scopes.get(method, TokenScope.ADMINISTER if method in (*METHODS_WITH_BODY, "DELETE") else TokenScope.READ)

    def initial(self, request: Request, *args, **kwargs) -> None:
        # before authentication, because the CSRF check of a session would try to parse a body of another type
        if request.method in METHODS_WITH_BODY and request._request.content_type not in ("", "application/json"):
            raise Problem(415, "the Content-Type must be application/json")
        super().initial(request, *args, **kwargs)
        if request.method.lower() in self.http_method_names and hasattr(self, request.method.lower()):
            self.query = self._read_query(request)

    def finalize_response(self, request, response, *args, **kwargs):
        response = super().finalize_response(request, response, *args, **kwargs)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def _read_query(self, request: Request) -> dict:
        shape = self.queries.get("GET" if request.method == "HEAD" else request.method, Nothing)
        parameters = request.query_params
        if repeated := [name for name, values in parameters.lists() if len(values) > 1]:
            raise serializers.ValidationError({name: ["this parameter is given more than once"] for name in repeated})
        return read_strictly(shape, parameters.dict())

    def body(self, shape: type[Shape]) -> dict:
        """Return the body, read strictly. Raise RequestRefused (400, 413) or ValidationError."""
        return read_strictly(shape, self.raw_body())

    def check_empty_body(self) -> None:
        """Accept no body or an empty object. Raise as `body` does."""
        read_strictly(Nothing, read_json_object(self.request._request, default={}))

    def raw_body(self) -> dict:
        if self.request._request.content_type == "":
            raise Problem(415, "the Content-Type must be application/json")
        return read_json_object(self.request._request)


def read_strictly(shape: type[Shape], data: object) -> dict:
    """Return the validated data. Raise ValidationError."""
    serializer = shape(data=data)
    serializer.is_valid(raise_exception=True)
    return serializer.validated_data


def unknown_path(request: HttpRequest, **kwargs):
    """Answer 404 for every path below the API that no endpoint has."""
    return problem_response(Problem(404, "this API has no such path; /api/v1/openapi.json lists all paths"), request)


def created_response(content: dict, location: str, **headers: str) -> Response:
    return Response(content, status=201, headers={"Location": location, **headers})
