"""A shorter way to the AuthZEN endpoints for who shows a token: past what only pages and sessions need.

Most of what Django does around a view (sessions, messages, htmx, forgery, templates) takes longer than the decision. The view
is the same, and so are the checks of the host, of HTTPS and of the token.
"""

from collections.abc import Callable, Iterable

from django.core.exceptions import DisallowedHost
from django.core.handlers.wsgi import WSGIRequest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.middleware.security import SecurityMiddleware
from django.urls import set_script_prefix

from authzconsole.api.urls import VIEWS
from authzconsole.common.request_id import RequestIdMiddleware, unbind_request_id


class TokenFastPath:
    """A WSGI application in front of `console`, which answers all that is not for this lane."""

    def __init__(self, console: Callable):
        self._console = console
        self._answers = {
            f"/{path}": RequestIdMiddleware(SecurityMiddleware(_of_known_host(view))) for path, view in VIEWS.items()
        }

    def __call__(self, environ: dict, start_response: Callable) -> Iterable[bytes]:
        answered = self._answers.get(environ.get("PATH_INFO", ""))
        if answered is None or "HTTP_AUTHORIZATION" not in environ or environ.get("SCRIPT_NAME"):
            return self._console(environ, start_response)
        set_script_prefix("/")
        _connection_renew()
        response = answered(WSGIRequest(environ))
        unbind_request_id()
        headers = [*response.items(), ("Content-Length", str(len(response.content)))]
        start_response(f"{response.status_code} {response.reason_phrase}", headers)
        return [response.content]


def _of_known_host(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    def answered(request: HttpRequest) -> HttpResponse:
        try:
            request.get_host()
        except DisallowedHost:
            return HttpResponse("this console is not known by the name in the Host header\n", status=400,
                                content_type="text/plain")
        return view(request)

    return answered


def _connection_renew() -> None:
    """What Django does when a request begins, but without a question to the database whether it is still there: the endpoint
    asks again where it was not."""
    # who calls from within a transaction of its own keeps it
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()
        connection.health_check_done = True
