"""The pages that show the OpenAPI document: Swagger UI and Redoc, from local files and with a strict CSP."""

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_update
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from authzconsole.rest.framework.endpoint import unknown_path

# both libraries insert inline styles and use data: icons
_RELAXED_CSP = csp_update({"style-src": [SELF, UNSAFE_INLINE], "img-src": [SELF, "data:"]})


@csrf_exempt
@login_not_required
def root(request: HttpRequest) -> HttpResponse:
    """Redirect the root of the API to its documentation."""
    return redirect("rest-swagger") if request.method in ("GET", "HEAD") else unknown_path(request)


@login_not_required
@require_safe
@_RELAXED_CSP
def swagger(request: HttpRequest) -> HttpResponse:
    return render(request, "rest/swagger.html")


@login_not_required
@require_safe
@_RELAXED_CSP
def redoc(request: HttpRequest) -> HttpResponse:
    return render(request, "rest/redoc.html")
