"""The pages of what cannot be answered."""

from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.cache import patch_cache_control

from authzconsole.web.context_processors import navigation
from authzconsole.web.shared.guard import InvalidAddress
from authzconsole.web.shared.rendering import see_other


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Says what is wrong with an ill-formed address, and of a well-formed one nothing, not even whether it exists."""
    fault = str(exception) if isinstance(exception, InvalidAddress) else ""
    return render(request, "404.html", {"fault": fault}, status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Name the request id, which is on every log line of this request. No context processor runs: one may be the cause."""
    return HttpResponse(render_to_string("500.html", {"request_id": request.id}), status=500)


def method_not_allowed(request: HttpRequest, refusal: HttpResponseNotAllowed) -> HttpResponse:
    """Says what this address takes, and leads to the room that it lies in, among those that this account may enter."""
    rooms = [item for item in navigation(request).get("nav_items", ()) if request.path.startswith(item["url"])]
    room = max(rooms, key=lambda item: len(item["url"]), default={"title": "Sign in", "url": reverse("sign-in")})
    page = render(request, "405.html", {"room": room, "takes_a_form": "GET" not in refusal["Allow"]})
    # in the refusal itself, which is in the log already
    refusal["Content-Type"], refusal.content = page["Content-Type"], page.content
    patch_cache_control(refusal, private=True, no_store=True)
    return refusal


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """For a form whose token is of an earlier sign-in. Who signs in on two pages has nothing left to do on the second."""
    if request.path == reverse("sign-in") and request.user.is_authenticated:
        messages.info(request, f"You are signed in already, as {request.user.username}.")
        back = urlencode({REDIRECT_FIELD_NAME: request.POST.get(REDIRECT_FIELD_NAME, "")})
        return see_other(f"{request.path}?{back}")
    return render(request, "403_csrf.html", status=403)
