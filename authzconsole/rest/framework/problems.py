"""Turn every error into application/problem+json (RFC 9457)."""

import json
from collections.abc import Iterator
from http import HTTPStatus

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework.exceptions import APIException, MethodNotAllowed, NotAcceptable, ValidationError

from authzconsole.common.problems import Problem, failure_of, problem_of
from entities.vocabulary import join_words

CONTENT_TYPE = "application/problem+json"
TYPES = {
    400: "invalid-request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    409: "conflict",
    410: "gone",
    412: "precondition-failed",
    413: "too-large",
    415: "unsupported-media-type",
    428: "precondition-required",
    429: "too-many-requests",
    500: "failure",
    503: "unavailable",
}


def problem_response(problem: Problem, request: HttpRequest) -> HttpResponse:
    content = {
        "type": f"urn:authzconsole:problem:{problem.problem_type or TYPES[problem.status]}",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        "instance": request.echoed_id,
        "errors": problem.errors,
        **problem.members,
    }
    return HttpResponse(
        json.dumps(content),
        content_type=CONTENT_TYPE,
        status=problem.status,
        headers={"Cache-Control": "no-store", **problem.headers},
    )


def exception_handler(error: Exception, context: dict) -> HttpResponse:
    """Return the response for an exception that a view raised (the EXCEPTION_HANDLER of Django REST
    framework).
    """
    request = getattr(context["request"], "_request", context["request"])
    problem = _problem_of_framework(error, context["view"]) or problem_of(error) or failure_of(error, request)
    return problem_response(problem, request)


def _problem_of_framework(error: Exception, view) -> Problem | None:
    """Return the problem for an error of Django or Django REST framework; None for other errors."""
    match error:
        case Http404():
            return Problem(404, "this resource does not exist, or you cannot see it")
        case PermissionDenied():
            return Problem(403, str(error))
        case ValidationError():
            errors = list(field_errors(error.detail))
            return Problem(
                400,
                "; ".join(
                    f"{e['field']}: {e['message']}" if e["field"] else e["message"] for e in errors[:5]
                ),
                errors=errors,
            )
        case MethodNotAllowed():
            methods = join_words([name for name in view.allowed_methods if name != "HEAD"])
            return Problem(405, f"this path only accepts {methods}")
        case NotAcceptable():
            media_types = join_words([renderer.media_type for renderer in view.renderer_classes], "or")
            return Problem(
                406,
                f"this path cannot answer in a format of the Accept header: send {media_types}, or no Accept "
                f"header",
            )
        case APIException():
            return Problem(error.status_code, str(error.detail), headers=_headers_of(error))
    return None


def field_errors(detail, path: str = "") -> Iterator[dict]:
    """Yield the errors of a serializer.

    `field` is a path such as `grant[2].entity`, or empty for the whole body.
    """
    if isinstance(detail, dict):
        for name, nested in detail.items():
            if isinstance(name, int):
                yield from field_errors(nested, f"{path}[{name}]")
            else:
                member = "" if name == "non_field_errors" else name
                yield from field_errors(nested, ".".join(filter(None, [path, member])))
    elif isinstance(detail, list):
        for nested in detail:
            yield from field_errors(nested, path)
    else:
        yield {"field": path, "message": str(detail)}


def _headers_of(error: APIException) -> dict:
    wait = getattr(error, "wait", None)
    return {"Retry-After": str(int(wait))} if wait else {}
