import re
import uuid

from django.contrib import messages
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.shortcuts import render
from django.urls import reverse

from authzconsole.busy import BUSY_RETRY_SECONDS, is_busy
from authzconsole.web.rendering import see_other

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_GIVEN = re.compile(r"[\x20-\x7e]{1,200}")


class RequestIdMiddleware:
    """Gives each request an id, or keeps the caller's, and sends it back on every answer."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        given = request.headers.get("X-Request-ID", "")
        request.id = given if _GIVEN.fullmatch(given) else uuid.uuid4().hex
        response = self.get_response(request)
        response["X-Request-ID"] = request.id
        return response


class SignInMiddleware(LoginRequiredMiddleware):
    """Leads to the sign-in, and from there back to what was to be seen; what was to be done is not done by coming back."""

    def handle_no_permission(self, request, view_func):
        if request.method in SAFE_METHODS:
            return super().handle_no_permission(request, view_func)
        messages.info(request, "Your session had ended; sign in and repeat what you did.")
        return see_other(reverse("sign-in"))


class BusyDatabaseMiddleware:
    """Asks who waited for the database in vain to come again."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        return self.get_response(request)

    def process_exception(self, request, error):
        if not is_busy(error):
            return None
        response = render(request, "503.html", status=503)
        response["Retry-After"] = str(BUSY_RETRY_SECONDS)
        return response
