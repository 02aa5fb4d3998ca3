"""A fast path to the AuthZEN endpoints for callers with a token. It skips the middleware that only pages and
sessions need.

This middleware (sessions, messages, htmx, CSRF and others) takes longer than the decision. The fast path
calls the same views, and checks the host, HTTPS and the token in the same way. `docs/reference/performance.md` states
the gain.
"""

from collections.abc import Callable, Iterable

from django.core.exceptions import DisallowedHost
from django.core.handlers.wsgi import WSGIRequest
from django.db import DEFAULT_DB_ALIAS, connections
from django.http import HttpRequest, HttpResponse
from django.middleware.security import SecurityMiddleware
from django.urls import set_script_prefix

from authzconsole.api.urls import VIEWS
from authzconsole.common.database import set_prepare_threshold
from authzconsole.common.request_id import RequestIdMiddleware, unbind_request_id
from authzconsole.common.security_events.record import record_denial


class TokenFastPath:
    """A WSGI application that handles AuthZEN calls with a token, and passes all other requests to `console`."""

    def __init__(self, console: Callable):
        self._console = console
        self._handlers = {
            f"/{path}": RequestIdMiddleware(SecurityMiddleware(_check_host(view)))
            for path, view in VIEWS.items()
        }

    def __call__(self, environ: dict, start_response: Callable) -> Iterable[bytes]:
        handler = self._handlers.get(environ.get("PATH_INFO", ""))
        if handler is None or "HTTP_AUTHORIZATION" not in environ or environ.get("SCRIPT_NAME"):
            return self._console(environ, start_response)
        set_script_prefix("/")
        _renew_connection()
        # the last request on this connection may have been a page
        set_prepare_threshold(is_page=False)
        request = WSGIRequest(environ)
        response = handler(request)
        if response.status_code == 403:
            record_denial(request)
        unbind_request_id()
        headers = [*response.items(), ("Content-Length", str(len(response.content)))]
        start_response(f"{response.status_code} {response.reason_phrase}", headers)
        return [response.content]


def _check_host(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    def checked_view(request: HttpRequest) -> HttpResponse:
        try:
            request.get_host()
        except DisallowedHost:
            return HttpResponse(
                "the Host header does not name this console (see ALLOWED_HOSTS)\n",
                status=400,
                content_type="text/plain",
            )
        return view(request)

    return checked_view


def _renew_connection() -> None:
    """Close an obsolete connection, as Django does at the start of a request, but without the query that
    checks its health.

    If the connection was lost, the endpoint repeats the request.
    """
    database = connections[DEFAULT_DB_ALIAS]
    # a caller inside a transaction (a test) keeps its connection
    if not database.in_atomic_block:
        database.close_if_unusable_or_obsolete()
        database.health_check_done = True
