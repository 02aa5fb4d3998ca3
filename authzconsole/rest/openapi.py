"""The OpenAPI document, which is generated from the endpoints once per process, and the pages that show it."""

import json
import threading
from collections.abc import Iterator
from functools import cache

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_update
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from rest_framework import serializers

from authzconsole.common.fields import StrictSerializer
from authzconsole.common.request_body import MAX_BODY_BYTES, MAX_IMPORT_BYTES
from authzconsole.rest.fixed_openapi import FIXED
from authzconsole.rest.framework.endpoint import unknown_path
from authzconsole.rest.framework.operations import SCOPE_EXTENSION

_generating = threading.Lock()
# both libraries insert inline styles and use data: icons
_RELAXED_CSP = csp_update({"style-src": [SELF, UNSAFE_INLINE], "img-src": [SELF, "data:"]})


class AuthenticationSchemes(OpenApiAuthenticationExtension):
    target_class = "authzconsole.rest.framework.callers.Authentication"
    name = ["token", "session"]

    def get_security_definition(self, auto_schema):
        return [
            {
                "type": "http",
                "scheme": "bearer",
                "description": "An API token. The scope `read` permits reading, `administer` changes, `decide` questions, and "
                "`self` questions about its owner and its access requests. The current role of the owner limits all scopes.",
            },
            {
                "type": "apiKey",
                "in": "cookie",
                "name": settings.SESSION_COOKIE_NAME,
                "description": "A session of the console's pages. Changes also need the header X-CSRFToken.",
            },
        ]


def add_authzen_endpoints(result: dict, generator, request, public) -> dict:
    """Add the AuthZEN and monitoring endpoints, which drf-spectacular does not find, because they are plain
    Django views.

    A postprocessing hook of drf-spectacular.
    """
    result["paths"] |= FIXED["paths"]
    result["components"]["schemas"] |= FIXED["schemas"]
    return result


def add_strictness(result: dict, generator, request, public) -> dict:
    """Add what drf-spectacular cannot derive from the endpoints.

    Bodies are required and limited, strict serializers accept no other members, lists have a maximum length,
    a token with the scope or a session is sufficient, and every response has the id of the request. A
    postprocessing hook of drf-spectacular.
    """
    for serializer_class in _subclasses(StrictSerializer):
        if schema := result["components"]["schemas"].get(
            serializer_class.__name__.removesuffix("Serializer")
        ):
            schema["additionalProperties"] = False
    for serializer_class in _subclasses(serializers.Serializer):
        if schema := result["components"]["schemas"].get(
            serializer_class.__name__.removesuffix("Serializer")
        ):
            for name, max_items in _limited_lists(serializer_class):
                schema["properties"][name]["maxItems"] = max_items
    for operation in (operation for path in result["paths"].values() for operation in path.values()):
        operation["security"] = [
            *({"token": [scope]} for scope in operation.pop(SCOPE_EXTENSION)),
            {"session": []},
        ]
        if "requestBody" in operation:
            operation["requestBody"]["required"] = True
            max_bytes = MAX_IMPORT_BYTES if operation["operationId"] == "plans_import" else MAX_BODY_BYTES
            operation["requestBody"]["description"] = f"At most {max_bytes:,} bytes."
        for response in operation["responses"].values():
            response["headers"] = response.get("headers", {}) | FIXED["id_header"]
    return result


def _subclasses(serializer_class: type) -> Iterator[type]:
    for subclass in serializer_class.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _limited_lists(serializer_class: type[serializers.Serializer]) -> Iterator[tuple[str, int]]:
    for name, field in serializer_class().fields.items():
        if isinstance(field, serializers.ListSerializer) and field.max_length is not None:
            yield name, field.max_length


@cache
def document() -> dict:
    return SchemaGenerator().get_schema(request=None, public=True)


@cache
def _document_bytes() -> bytes:
    # drf-spectacular fails if two threads generate the document at the same time
    with _generating:
        return json.dumps(document(), ensure_ascii=False).encode()


@login_not_required
@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """Return the document. It is public, because it contains no data of the console."""
    return HttpResponse(_document_bytes(), content_type="application/json")


@csrf_exempt
@login_not_required
def root(request: HttpRequest) -> HttpResponse:
    """Redirect the root of the API to its documentation."""
    return redirect("rest-swagger") if request.method in ("GET", "HEAD") else unknown_path(request)


@login_not_required
@require_safe
@_RELAXED_CSP
def swagger(request: HttpRequest) -> HttpResponse:
    return render(request, "rest/swagger.html")


@login_not_required
@require_safe
@_RELAXED_CSP
def redoc(request: HttpRequest) -> HttpResponse:
    return render(request, "rest/redoc.html")
