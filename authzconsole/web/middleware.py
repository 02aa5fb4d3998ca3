from urllib.parse import urlencode, urlsplit, urlunsplit

from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpResponseNotAllowed
from django.shortcuts import render
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from authzconsole.common.database_busy import BUSY_RETRY_SECONDS, is_busy
from authzconsole.web.error_pages import method_not_allowed
from authzconsole.web.shared.rendering import see_other

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class SignInMiddleware(LoginRequiredMiddleware):
    """Leads to the sign-in, and from there back to what was to be seen; what was to be done is not done by coming back.

    Whoever asked for a file comes back to the page that offers it: a file comes without a page, and the sign-in would stay.
    """

    def handle_no_permission(self, request, view_func):
        back, is_file = _page_before(request), "extension" in request.resolver_match.kwargs
        if request.method not in SAFE_METHODS:
            messages.info(request, "Your session had ended; sign in and repeat what you did.")
        elif not (is_file and back):
            return super().handle_no_permission(request, view_func)
        return see_other(f"{reverse('sign-in')}?{urlencode({REDIRECT_FIELD_NAME: back})}" if back else reverse("sign-in"))


def _page_before(request) -> str:
    """The path of the page that this was asked from; empty where that is another host's, or the browser does not say it."""
    try:
        came_from = urlsplit(request.headers.get("Referer", ""))
    except ValueError:
        return ""
    return urlunsplit(("", "", came_from.path, came_from.query, "")) if came_from.netloc == request.get_host() else ""


class PasswordFirstMiddleware:
    """Leads an account whose password somebody else set to the page where it chooses its own, whatever it asks for.

    Signing out stays possible, as does all that nobody has to sign in for; REST refuses such a session by itself
    (authzconsole.common.api_caller).
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        return self.get_response(request)

    def process_view(self, request, view_func, view_args, view_kwargs):
        account, page = getattr(request, "looker", None) or request.user, reverse("password")
        if not getattr(view_func, "login_required", True) or not account.is_authenticated or request.path == page:
            return None
        if not account.must_change_password:
            return None
        back = ""
        if request.htmx:
            back = request.htmx.current_url_abs_path or ""
        elif request.method in SAFE_METHODS:
            back = request.get_full_path()
        url = f"{page}?{urlencode({REDIRECT_FIELD_NAME: back})}" if back else page
        return HttpResponseClientRedirect(url) if request.htmx else see_other(url)


class DatabaseBusyMiddleware:
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


class WrongMethodMiddleware:
    """A page in place of the empty answer to who opens what only takes a form, as by reloading after one was refused.

    What answers services says it by itself, and not with an empty answer.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        response = self.get_response(request)
        if not isinstance(response, HttpResponseNotAllowed) or response.content or request.htmx:
            return response
        return method_not_allowed(request, response)
