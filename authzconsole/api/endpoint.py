"""The decorator of every AuthZEN endpoint. It authenticates the caller, reads the body, and reports errors as
one JSON string.

The endpoints are plain Django views, because a decision takes less time than a view of Django REST framework
adds.
"""

import json
import logging
from collections.abc import Callable
from functools import wraps

from django.contrib.auth.decorators import login_not_required
from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from authzconsole.common.api_caller import Caller, authenticate_caller
from authzconsole.common.database.busy import RETRY_AFTER_SECONDS, is_database_locked, is_database_unavailable
from authzconsole.common.refusal import RequestRefused
from authzconsole.common.request_body import check_content_type, read_json_object
from grants.policies.question import QuestionError

logger = logging.getLogger(__name__)


def json_response(content: object, *, status: int = 200, headers: dict | None = None) -> HttpResponse:
    """Return a JSON response with headers that prevent caching, because the next answer can differ."""
    return HttpResponse(
        json.dumps(content),
        content_type="application/json",
        status=status,
        headers={"Cache-Control": "no-store", **(headers or {})},
    )


def endpoint(scope: str) -> Callable:
    """Turn `function(caller, body)` into a view for POST requests with JSON bodies from callers with this
    scope.
    """

    def decorate(function: Callable[[Caller, dict], object]):
        def handle(request: HttpRequest) -> HttpResponse:
            check_method(request, "POST")
            check_content_type(request)
            caller = authenticate_caller(request, scope)
            return json_response(function(caller, read_json_object(request, allows_surrogates=False)))

        @wraps(function)
        def view(request: HttpRequest) -> HttpResponse:
            try:
                return _retry_lost_connection(handle, request)
            except QuestionError as error:
                return json_response(str(error), status=400)
            except RequestRefused as refusal:
                return json_response(refusal.message, status=refusal.status, headers=refusal.headers)
            except Exception as error:
                return server_error_response(request, error)

        # requests with a token need no CSRF check; `authenticate_caller` makes it for sessions
        return csrf_exempt(login_not_required(view))

    return decorate


def _retry_lost_connection(
    handle: Callable[[HttpRequest], HttpResponse], request: HttpRequest
) -> HttpResponse:
    """Handle the request. If the persistent database connection was lost, handle it once more on a new
    connection.

    This is safe, because decisions change nothing.
    """
    try:
        return handle(request)
    except (OperationalError, InterfaceError):
        if connection.in_atomic_block or connection.is_usable():
            raise
        connection.close()
        return handle(request)


def server_error_response(request: HttpRequest, error: Exception) -> HttpResponse:
    if is_database_locked(error):
        return json_response(
            f"the database is locked by another change; repeat the request in {RETRY_AFTER_SECONDS} seconds",
            status=503,
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        )
    if is_database_unavailable(error):
        logger.error("%s failed: %s", request.path, error)
        return json_response(
            f"the database is not available; repeat the request in {RETRY_AFTER_SECONDS} seconds",
            status=503,
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        )
    # Respond with JSON instead of Django's HTML page, but log the error and send the signal as Django does.
    logger.exception("%s failed", request.path, exc_info=error)
    got_request_exception.send(sender=None, request=request)
    return json_response(
        f"internal error; the log of the console has the details under the request id {request.id}",
        status=500,
    )


@csrf_exempt
@login_not_required
def unknown_path(request: HttpRequest) -> HttpResponse:
    """Return 404 as JSON for every path under `/access` that has no endpoint."""
    return json_response(
        "this API has no such path; /.well-known/authzen-configuration lists all endpoints", status=404
    )


def check_method(request: HttpRequest, *allowed: str) -> None:
    """Raise RequestRefused (405) for other methods."""
    if request.method not in allowed:
        raise RequestRefused(
            405, f"this endpoint only accepts {' and '.join(allowed)}", Allow=", ".join(allowed)
        )
