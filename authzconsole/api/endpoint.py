"""The decorator of every AuthZEN endpoint, and the public metadata document that lists them.

The decorator authenticates the caller, reads the body, and reports errors as one JSON string.

The endpoints are plain Django views, because a decision takes less time than a view of Django REST framework
adds.
"""

import json
from collections.abc import Callable
from functools import partial, wraps

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from authzconsole.common.api_caller import Caller, authenticate_caller
from authzconsole.common.problems import Problem, failure_of, problem_of
from authzconsole.common.request_body import check_content_type, read_json_object

PATHS = {
    "access_evaluation_endpoint": "access/v1/evaluation",
    "access_evaluations_endpoint": "access/v1/evaluations",
    "search_subject_endpoint": "access/v1/search/subject",
    "search_resource_endpoint": "access/v1/search/resource",
    "search_action_endpoint": "access/v1/search/action",
}
# the access request profile of AuthZEN, which is a draft
REQUEST_PATH = "access/v1/requests"
CAPABILITIES = ["urn:openid:authzen:capability:access-request"]


def json_response(content: object, *, status: int = 200, headers: dict | None = None) -> HttpResponse:
    """Return a JSON response with headers that prevent caching, because the next answer can differ."""
    return HttpResponse(
        json.dumps(content),
        content_type="application/json",
        status=status,
        headers={"Cache-Control": "no-store", **(headers or {})},
    )


def sentence_response(problem: Problem) -> HttpResponse:
    """Return the sentence of a problem as a JSON string."""
    return json_response(problem.detail, status=problem.status, headers=problem.headers)


def api_view(function: Callable[..., HttpResponse], *, respond=sentence_response) -> Callable:
    """Turn a function of a request into a view without sign-in page and CSRF check: it authenticates the
    caller itself.

    respond: returns the response for the problem of an error.
    """

    @wraps(function)
    def view(request: HttpRequest, **kwargs) -> HttpResponse:
        try:
            return function(request, **kwargs)
        except Exception as error:
            return respond(problem_of(error) or failure_of(error, request))

    # requests with a token need no CSRF check; `authenticate_caller` makes it for sessions
    return csrf_exempt(login_not_required(view))


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

        return api_view(wraps(function)(partial(_retry_lost_connection, handle)))

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


@api_view
def unknown_path(request: HttpRequest) -> HttpResponse:
    """Return 404 as JSON for every path under `/access` that has no endpoint."""
    raise Problem(404, "this API has no such path; /.well-known/authzen-configuration lists all endpoints")


def check_method(request: HttpRequest, *allowed: str) -> None:
    """Raise Problem (405) for other methods."""
    if request.method not in allowed:
        raise Problem(
            405, f"this endpoint only accepts {' and '.join(allowed)}", headers={"Allow": ", ".join(allowed)}
        )


@api_view
def configuration(request: HttpRequest) -> HttpResponse:
    """Return the metadata document. It is public, because clients read it before they have a token."""
    check_method(request, "GET", "HEAD")
    # from the setting, because the caller controls the Host header
    base = settings.PUBLIC_URL
    return json_response(
        {
            "policy_decision_point": base,
            **{name: f"{base}/{path}" for name, path in PATHS.items()},
            "access_request_endpoint": f"{base}/{REQUEST_PATH}",
            "capabilities": CAPABILITIES,
        }
    )
