"""Describe REST operations for the OpenAPI document: names, examples and all possible responses."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from http import HTTPStatus
from inspect import cleandoc
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from authzconsole.common.fields import StrictSerializer
from authzconsole.common.output import example_of
from authzconsole.rest.fixed_openapi import EXAMPLES, FIXED
from authzconsole.rest.framework.problems import CONTENT_TYPE, TYPES


class EmptySerializer(StrictSerializer):
    """An object without members."""


class ProblemErrorSerializer(serializers.Serializer):
    """One error: of a `field`, or of the item `index` of a `list`."""

    message = serializers.CharField()
    field = serializers.CharField(required=False)
    list = serializers.CharField(required=False)
    index = serializers.IntegerField(required=False)


class ProblemSerializer(serializers.Serializer):
    """The reason why a request was refused (RFC 9457).

    `instance` is the request id; the log of the console has it too.
    """

    type = serializers.CharField(
        help_text=f"`urn:authzconsole:problem:` followed by one of {', '.join(TYPES.values())}, stale-base, read-only, "
        "unconfirmed-effect, effect-changed, effect-too-large, duplicate-request, already-permitted."
    )
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="A sentence that names the problem, its place and the solution.")
    instance = serializers.CharField()
    errors = ProblemErrorSerializer(many=True)
    base_revision = serializers.IntegerField(
        required=False, help_text="For a stale base: the revision that was sent."
    )
    revision = serializers.IntegerField(required=False, help_text="For a stale base: the newest revision.")
    request = serializers.IntegerField(
        required=False, help_text="For a duplicate access request: the number of the first one."
    )


IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    required=True,
    description="The ETag that was read, or `*`. Without it, the response is 428.",
)
IF_MATCH_OPTIONAL = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    required=False,
    description="The ETag that was read. Returns 412 if the resource has changed.",
)
ETAG = OpenApiParameter(
    "ETag",
    str,
    OpenApiParameter.HEADER,
    response=[200, 201, 304, 412],
    description="Send it in If-Match to change the resource, and in If-None-Match to read it again.",
)
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    str,
    OpenApiParameter.HEADER,
    required=False,
    description="ETags that the caller has, or `*`. If one matches, the response is 304.",
)
LOCATION = OpenApiParameter(
    "Location", str, OpenApiParameter.HEADER, response=[201, 202], description="The URL of the resource."
)


def path_parameter(name: str, description: str, type_: type = str) -> OpenApiParameter:
    return OpenApiParameter(name, type_, OpenApiParameter.PATH, description=description)


Rule = Callable[[Request], None]
Responses = Mapping[Any, type[serializers.BaseSerializer] | OpenApiTypes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What a method of an endpoint accepts and answers.

    rule: raises Problem for callers without access (see `callers.RulePermission`).
    responses: the serializer by status; the method returns what the first one serializes.
    query: the serializer of the query parameters. body: that of the body; None if it has none.
    schema: the serializer that describes the body.
    summary, description: from the docstring of the method. `{NAME}` is a constant of its module.
    errors: the statuses of errors, in addition to those of every operation, to 404 if the URL names a
    resource, and to 409 of changes.
    """

    id: str
    rule: Rule
    responses: Responses
    query: type[StrictSerializer]
    body: type[serializers.BaseSerializer] | None
    schema: type[serializers.BaseSerializer] | None
    summary: str
    description: str
    errors: tuple[int, ...]
    parameters: tuple[OpenApiParameter, ...]

    def describe(
        self, method: Callable, tag: str, resource: OpenApiParameter | None, scopes: Iterable[str]
    ) -> None:
        """Describe the method for the OpenAPI document. scopes: of a token, of which one is sufficient."""
        needed = f"Scope of the token: {' or '.join(f'`{scope}`' for scope in scopes)}."
        parameters, errors = list(self.parameters), {400, 401, 403, 405, 406, 429, 503, *self.errors}
        if resource is not None:
            parameters.insert(0, resource)
            errors.add(404)
        if IF_MATCH in parameters:
            errors |= {412, 428}
        if 201 in self.responses:
            parameters.append(LOCATION)
        if is_conditional := ETAG in parameters and self.body is None:
            parameters.append(IF_NONE_MATCH)
        not_modified = {304: OpenApiResponse(None, NOT_MODIFIED)} if is_conditional else {}
        extend_schema(
            operation_id=self.id,
            tags=[tag],
            summary=self.summary,
            description=f"{self.description or self.summary}\n\n{needed}",
            # `add_strictness` moves them to the security requirements
            extensions={SCOPE_EXTENSION: list(scopes)},
            request=self.schema,
            parameters=[*parameters, *([self.query] if self.query().fields else [])],
            examples=self._examples(),
            responses={status: _success_response(status, each) for status, each in self.responses.items()}
            | not_modified
            | {
                (status, CONTENT_TYPE): _error_response(status)
                for status in sorted(errors | ({413, 415} if self.schema else set()))
            },
        )(method)

    def _examples(self) -> list[OpenApiExample]:
        """Return the examples of a JSON response and of the body: what `examples.yaml` states, and the
        examples of the serializer for all other members of the response.
        """
        stated, examples = EXAMPLES.get(self.id, {}), []
        status = min(self.responses, key=str)
        serializer = self.responses[status]
        if isinstance(serializer, type) or "response" in stated:
            content = (example_of(serializer) if isinstance(serializer, type) else {}) | stated.get(
                "response", {}
            )
            examples.append(
                OpenApiExample("Response", content, response_only=True, status_codes=[str(status)])
            )
        if "request" in stated:
            examples.append(OpenApiExample("Request", stated["request"], request_only=True))
        return examples


def operation(
    operation_id: str,
    rule: Rule,
    answer: Responses | type[serializers.BaseSerializer],
    *,
    query: type[StrictSerializer] = EmptySerializer,
    body: type[serializers.BaseSerializer] | None = None,
    schema: type[serializers.BaseSerializer] | None = None,
    errors: Iterable[int] = (),
    parameters: Iterable[OpenApiParameter] = (),
) -> Callable:
    """Make a method of an endpoint an operation of the API. See `Operation` for the arguments.

    answer: the serializer of the response 200, or the responses. The method takes no arguments besides
    `self`. It returns a response, or what the serializer serializes.
    """

    def decorate(method: Callable) -> Callable:
        summary, description = texts_of(method)

        @wraps(method)
        def respond(self, request: Request, **path) -> HttpResponseBase:
            content = method(self)
            return content if isinstance(content, HttpResponseBase) else self.response(content)

        respond.operation = Operation(  # type: ignore[attr-defined]
            id=operation_id,
            rule=rule,
            responses=answer if isinstance(answer, Mapping) else {200: answer},
            query=query,
            body=body,
            schema=schema or body,
            summary=summary,
            description=description,
            errors=tuple(errors) if method.__name__ == "get" else (*errors, 409),
            parameters=tuple(parameters),
        )
        return respond

    return decorate


def texts_of(described: Any) -> tuple[str, str]:
    """Return the first paragraph and the others of a docstring, with the constants that it names."""
    constants = vars(sys.modules[described.__module__])
    text = cleandoc(described.__doc__).format_map(constants)
    summary, _, description = text.partition("\n\n")
    return " ".join(summary.split()).removesuffix("."), " ".join(description.split())


def _error_response(status: int) -> OpenApiResponse:
    content = {
        "type": f"urn:authzconsole:problem:{TYPES[status]}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": FIXED["errors"][status]["detail"],
        "instance": "5f0c1d3c6e7a4f1f9a8f2b7f3f0c9d11",
        "errors": [],
    }
    return OpenApiResponse(
        ProblemSerializer, FIXED["errors"][status]["reason"], examples=[OpenApiExample("Problem", content)]
    )


def _success_response(status: int, serializer) -> OpenApiResponse:
    if isinstance(serializer, OpenApiResponse):
        return serializer
    descriptions = {
        200: "Success.",
        201: "Created.",
        202: "Accepted; Location is the URL to poll.",
        204: "Done.",
    }
    return OpenApiResponse(serializer, descriptions[status[0] if isinstance(status, tuple) else status])


SCOPE_EXTENSION = "x-token-scope"
NOT_MODIFIED = "If-None-Match has the ETag of the resource. The response has no content."
FILE = OpenApiTypes.BINARY
