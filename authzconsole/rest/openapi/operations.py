"""What the OpenAPI document says of an operation: its name, an example, and every answer that it can give."""

from collections.abc import Callable, Iterable
from http import HTTPStatus

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers

from authzconsole.rest.framework.problems import CONTENT_TYPE, TYPES


class ProblemErrorSerializer(serializers.Serializer):
    """One thing that is wrong: at a `field`, or in the item `index` of the `list`."""

    message = serializers.CharField()
    field = serializers.CharField(required=False)
    list = serializers.CharField(required=False)
    index = serializers.IntegerField(required=False)


class ProblemSerializer(serializers.Serializer):
    """A refusal, as RFC 9457 has it. `instance` is the id of the request, which stands in the console's log."""

    type = serializers.CharField(help_text=f"urn:authzconsole:problem: and one of {', '.join(TYPES.values())}, stale-base.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="One sentence: what, where, and what to do.")
    instance = serializers.CharField()
    errors = ProblemErrorSerializer(many=True)
    base_revision = serializers.IntegerField(required=False, help_text="Of a stale base: the revision that was sent.")
    revision = serializers.IntegerField(required=False, help_text="Of a stale base: the newest revision.")


WHY = {
    400: "Something in the request is wrong; `errors` says what, one by one.",
    401: "Nobody is signed in, or the token is wrong, expired or revoked.",
    403: "The token lacks the scope, or the account the role.",
    404: "There is no such thing, or none that the caller may see; the two look the same.",
    405: "Another method than those of this path, which the header Allow names.",
    406: "The Accept header allows none of the answers there are.",
    409: "It does not fit what is there.",
    410: "It was there once.",
    412: "It was changed since it was read: the ETag in If-Match is no longer its own.",
    413: "The body is longer than the limit, which the detail names.",
    415: "The Content-Type is not application/json.",
    428: "If-Match is missing.",
    429: "Too many unknown tokens came from this address; Retry-After says for how long to send none. Good tokens do not wait.",
    503: "Something that the console depends on does not answer.",
}
DETAILS = {
    400: "limit: this must be an integer", 401: "the token has expired", 403: "the token lacks the scope `administer`",
    404: "there is no such thing, or none that you may see", 405: "this path answers GET and POST only",
    406: "Could not satisfy the request Accept header.",
    409: "dataset:sales.orders was deleted already", 410: "the report's files are gone; run the analysis again",
    412: "it was changed since you read it: read it again, and repeat the change with its new ETag",
    413: "the body is longer than 1,000,000 bytes, which is the limit", 415: "the Content-Type must be application/json",
    428: "send If-Match with the ETag of what you read, so that nobody's change in between is lost",
    429: "too many unknown tokens came from your address: send no other for 4 minutes",
    503: "the folder of snapshots and results cannot be used",
}
IF_MATCH = OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, required=False,
                            description="The ETag of what was read; `*` for any. Needed: 428 without it.")
IF_MATCH_OPTIONAL = OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, required=False,
                                     description="The ETag of what was read: 412 where it was changed since.")
ETAG = OpenApiParameter("ETag", str, OpenApiParameter.HEADER, response=True, description="To send back in If-Match.")
LOCATION = OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[201, 202], description="Where it is.")


def in_path(name: str, description: str, type_: type = str) -> OpenApiParameter:
    return OpenApiParameter(name, type_, OpenApiParameter.PATH, description=description)


def described(name: str, tag: str, summary: str, description: str, *, answers: dict, example: object = None,
              query: type[serializers.Serializer] | None = None, sends=None, sent: object = None,
              errors: Iterable[int] = (), parameters: Iterable[OpenApiParameter] = ()) -> Callable:
    """answers: shape by status. example: of the first of them. sends, sent: the body's shape, and an example of it."""
    examples = [OpenApiExample("An answer", example, response_only=True, status_codes=[str(min(answers))])] if example else []
    examples += [OpenApiExample("A request", sent, request_only=True)] if sent is not None else []
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
    return OpenApiResponse(ProblemSerializer, WHY[status], examples=[OpenApiExample("A refusal", content)])


def _answer(status: int, shape) -> OpenApiResponse:
    if isinstance(shape, OpenApiResponse):
        return shape
    words = {200: "The answer.", 201: "It was made.", 202: "It is begun; Location says where to follow it.", 204: "Done."}
    return OpenApiResponse(shape, words[status[0] if isinstance(status, tuple) else status])


FILE = OpenApiTypes.BINARY
