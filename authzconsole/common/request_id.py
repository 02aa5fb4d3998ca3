"""Give every request an id, so that an error page, a log line and a journal line can be matched."""

import re
import uuid

_ACCEPTED = re.compile(r"[\x20-\x7e]{1,200}")


class RequestIdMiddleware:
    """Gives each request an id, or keeps the caller's, and sends it back on every answer."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        given = request.headers.get("X-Request-ID", "")
        request.id = given if _ACCEPTED.fullmatch(given) else uuid.uuid4().hex
        response = self.get_response(request)
        response["X-Request-ID"] = request.id
        return response
