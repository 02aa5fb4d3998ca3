"""Give every request an id, so that error pages, log lines and journal lines can be matched."""

import re
import time
import uuid
from collections.abc import Callable
from contextvars import ContextVar

import structlog
from django.core.signals import request_finished
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse

from authzconsole.common.monitoring.metrics import observe_response
from authzconsole.common.monitoring.reports import traced_response

# a header value cannot contain other control characters than a tab, which would split a line of the log
CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# unlike those of the log, without 0x80 to 0x9f, which are bytes of UTF-8 here
_NOT_IN_HEADERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# the links of invitations, which authzconsole.common.invitations makes
INVITATIONS = "/invitation/"
MAX_CALLER_ID_CHARACTERS = 200
logger = structlog.stdlib.get_logger("authzconsole.access")
_current_request: ContextVar[HttpRequest | None] = ContextVar("current_request", default=None)


def current_request() -> HttpRequest | None:
    """Return the request that this thread handles; None in commands and tasks."""
    return _current_request.get()


def bind_account(name: str, **more: object) -> None:
    """Add the account to every further log line of the request. more: further values, such as the number of
    its API token.
    """
    structlog.contextvars.bind_contextvars(account=name, **more)


class RequestIdMiddleware:
    """Give each request an id. Store the X-Request-ID of the caller separately, as `request.caller_id`.

    The response returns the id of the caller, or `request.id` if the caller sent none. Every log line of the
    request has both. Also log one line for each response, because the access log of the server does not
    contain the id.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # `request.headers` copies all headers first
        sent_id = request.META.get("HTTP_X_REQUEST_ID", "")
        request.id = uuid.uuid4().hex
        request.caller_id = CONTROL_CHARACTERS.sub("", sent_id)[:MAX_CALLER_ID_CHARACTERS]
        request.echoed_id = sent_id if sent_id and not _NOT_IN_HEADERS.search(sent_id) else request.id
        _current_request.set(request)
        # the id stays bound until request_finished, because Django logs an error status after the last
        # middleware
        structlog.contextvars.bind_contextvars(
            request_id=request.id, **({"caller_request_id": request.caller_id} if request.caller_id else {})
        )
        start = time.perf_counter()
        response = traced_response(request, self.get_response)
        seconds = time.perf_counter() - start
        observe_response(request.path, response.status_code, seconds)
        logger.info(
            "answered",
            method=request.method,
            path=_without_secret(request.path),
            status=response.status_code,
            milliseconds=round(1_000 * seconds, 1),
            client=request.META.get("REMOTE_ADDR"),
        )
        response["X-Request-ID"] = request.echoed_id
        return response


def _without_secret(path: str) -> str:
    """Return the path for the log, without the link of an invitation: a reader of the log could use it before the user."""
    return f"{INVITATIONS}..." if path.startswith(INVITATIONS) else path


@receiver(request_finished)
def unbind_request_id(**kwargs: object) -> None:
    _current_request.set(None)
    structlog.contextvars.unbind_contextvars("request_id", "caller_request_id", "account", "token", "seen_as")
