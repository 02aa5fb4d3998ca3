"""The page on which the reader chooses the time zone of the pages.

It is stored in a cookie of the browser.
"""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from authzconsole.web.shared.rendering import render_page, see_other
from authzconsole.web.shared.times.zones import COOKIE, COOKIE_SECONDS, time_zone_names, time_zone_of


@require_http_methods(["GET", "HEAD", "POST"])
def choose_time_zone(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _page(request)
    name = request.POST.get("zone", "")
    if name not in time_zone_names():
        return _page(request, fault="Choose a time zone from the list.", status=400)
    messages.success(request, f"Times are shown in the time zone {name}.")
    response = see_other(reverse("time-zone"))
    response.set_cookie(
        COOKIE, name, max_age=COOKIE_SECONDS, secure=request.is_secure(), httponly=True, samesite="Lax"
    )
    return response


def _page(request: HttpRequest, *, fault: str = "", status: int = 200) -> HttpResponse:
    return render_page(
        request,
        "accounts/time_zone.html",
        {
            "zones": time_zone_names(),
            "chosen": time_zone_of(request).key,
            "now": timezone.now(),
            "fault": fault,
        },
        status=status,
    )
