"""Two who change the same thing: the second is told, and does not undo the first unseen."""

import hashlib
import json
import re

from rest_framework.request import Request

from authzconsole.rest.framework.problems import Problem

_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')


def etag_of(*facts: object) -> str:
    digest = hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()
    return f'"{digest[:32]}"'


def check_match(request: Request, etag: str, *, is_required: bool = True) -> None:
    """Raises Problem: 428 where If-Match is needed and missing, 412 where it names something else."""
    header = request.headers.get("If-Match")
    if header is None:
        if is_required:
            raise Problem(428, "send If-Match with the ETag of what you read, so that nobody's change in between is lost")
        return
    if header.strip() != "*" and etag not in _TAG.findall(header):
        raise Problem(412, "it was changed since you read it: read it again, and repeat the change with its new ETag",
                      headers={"ETag": etag})
