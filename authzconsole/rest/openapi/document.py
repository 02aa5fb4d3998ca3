"""The OpenAPI document: made once in each process, from the endpoints and what they say of themselves."""

import json
from collections.abc import Iterator
from functools import cache

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from rest_framework import serializers

from authzconsole.rest.framework.fields import Shape
from authzconsole.rest.openapi.authzen_document import ID_HEADER, authzen_components, authzen_paths


class Schemes(OpenApiAuthenticationExtension):
    target_class = "authzconsole.rest.framework.callers.Authentication"
    name = ["token", "session"]

    def get_security_definition(self, auto_schema):
        return [
            {"type": "http", "scheme": "bearer",
             "description": "An API token: its scope `read` reads, `administer` changes, `decide` asks for decisions."},
            {"type": "apiKey", "in": "cookie", "name": "sessionid",
             "description": "A session of the console's pages; what changes something needs the header X-CSRFToken, too."},
        ]


def with_authzen(result: dict, generator, request, public) -> dict:
    """A hook of drf-spectacular: the endpoints of the AuthZEN Authorization API are plain views, so it does not find them."""
    result["paths"] |= authzen_paths()
    result["components"]["schemas"] |= authzen_components()
    return result


def with_exactness(result: dict, generator, request, public) -> dict:
    """A hook of drf-spectacular: what it cannot know. A body is never left out, a strict one takes no further members, its
    lists no more than they hold, either of the two ways to say who calls is enough, and every answer bears the request's id."""
    for shape in _strict(Shape):
        if schema := result["components"]["schemas"].get(shape.__name__.removesuffix("Serializer")):
            schema["additionalProperties"] = False
            for name, most in _longest_lists(shape):
                schema["properties"][name]["maxItems"] = most
    for operation in (operation for path in result["paths"].values() for operation in path.values()):
        operation["security"] = [{"token": []}, {"session": []}]
        if "requestBody" in operation:
            operation["requestBody"]["required"] = True
        for answer in operation["responses"].values():
            answer["headers"] = answer.get("headers", {}) | ID_HEADER
    return result


def _strict(shape: type) -> Iterator[type]:
    for inner in shape.__subclasses__():
        yield inner
        yield from _strict(inner)


def _longest_lists(shape: type[Shape]) -> Iterator[tuple[str, int]]:
    for name, field in shape().fields.items():
        if isinstance(field, serializers.ListSerializer) and field.max_length is not None:
            yield name, field.max_length


@cache
def document() -> dict:
    return SchemaGenerator().get_schema(request=None, public=True)


@cache
def _document_bytes() -> bytes:
    return json.dumps(document(), ensure_ascii=False).encode()


@login_not_required
@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """Open to everybody: it tells of the API and nothing of what is in this console."""
    return HttpResponse(_document_bytes(), content_type="application/json")
