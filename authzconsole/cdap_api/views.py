"""Authenticate the callers of the administration API of CDAP, find the function of a call, and answer as CDAP does:
JSON for content, and plain text for errors.
"""

import re
from http import HTTPStatus

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from authzconsole.cdap_api.calls import CALLS
from authzconsole.common.api_caller import REALM, authenticate_token
from authzconsole.common.problems import Problem, failure_of, problem_of
from authzconsole.models import TokenScope
from grants.models import User


@login_not_required
def ping(request: HttpRequest) -> HttpResponse:
    """Answer the call with which `cdap-cli` connects; it compares the text."""
    return HttpResponse("OK.\n", content_type="text/plain")


@login_not_required
def ping_gateway(request: HttpRequest) -> HttpResponse:
    """Answer the call with which the client finds out whether it must authenticate. It is 401 for every request without a
    valid token; the client then uses the token in its file of access tokens.
    """
    try:
        _authenticate(request)
    except Problem as refusal:
        return _refuse(refusal)
    return ping(request)


@csrf_exempt
@login_not_required
def administer(request: HttpRequest, call: str) -> HttpResponse:
    """Answer a call. A session is never enough, so there is no CSRF check."""
    try:
        _authenticate(request)
        for method, pattern, function in CALLS:
            if method == request.method and (match := re.fullmatch(pattern, call)):
                content = function(request, **match.groupdict())
                return HttpResponse() if content is None else JsonResponse(content, safe=False)
        raise Problem(
            404, f"there is no call {request.method} {request.path} in the administration API of CDAP"
        )
    except Exception as error:
        return _refuse(problem_of(error) or failure_of(error, request))


def _authenticate(request: HttpRequest) -> None:
    """Set the user of the request to the owner of its token. Raise Problem as `authenticate_token`, and without a token."""
    if "Authorization" not in request.headers:
        raise Problem(
            401, "send an API token as `Authorization: Bearer TOKEN`", headers={"WWW-Authenticate": REALM}
        )
    scopes = [TokenScope.READ, TokenScope.ADMINISTER] if request.method == "GET" else [TokenScope.ADMINISTER]
    request.user = User.objects.get(pk=authenticate_token(request, *scopes).owner_id)


def _refuse(refusal: Problem) -> HttpResponse:
    # the client takes 501 for CDAP without authorization
    status = (
        HTTPStatus.INTERNAL_SERVER_ERROR if refusal.status == HTTPStatus.NOT_IMPLEMENTED else refusal.status
    )
    return HttpResponse(
        refusal.detail,
        status=status,
        content_type="text/plain; charset=utf-8",
        headers={"Cache-Control": "no-store", **refusal.headers},
    )
