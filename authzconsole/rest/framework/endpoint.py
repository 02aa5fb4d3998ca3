"""What every REST endpoint does around its answer: who calls, with which scope, what was asked and what was sent."""

from django.http import HttpRequest
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from authzconsole.common.request_body import body_of
from authzconsole.models import TokenScope
from authzconsole.rest.framework.fields import Shape
from authzconsole.rest.framework.problems import Problem, problem_response

WITH_BODY = ("POST", "PUT", "PATCH")


class Nothing(Shape):
    pass


class Endpoint(APIView):
    """queries: the parameters of the URL that each method takes; none unless it stands there. scopes: by method."""

    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    queries: dict[str, type[Shape]] = {}
    scopes: dict[str, str] = {}
    asked: dict = {}

    def scope_of(self, method: str) -> str:
        return self.scopes.get(method, TokenScope.ADMINISTER if method in (*WITH_BODY, "DELETE") else TokenScope.READ)

    def initial(self, request: Request, *args, **kwargs) -> None:
        # before the caller is known: looking for a session's proof against forgery would read another type's body
        if request.method in WITH_BODY and request._request.content_type not in ("", "application/json"):
            raise Problem(415, "the Content-Type must be application/json")
        super().initial(request, *args, **kwargs)
        if request.method.lower() in self.http_method_names and hasattr(self, request.method.lower()):
            self.asked = self._asked(request)

    def finalize_response(self, request, response, *args, **kwargs):
        response = super().finalize_response(request, response, *args, **kwargs)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def _asked(self, request: Request) -> dict:
        shape = self.queries.get("GET" if request.method == "HEAD" else request.method, Nothing)
        given = request.query_params
        if twice := [name for name, values in given.lists() if len(values) > 1]:
            raise serializers.ValidationError({name: ["this parameter stands more than once"] for name in twice})
        read = shape(data=given.dict())
        read.is_valid(raise_exception=True)
        return read.validated_data

    def body(self, shape: type[Shape]) -> dict:
        """What was sent, read strictly. Raises Refused (400, 413), ValidationError."""
        return read_strictly(shape, self.raw_body())

    def no_body(self) -> None:
        """What takes nothing may be sent nothing, or an object without members. Raises as `body` does."""
        read_strictly(Nothing, body_of(self.request._request, if_empty={}))

    def raw_body(self) -> dict:
        if self.request._request.content_type == "":
            raise Problem(415, "the Content-Type must be application/json")
        return body_of(self.request._request)


def read_strictly(shape: type[Shape], sent: object) -> dict:
    read = shape(data=sent)
    read.is_valid(raise_exception=True)
    return read.validated_data


def nowhere(request: HttpRequest, **kwargs):
    """Every path below the API that leads nowhere."""
    return problem_response(Problem(404, "there is no such path in this API; /api/v1/openapi.json lists all there are"), request)


def created(content: dict, location: str, **headers: str) -> Response:
    return Response(content, status=201, headers={"Location": location, **headers})
