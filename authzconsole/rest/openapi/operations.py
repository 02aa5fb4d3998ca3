"""Describe REST operations for the OpenAPI document: name, examples, and all possible responses."""

from collections.abc import Callable, Iterable
from http import HTTPStatus

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers

from authzconsole.rest.framework.problems import CONTENT_TYPE, TYPES


class ProblemErrorSerializer(serializers.Serializer):
    """One error, in a `field` or in the item `index` of a `list`."""

    message = serializers.CharField()
    field = serializers.CharField(required=False)
    list = serializers.CharField(required=False)
    index = serializers.IntegerField(required=False)


class ProblemSerializer(serializers.Serializer):
    """A refused request (RFC 9457). `instance` is the id of the request, which is also in the log of the console."""

    type = serializers.CharField(help_text=f"urn:authzconsole:problem: and one of {', '.join(TYPES.values())}, stale-base.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="One sentence that says what is wrong, where, and what to do.")
    instance = serializers.CharField()
    errors = ProblemErrorSerializer(many=True)
    base_revision = serializers.IntegerField(required=False, help_text="For a stale base: the revision that was sent.")
    revision = serializers.IntegerField(required=False, help_text="For a stale base: the newest revision.")


# by status: why a request is refused, and an example of the detail
REASONS = {
    400: "The request is invalid; `errors` lists every error.",
    401: "There is no session, or the token is unknown, expired or revoked.",
    403: "The token lacks the scope, or the account lacks the role.",
    404: "The resource does not exist or is not visible to the caller; the two look the same.",
    405: "The method is not listed in the Allow header.",
    406: "The path has no format that the Accept header allows.",
    409: "The request conflicts with the current state.",
    410: "The resource existed and was removed.",
    412: "The resource changed since it was read: the ETag in If-Match does not match.",
    413: "The body is longer than the limit.",
    415: "The Content-Type is not application/json.",
    428: "If-Match is missing.",
    429: "Too many unknown tokens came from this address; Retry-After says how long to wait. Valid tokens are not delayed.",
    503: "A service that the console depends on does not answer.",
}
DETAILS = {
    400: "limit: this must be an integer", 401: "the token has expired", 403: "the token lacks the scope `administer`",
    404: "this resource does not exist, or you cannot see it", 405: "this path only accepts GET and POST",
    406: "Could not satisfy the request Accept header.",
    409: "dataset:sales.orders was deleted already", 410: "the report's files are gone; run the analysis again",
    412: "the resource has changed since you read it: read it again and repeat the change with the new ETag",
    413: "the body is longer than 1,000,000 bytes, which is the limit", 415: "the Content-Type must be application/json",
    428: "send If-Match with the ETag that you read, so that no change made since then is lost",
    429: "too many unknown tokens came from your address: wait 4 minutes before you send another one",
    503: "the folder of snapshots and results cannot be used",
}
IF_MATCH = OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, required=False,
                            description="The ETag that was read, or `*`. Required (otherwise 428).")
IF_MATCH_OPTIONAL = OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, required=False,
                                     description="The ETag that was read. Returns 412 if the resource has changed.")
ETAG = OpenApiParameter("ETag", str, OpenApiParameter.HEADER, response=True, description="Send it back in If-Match.")
LOCATION = OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[201, 202], description="The URL of the resource.")


def in_path(name: str, description: str, type_: type = str) -> OpenApiParameter:
    return OpenApiParameter(name, type_, OpenApiParameter.PATH, description=description)


def described(name: str, tag: str, summary: str, description: str, *, answers: dict, example: object = None,
              query: type[serializers.Serializer] | None = None, sends=None, sent: object = None,
              errors: Iterable[int] = (), parameters: Iterable[OpenApiParameter] = ()) -> Callable:
    """Describe an operation.

    answers: the shape of the response, by status. example: a response with the first status. sends: the shape of the body.
    sent: an example of the body.
    """
    examples = [OpenApiExample("Response", example, response_only=True, status_codes=[str(min(answers))])] if example else []
    examples += [OpenApiExample("Request", sent, request_only=True)] if sent is not None else []
    refused = sorted({400, 401, 403, 405, 406, 429, 503, *errors, *((413, 415) if sends else ())})
    return extend_schema(
        operation_id=name, tags=[tag], summary=summary, description=description, request=sends,
        parameters=[*parameters, *([query] if query else [])], examples=examples,
        responses={status: _answer(status, shape) for status, shape in answers.items()}
        | {(status, CONTENT_TYPE): refusal(status) for status in refused},
    )


def refusal(status: int) -> OpenApiResponse:
    content = {"type": f"urn:authzconsole:problem:{TYPES[status]}", "title": HTTPStatus(status).phrase,
               "status": status, "detail": DETAILS[status], "instance": "5f0c1d3c6e7a4f1f9a8f2b7f3f0c9d11", "errors": []}
    return OpenApiResponse(ProblemSerializer, REASONS[status], examples=[OpenApiExample("Problem", content)])


def _answer(status: int, shape) -> OpenApiResponse:
    if isinstance(shape, OpenApiResponse):
        return shape
    words = {200: "Success.", 201: "Created.", 202: "Accepted; Location is the URL to poll.", 204: "Done."}
    return OpenApiResponse(shape, words[status[0] if isinstance(status, tuple) else status])


FILE = OpenApiTypes.BINARY
