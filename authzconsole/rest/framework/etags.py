"""ETags: refuse a change that is based on outdated data, and send no content that the caller already has.

The ETag of a resource covers its whole representation.
"""

import hashlib
import json
import re

from rest_framework.request import Request

from authzconsole.rest.framework.problems import Problem

_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')


def etag_of(*values: object) -> str:
    digest = hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()
    return f'"{digest[:32]}"'


def check_match(request: Request, etag: str, *, is_required: bool = True) -> None:
    """Raise Problem: 428 if If-Match is required and missing, 412 if it does not match, or if If-None-Match
    matches.
    """
    if is_known(request, etag):
        raise Problem(412, "the resource has an ETag of If-None-Match", headers={"ETag": etag})
    header = request.headers.get("If-Match")
    if header is None:
        if is_required:
            raise Problem(
                428, "send If-Match with the ETag that you read, so that no change made since then is lost"
            )
        return
    if header.strip() != "*" and etag not in _TAG.findall(header):
        raise Problem(
            412,
            "the resource has changed since you read it: read it again and repeat the change with the new ETag",
            headers={"ETag": etag},
        )


def is_known(request: Request, etag: str) -> bool:
    """Return whether If-None-Match contains the ETag.

    Weak and strong tags are equal here (RFC 9110, section 13.1.2).
    """
    header = request.headers.get("If-None-Match")
    if header is None:
        return False
    return header.strip() == "*" or etag in (tag.removeprefix("W/") for tag in _TAG.findall(header))
