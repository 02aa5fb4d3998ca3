"""What every endpoint of the AuthZEN API does around its answer: who calls, what was sent, and refusals as one string.

Plain Django views: a decision takes a fraction of a millisecond, less than a framework's view around it.
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

from authzconsole.common.api_caller import Caller, caller_of
from authzconsole.common.database_busy import BUSY_RETRY_SECONDS, is_busy
from authzconsole.common.refusal import Refused
from authzconsole.common.request_body import body_of, check_content_type
from grants.policies.question import QuestionError

logger = logging.getLogger(__name__)


def answer(content: object, *, status: int = 200, headers: dict | None = None) -> HttpResponse:
    """JSON that nobody keeps: the next answer may differ."""
    return HttpResponse(json.dumps(content), content_type="application/json", status=status,
                        headers={"Cache-Control": "no-store", **(headers or {})})


def endpoint(scope: str) -> Callable:
    """A view that takes JSON by POST, from whoever may call with that scope, and answers with what is returned."""
    def decorated(answered: Callable[[Caller, dict], object]):
        def checked(request: HttpRequest) -> HttpResponse:
            check_method(request, "POST")
            check_content_type(request)
            caller = caller_of(request, scope)
            return answer(answered(caller, body_of(request)))

        @wraps(answered)
        def view(request: HttpRequest) -> HttpResponse:
            try:
                return _with_connection(checked, request)
            except QuestionError as error:
                return answer(str(error), status=400)
            except Refused as refused:
                return answer(refused.message, status=refused.status, headers=refused.headers)
            except Exception as error:
                return _failed(request, error)

        # a token needs no protection against forgery; `caller_of` checks it for a session
        return csrf_exempt(login_not_required(view))

    return decorated


def _with_connection(checked: Callable[[HttpRequest], HttpResponse], request: HttpRequest) -> HttpResponse:
    """Asks once more on a new connection where the kept one was lost: nothing is changed by asking."""
    try:
        return checked(request)
    except (OperationalError, InterfaceError):
        if connection.in_atomic_block or connection.is_usable():
            raise
        connection.close()
        return checked(request)


def _failed(request: HttpRequest, error: Exception) -> HttpResponse:
    if is_busy(error):
        return answer(f"another change holds the database; ask again in {BUSY_RETRY_SECONDS} seconds", status=503,
                      headers={"Retry-After": str(BUSY_RETRY_SECONDS)})
    # Django's page for it is HTML; the signal is what Django sends too
    logger.exception("%s failed", request.path, exc_info=error)
    got_request_exception.send(sender=None, request=request)
    return answer(f"the console failed to answer; its log says why, at the request {request.id}", status=500)


def check_method(request: HttpRequest, *allowed: str) -> None:
    if request.method not in allowed:
        raise Refused(405, f"this endpoint answers {' and '.join(allowed)} only", Allow=", ".join(allowed))
