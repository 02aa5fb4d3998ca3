"""Describe REST operations for the OpenAPI document: names, examples and all possible responses."""

from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers

from authzconsole.common.output import example_of
from authzconsole.rest.fixed_openapi import FIXED
from authzconsole.rest.framework.problems import CONTENT_TYPE, TYPES


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


def api_operation(
    operation_id: str,
    tag: str,
    summary: str,
    description: str,
    *,
    responses: dict,
    response_example: dict | None = None,
    query: type[serializers.Serializer] | None = None,
    request=None,
    request_example: object = None,
    errors: Iterable[int] = (),
    parameters: Iterable[OpenApiParameter] = (),
) -> Callable:
    """Describe an operation of an endpoint.

    responses: the serializer of the response, by status. response_example: the members of the example that
    differ from the example of the serializer with the lowest status.
    request: the serializer of the body. errors: the statuses of errors, in addition to those of every
    operation, and to 404 if the URL of the endpoint names a resource.
    """

    def describe(method: Callable, resource: OpenApiParameter | None) -> None:
        all_parameters, all_errors = list(parameters), {400, 401, 403, 405, 406, 429, 503, *errors}
        if resource is not None:
            all_parameters.insert(0, resource)
            all_errors.add(404)
        if is_conditional := ETAG in all_parameters and request is None:
            all_parameters.append(IF_NONE_MATCH)
        extend_schema(
            operation_id=operation_id,
            tags=[tag],
            summary=summary,
            description=description,
            request=request,
            parameters=[*all_parameters, *([query] if query and query().fields else [])],
            examples=_examples(responses, response_example, request_example),
            responses={
                status: _success_response(status, serializer) for status, serializer in responses.items()
            }
            | ({304: OpenApiResponse(None, NOT_MODIFIED)} if is_conditional else {})
            | {
                (status, CONTENT_TYPE): _error_response(status)
                for status in sorted(all_errors | ({413, 415} if request else set()))
            },
        )(method)

    def decorate(method: Callable) -> Callable:
        method.describe = partial(describe, method)  # type: ignore[attr-defined]
        return method

    return decorate


def _examples(
    responses: dict, response_example: dict | None, request_example: object
) -> list[OpenApiExample]:
    """Return the examples of an operation. Files have none."""
    examples = []
    status = min(responses, key=str)
    if isinstance(responses[status], type):
        example = example_of(responses[status]) | (response_example or {})
        examples.append(OpenApiExample("Response", example, response_only=True, status_codes=[str(status)]))
    if request_example is not None:
        examples.append(OpenApiExample("Request", request_example, request_only=True))
    return examples


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


NOT_MODIFIED = "If-None-Match has the ETag of the resource. The response has no content."
FILE = OpenApiTypes.BINARY
