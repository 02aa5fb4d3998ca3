"""Give every request an id, so that error pages, log lines and journal lines can be matched."""

import re
import time
import uuid
from collections.abc import Callable

import structlog
from django.core.signals import request_finished
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse

_VALID_ID = re.compile(r"[\x20-\x7e]{1,200}")
logger = structlog.stdlib.get_logger("authzconsole.access")


class RequestIdMiddleware:
    """Give each request an id, or keep the id that the caller sent. Add it to the response and to every log line of the request.

    Also log one line for each response, because the access log of the server does not have the id.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        sent_id = request.headers.get("X-Request-ID", "")
        request.id = sent_id if _VALID_ID.fullmatch(sent_id) else uuid.uuid4().hex
        # the id stays bound until request_finished, because Django logs an error status after the last middleware
        structlog.contextvars.bind_contextvars(request_id=request.id)
        start = time.perf_counter()
        response = self.get_response(request)
        logger.info("answered", method=request.method, path=request.path, status=response.status_code,
                    milliseconds=round(1_000 * (time.perf_counter() - start), 1), client=request.META.get("REMOTE_ADDR"))
        response["X-Request-ID"] = request.id
        return response


@receiver(request_finished)
def unbind_request_id(**kwargs: object) -> None:
    structlog.contextvars.unbind_contextvars("request_id")
