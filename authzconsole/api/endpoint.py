"""What every endpoint of the AuthZEN API does around its answer: who calls, what was sent, and refusals as one string.

Plain Django views: a decision takes a fraction of a millisecond, less than a framework's view around it.
"""

import json
import logging
from collections.abc import Callable
from functools import wraps

from django.contrib.auth.decorators import login_not_required
from django.core.signals import got_request_exception
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from authzconsole.api.bodies import body_of, check_content_type
from authzconsole.api.callers import Caller, caller_of
from authzconsole.api.refusal import Refused
from grants.policies.question import QuestionError

logger = logging.getLogger(__name__)


def answer(content: object, *, status: int = 200, headers: dict | None = None) -> HttpResponse:
    """JSON that nobody keeps: the next answer may differ."""
    return HttpResponse(json.dumps(content), content_type="application/json", status=status,
                        headers={"Cache-Control": "no-store", **(headers or {})})


def endpoint(scope: str) -> Callable:
    """A view that takes JSON by POST, from whoever may call with that scope, and answers with what is returned."""
    def decorated(answered: Callable[[Caller, dict], object]):
        @wraps(answered)
        def view(request: HttpRequest) -> HttpResponse:
            try:
                check_method(request, "POST")
                check_content_type(request)
                caller = caller_of(request, scope)
                return answer(answered(caller, body_of(request)))
            except QuestionError as error:
                return answer(str(error), status=400)
            except Refused as refused:
                return answer(refused.message, status=refused.status, headers=refused.headers)
            except Exception:
                # Django's page for it is HTML; the signal is what Django sends too
                logger.exception("%s failed", request.path)
                got_request_exception.send(sender=None, request=request)
                return answer(f"the console failed to answer; its log says why, at the request {request.id}", status=500)

        # a token needs no protection against forgery; `caller_of` checks it for a session
        return csrf_exempt(login_not_required(view))

    return decorated


def check_method(request: HttpRequest, *allowed: str) -> None:
    if request.method not in allowed:
        raise Refused(405, f"this endpoint answers {' and '.join(allowed)} only", Allow=", ".join(allowed))
