import re
import uuid

_GIVEN = re.compile(r"[\x21-\x7e]{1,200}")


class RequestIdMiddleware:
    """Gives each request an id, or keeps the caller's, and sends it back on every answer."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        given = request.headers.get("X-Request-ID", "")
        request.id = given if _GIVEN.fullmatch(given) else uuid.uuid4().hex
        response = self.get_response(request)
        response["X-Request-ID"] = request.id
        return response
