"""Turn every error into application/problem+json (RFC 9457)."""

import json
import logging
import re
from collections.abc import Iterator
from http import HTTPStatus

from django.core.exceptions import PermissionDenied
from django.core.signals import got_request_exception
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework.exceptions import APIException, MethodNotAllowed, NotAcceptable, ValidationError

from analytics.analyses import AnalysisError
from analytics.folders import ScratchError
from analytics.results.export import ExportFailed
from analytics.results.files import ResultsGone
from analytics.results.manifest import ReportChanged
from analytics.results.read import TableLeftOut
from analytics.storage import StorageError
from authzconsole.common.database.busy import RETRY_AFTER_SECONDS, is_database_locked, is_database_unavailable
from authzconsole.common.refusal import RequestRefused
from entities.services import EntityError
from entities.vocabulary import join_words
from grants.errors import (
    AlreadyPermitted,
    DuplicateRequest,
    EffectChanged,
    EffectTooLarge,
    EffectUnconfirmed,
    GrantError,
    JournalReadOnly,
    LifecycleError,
    NotAdministrator,
    NotApprover,
    PlanError,
    PrincipalError,
    RequestClosed,
    SecondPersonRequired,
    StaleBase,
)
from grants.history import HistoryError, HistoryNotReady
from grants.policies.catalogue import UnknownGeneration
from grants.policies.question import QuestionError

logger = logging.getLogger(__name__)

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
# the status of domain errors; the first matching class decides
_STATUS_BY_ERROR = (
    (HistoryNotReady, 503),
    (HistoryError, 400),
    (NotApprover, 403),
    (RequestClosed, 409),
    (NotAdministrator, 403),
    (LifecycleError, 409),
    (PrincipalError, 409),
    (PlanError, 409),
    (GrantError, 400),
    (EntityError, 400),
    (ResultsGone, 410),
    (TableLeftOut, 409),
    (ExportFailed, 503),
    (AnalysisError, 400),
    (UnknownGeneration, 400),
    (ReportChanged, 409),
    (ScratchError, 503),
    (StorageError, 503),
)


class Problem(Exception):
    """A request that is refused.

    errors: one object for each error. type_: the last part of the problem type; by default the one of the
    status.
    members: further members of the response.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: list[dict] | None = None,
        headers: dict | None = None,
        type_: str = "",
        **members,
    ):
        self.status, self.detail, self.errors = status, detail, errors or []
        self.headers, self.type, self.members = headers or {}, type_ or TYPES[status], members
        super().__init__(detail)


def problem_response(problem: Problem, request: HttpRequest) -> HttpResponse:
    content = {
        "type": f"urn:authzconsole:problem:{problem.type}",
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
    problem = _problem_of(error, context["view"])
    if problem is None:
        logger.error("%s failed", request.path, exc_info=error)
        got_request_exception.send(sender=None, request=request)
        problem = Problem(
            500, f"internal error; the log of the console has the details under the request id {request.id}"
        )
    return problem_response(problem, request)


def _problem_of(error: Exception, view) -> Problem | None:
    match error:
        case Problem():
            return error
        case RequestRefused():
            return Problem(
                error.status,
                error.message,
                headers=error.headers,
                errors=_errors_from_sentence(error.message) if error.status == 400 else [],
            )
        case StaleBase():
            return Problem(
                409,
                str(error),
                type_="stale-base",
                base_revision=error.base_revision,
                revision=error.revision,
            )
        case EffectUnconfirmed():
            return Problem(409, str(error), type_="unconfirmed-effect")
        case EffectChanged():
            return Problem(409, str(error), type_="effect-changed")
        case DuplicateRequest():
            return Problem(409, str(error), type_="duplicate-request", request=error.request_id)
        case AlreadyPermitted():
            return Problem(409, str(error), type_="already-permitted")
        case SecondPersonRequired():
            return Problem(403, str(error), type_="second-person-required")
        case EffectTooLarge():
            return Problem(409, str(error), type_="effect-too-large")
        case JournalReadOnly():
            return Problem(503, f"this console is read-only: {error}; nothing was changed", type_="read-only")
        case _ if is_database_locked(error):
            return Problem(
                503,
                "the database is locked by another change: nothing was changed, repeat the request",
                headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
            )
        case _ if is_database_unavailable(error):
            logger.error("the database is not available: %s", error)
            return Problem(
                503,
                "the database is not available: repeat the request, but check first whether a change was made",
                headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
            )
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
        case QuestionError():
            return Problem(400, str(error), errors=_errors_from_sentence(str(error)))
        case APIException():
            return Problem(error.status_code, str(error.detail), headers=_headers_of(error))
    status = next(
        (status for error_class, status in _STATUS_BY_ERROR if isinstance(error, error_class)), None
    )
    if status is None:
        return None
    field = getattr(error, "field", "")
    return Problem(status, str(error), errors=[{"field": field, "message": str(error)}] if field else [])


# a sentence that begins with the path of the invalid member
_MEMBER = re.compile(r"`([a-z_]+(?:\.[a-z_]+)*)`:? (.+)", re.DOTALL)


def _errors_from_sentence(sentence: str) -> list[dict]:
    match = _MEMBER.match(sentence)
    return [{"field": match[1], "message": match[2]}] if match else []


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
