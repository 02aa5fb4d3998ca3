"""Read request bodies: one JSON object of limited size."""

from typing import NoReturn

from django.http import HttpRequest

from authzconsole.common.problems import Problem
from grants.strict_json import MalformedJson, json_from_bytes

MAX_BODY_BYTES = 1_000_000
# the longest file of changes, as text in JSON
MAX_DOCUMENT_CHARACTERS = 1_000_000
# in JSON, a character takes at most 12 bytes (two escaped surrogates); the rest is for the title
MAX_IMPORT_BYTES = 12 * MAX_DOCUMENT_CHARACTERS + 10_000


def check_content_type(request: HttpRequest) -> None:
    if request.content_type != "application/json":
        raise Problem(400, "the Content-Type must be application/json")


def read_json_object(
    request: HttpRequest,
    *,
    default: dict | None = None,
    allows_surrogates: bool = True,
    max_bytes: int = MAX_BODY_BYTES,
) -> dict:
    """Return the JSON object in the body, or `default` if the body is empty.

    allows_surrogates: accept lone surrogates, because a serializer refuses them later and names the member.
    Raise Problem: 413 if the body is too long, 400 if it is not a JSON object.
    """
    raw = _read_at_most(request, max_bytes)
    if len(raw) > max_bytes:
        _refuse_too_long(max_bytes)
    if not raw.strip():
        if default is not None:
            return default
        raise Problem(400, "the body is empty: send a JSON object")
    try:
        body = json_from_bytes(raw, text_name="the body", allows_surrogates=allows_surrogates)
    except MalformedJson as error:
        raise Problem(400, str(error)) from None
    if not isinstance(body, dict):
        raise Problem(400, "the body must be a JSON object")
    return body


def read_text(request: HttpRequest, max_bytes: int) -> str:
    """Return the body as text. Raise Problem: 413 if it is too long, 400 if it is not UTF-8."""
    raw = _read_at_most(request, max_bytes)
    if len(raw) > max_bytes:
        _refuse_too_long(max_bytes)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, f"the body is not UTF-8: byte {error.start} is invalid") from None


def _read_at_most(request: HttpRequest, max_bytes: int) -> bytes:
    length = request.META.get("CONTENT_LENGTH")
    if not length and request.META.get("wsgi.input_terminated"):
        # Django treats a chunked body as empty
        return request.META["wsgi.input"].read(max_bytes + 1)
    if length and length.isascii() and length.isdigit() and int(length) > max_bytes:
        _refuse_too_long(max_bytes)
    # Django limits `request.body`, for forms
    return request.body if max_bytes <= MAX_BODY_BYTES else request.read()


def _refuse_too_long(max_bytes: int) -> NoReturn:
    raise Problem(413, f"the body is longer than {max_bytes:,} bytes, which is the limit")
