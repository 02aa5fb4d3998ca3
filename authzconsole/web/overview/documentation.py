"""The documentation site, which `make docs` and the installation build, for every signed-in account."""

from pathlib import Path

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_update
from django.conf import settings
from django.core.exceptions import SuspiciousFileOperation
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils._os import safe_join
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from authzconsole.web.shared.rendering import render_page

FIRST_PAGE = "index.html"
CACHED_SECONDS = 300


@require_safe
def documentation(request: HttpRequest) -> HttpResponse:
    """Redirect to the first page of the site. Return 404 and say how to build it if there is none."""
    if not Path(settings.DOCS_ROOT, FIRST_PAGE).is_file():
        return render_page(request, "overview/documentation_missing.html", {}, status=404)
    return redirect("documentation-file", path=FIRST_PAGE)


@require_safe
# the theme has inline styles, and icons in data: URLs
@csp_update({"style-src": [SELF, UNSAFE_INLINE], "img-src": [SELF, "data:"]})
def documentation_file(request: HttpRequest, path: str) -> HttpResponseBase:
    """Return a file of the site, or what `documentation` returns without a site. Raise Http404 for a path that leads to no
    file in its folder.
    """
    try:
        file = Path(safe_join(settings.DOCS_ROOT, path))
        is_file = file.is_file()
    except (SuspiciousFileOperation, OSError):
        # OSError: a name is too long
        raise Http404 from None
    if not is_file:
        if not Path(settings.DOCS_ROOT, FIRST_PAGE).is_file():
            return documentation(request)
        raise Http404
    response = FileResponse(file.open("rb"))
    patch_cache_control(response, private=True, max_age=CACHED_SECONDS)
    return response
