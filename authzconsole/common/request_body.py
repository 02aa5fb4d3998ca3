"""What was sent: JSON, one object, not too long."""

from django.http import HttpRequest

from authzconsole.common.refusal import Refused
from grants.strict_json import MalformedJson, json_from_bytes

LONGEST_BODY_BYTES = 1_000_000


def check_content_type(request: HttpRequest) -> None:
    if request.content_type != "application/json":
        raise Refused(400, "the Content-Type must be application/json")


def body_of(request: HttpRequest, *, if_empty: dict | None = None) -> dict:
    """if_empty: what an empty body stands for. Raises Refused: 413 where it is too long, 400 where it is no JSON object."""
    raw = _raw(request)
    if len(raw) > LONGEST_BODY_BYTES:
        _too_long()
    if not raw.strip():
        if if_empty is not None:
            return if_empty
        raise Refused(400, "the body is empty: send a JSON object")
    try:
        body = json_from_bytes(raw, what="the body")
    except MalformedJson as error:
        raise Refused(400, str(error)) from None
    if not isinstance(body, dict):
        raise Refused(400, "the body must be a JSON object")
    return body


def _raw(request: HttpRequest) -> bytes:
    length = request.META.get("CONTENT_LENGTH")
    if not length and request.META.get("wsgi.input_terminated"):
        # sent in chunks: Django would take it for empty
        return request.META["wsgi.input"].read(LONGEST_BODY_BYTES + 1)
    if length and length.isascii() and length.isdigit() and int(length) > LONGEST_BODY_BYTES:
        _too_long()
    return request.body


def _too_long():
    raise Refused(413, f"the body is longer than {LONGEST_BODY_BYTES:,} bytes, which is the limit")
