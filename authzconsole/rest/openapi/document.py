"""The OpenAPI document. It is generated from the endpoints once per process."""

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
             "description": "An API token. The scope `read` permits reading, `administer` changes, and `decide` questions."},
            {"type": "apiKey", "in": "cookie", "name": "sessionid",
             "description": "A session of the console's pages. Changes also need the header X-CSRFToken."},
        ]


def with_authzen(result: dict, generator, request, public) -> dict:
    """Add the AuthZEN endpoints (a hook of drf-spectacular, which does not find plain Django views)."""
    result["paths"] |= authzen_paths()
    result["components"]["schemas"] |= authzen_components()
    return result


def with_strictness(result: dict, generator, request, public) -> dict:
    """Add what drf-spectacular cannot know (a hook).

    Bodies are required, strict shapes accept no further members, lists have a maximum length, either authentication method is
    enough, and every response has the id of the request.
    """
    for shape in _subclasses(Shape):
        if schema := result["components"]["schemas"].get(shape.__name__.removesuffix("Serializer")):
            schema["additionalProperties"] = False
            for name, max_items in _limited_lists(shape):
                schema["properties"][name]["maxItems"] = max_items
    for operation in (operation for path in result["paths"].values() for operation in path.values()):
        operation["security"] = [{"token": []}, {"session": []}]
        if "requestBody" in operation:
            operation["requestBody"]["required"] = True
        for response in operation["responses"].values():
            response["headers"] = response.get("headers", {}) | ID_HEADER
    return result


def _subclasses(shape: type) -> Iterator[type]:
    for inner in shape.__subclasses__():
        yield inner
        yield from _subclasses(inner)


def _limited_lists(shape: type[Shape]) -> Iterator[tuple[str, int]]:
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
    """Return the document. It is public: it describes the API, but no data of this console."""
    return HttpResponse(_document_bytes(), content_type="application/json")
