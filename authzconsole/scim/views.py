"""The view of all paths below /scim/v2. It authenticates the caller before it reads the path and the method.

This module works without the packages of the extra `scim`: provisioning is then off, and every path is
answered with 404.
"""

import json
from importlib.util import find_spec

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from authzconsole.common.api_caller import REALM, authenticate_token
from authzconsole.common.problems import Problem
from authzconsole.models import TokenScope

ERROR_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error"


def is_installed() -> bool:
    return find_spec("scim2_models") is not None


@csrf_exempt
@login_not_required
def scim(request: HttpRequest, path: str = "") -> HttpResponse:
    if not settings.SCIM_ENABLED or not is_installed():
        return _refuse(
            Problem(404, "provisioning over SCIM is off: set SCIM_ENABLED and install the extra `scim`")
        )
    try:
        # a session is never enough, so there is no CSRF check
        if "Authorization" not in request.headers:
            raise Problem(
                401, "send an API token as `Authorization: Bearer TOKEN`", headers={"WWW-Authenticate": REALM}
            )
        authenticate_token(request, TokenScope.PROVISION)
    except Problem as refusal:
        return _refuse(refusal)
    from authzconsole.scim.service import respond

    return respond(request, path)


def _refuse(refusal: Problem) -> HttpResponse:
    content = {"schemas": [ERROR_SCHEMA], "status": str(refusal.status), "detail": refusal.detail}
    return HttpResponse(
        json.dumps(content),
        content_type="application/scim+json",
        status=refusal.status,
        headers={"Cache-Control": "no-store", **refusal.headers},
    )
