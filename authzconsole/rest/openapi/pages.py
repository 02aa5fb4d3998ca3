"""The document for people: Swagger UI and Redoc, from this machine, under as strict a policy as they can live with."""

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_update
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from authzconsole.rest.framework.endpoint import unknown_path

# both libraries write styles into the page as they draw, and carry their icons with them
_LOOSENED = csp_update({"style-src": [SELF, UNSAFE_INLINE], "img-src": [SELF, "data:"]})


@csrf_exempt
@login_not_required
def root(request: HttpRequest) -> HttpResponse:
    """Where the API begins there is nothing to read but what it holds."""
    return redirect("rest-swagger") if request.method in ("GET", "HEAD") else unknown_path(request)


@login_not_required
@require_safe
@_LOOSENED
def swagger(request: HttpRequest) -> HttpResponse:
    return render(request, "rest/swagger.html")


@login_not_required
@require_safe
@_LOOSENED
def redoc(request: HttpRequest) -> HttpResponse:
    return render(request, "rest/redoc.html")
