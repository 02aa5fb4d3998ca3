"""Map each error to the problem that an HTTP interface answers with: pages, REST, AuthZEN and SCIM."""

import logging
import re
from collections.abc import Mapping

from django.core.signals import got_request_exception
from django.http import HttpRequest

from authzconsole.common.database import RETRY_AFTER_SECONDS, is_database_locked, is_database_unavailable
from entities.errors import Refusal
from grants.policies.question import QuestionError

logger = logging.getLogger(__name__)

# a sentence that begins with the path of the invalid member
_MEMBER = re.compile(r"`([a-z_]+(?:\.[a-z_]+)*)`:? (.+)", re.DOTALL)


class Problem(Refusal):
    """The answer to a request that is refused or failed.

    errors: one object for each error. type_: the last part of the problem type; by default the one of the
    status. members: further members of the problem document.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: list[dict] | None = None,
        headers: Mapping[str, str] | None = None,
        type_: str = "",
        **members,
    ):
        self.status, self.problem_type, self.members = status, type_, members
        self.errors, self.headers = errors or [], dict(headers or {})
        super().__init__(detail)


def problem_of(error: Exception) -> Problem | None:
    """Return the problem for an error that a request expects; None for other errors.

    Counts requests that failed because the database was locked.
    """
    match error:
        case Problem():
            if error.status == 400 and not error.errors:
                error.errors = _errors_from_sentence(error.detail)
            return error
        case Refusal():
            errors = [{"field": error.field, "message": str(error)}] if error.field else []
            return Problem(
                error.status,
                error.detail,
                errors=_errors_from_sentence(str(error)) if isinstance(error, QuestionError) else errors,
                headers=_retry_after(error.retry_after),
                type_=error.problem_type,
                **error.members,
            )
        case _ if is_database_locked(error):
            return Problem(
                503,
                "the database is locked by another change: nothing was changed, repeat the request",
                headers=_retry_after(RETRY_AFTER_SECONDS),
            )
        case _ if is_database_unavailable(error):
            logger.error("the database is not available: %s", error)
            return Problem(
                503,
                "the database is not available: repeat the request, but check first whether a change was made",
                headers=_retry_after(RETRY_AFTER_SECONDS),
            )
    return None


def failure_of(error: Exception, request: HttpRequest) -> Problem:
    """Log an unexpected error and send the signal of Django. Return the problem that names the request id."""
    logger.error("%s failed", request.path, exc_info=error)
    got_request_exception.send(sender=None, request=request)
    return Problem(
        500, f"internal error; the log of the console has the details under the request id {request.id}"
    )


def _retry_after(seconds: int) -> dict[str, str]:
    return {"Retry-After": str(seconds)} if seconds else {}


def _errors_from_sentence(sentence: str) -> list[dict]:
    match = _MEMBER.match(sentence)
    return [{"field": match[1], "message": match[2]}] if match else []
