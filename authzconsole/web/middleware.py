"""Middleware of the pages: caching, sign-in, required password changes, errors, wrong methods, query plans
and time zones.
"""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpResponseNotAllowed
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.utils.deprecation import MiddlewareMixin
from django_htmx.http import HttpResponseClientRedirect

from authzconsole.common.database import set_prepare_threshold
from authzconsole.common.recent_authentication import PROVIDER_SESSION_KEY, lacks_required_factor
from authzconsole.common.request_id import bind_account
from authzconsole.web.error_pages import method_not_allowed, problem_page
from authzconsole.web.people.impersonation import NON_PAGE_PREFIXES, SAFE_METHODS
from authzconsole.web.shared.rendering import referring_page, see_other
from authzconsole.web.shared.times import time_zone_of

# APIs and documents of protocols have times in UTC
_API_PATHS = ("/api/", "/access/", "/scim/", "/.well-known/")


def _url_with_next(url_name, next_page):
    return reverse(url_name, query={REDIRECT_FIELD_NAME: next_page} if next_page else None)


def _tell_session_end(request, next_step):
    """Add the message that the session ended, in place of the one that a section of the same page added."""
    minutes, hours = settings.SESSION_IDLE_SECONDS // 60, settings.SESSION_ABSOLUTE_SECONDS // 3600
    text = f"Your session ended. A session lasts at most {minutes:,} minutes without use, and {hours:,} hours in all."
    for message in messages.get_messages(request):
        if not message.message.startswith(text):
            messages.add_message(request, message.level, message.message, message.extra_tags)
    messages.info(request, f"{text} {next_step}")


class NoStoreMiddleware(MiddlewareMixin):
    """Forbid caching of every response that does not set Cache-Control itself, including error pages and
    redirects.
    """

    def process_response(self, request, response):
        if not response.has_header("Cache-Control"):
            patch_cache_control(response, private=True, no_store=True)
        return response


class SignInMiddleware(LoginRequiredMiddleware):
    """Redirect to the sign-in page, and after sign-in to the requested page. A write is not repeated.

    If a file was requested, sign-in leads to the page with the link to the file: a download does not replace
    the page in the browser, so the sign-in page would stay visible.
    """

    def process_view(self, request, view_func, view_args, view_kwargs):
        response = super().process_view(request, view_func, view_args, view_kwargs)
        if response is None and getattr(view_func, "login_required", True):
            if impersonator := getattr(request, "impersonator", None):
                bind_account(impersonator.get_username(), seen_as=request.user.get_username())
            else:
                bind_account(request.user.get_username())
        return response

    def handle_no_permission(self, request, view_func):
        previous_page, is_file = referring_page(request), "extension" in request.resolver_match.kwargs
        if request.method not in SAFE_METHODS:
            _tell_session_end(request, "Sign in and repeat your last change.")
        elif settings.SESSION_COOKIE_NAME in request.COOKIES and not request.session.session_key:
            _tell_session_end(request, "Sign in to continue.")
        if request.method in SAFE_METHODS and not (is_file and previous_page):
            return super().handle_no_permission(request, view_func)
        return see_other(_url_with_next("sign-in", previous_page))


class FirstStepsMiddleware(MiddlewareMixin):
    """Redirect an account that must change its password, or that lacks a second factor that its console role
    requires, to the page where it does so.

    Sign-out and all views without sign-in remain available. A session that was started through a sign-in
    provider used no password. The APIs refuse such sessions themselves (authzconsole.common.api_caller and
    second_factor).
    """

    def process_view(self, request, view_func, view_args, view_kwargs):
        account = getattr(request, "impersonator", None) or request.user
        url_name = request.resolver_match.url_name or ""
        if not getattr(view_func, "login_required", True) or not account.is_authenticated:
            return None
        if url_name == "password":
            return None
        if account.must_change_password and PROVIDER_SESSION_KEY not in request.session:
            url = self._password_url(request)
        elif url_name == "reauthenticate" or url_name.startswith("second-factor"):
            return None
        elif lacks_required_factor(request, account):
            url = reverse("second-factor")
        else:
            return None
        return HttpResponseClientRedirect(url) if request.htmx else see_other(url)

    def _password_url(self, request):
        next_page = ""
        if request.htmx:
            next_page = request.htmx.current_url_abs_path or ""
        elif request.method in SAFE_METHODS:
            next_page = request.get_full_path()
        return _url_with_next("password", next_page)


class ProblemMiddleware(MiddlewareMixin):
    """Return a page for an error that a view did not handle itself, with the status of its problem."""

    def process_exception(self, request, error):
        return problem_page(request, error)


class WrongMethodMiddleware(MiddlewareMixin):
    """Replace the empty 405 response of Django with a page, for example if the URL of a refused form is
    reloaded.

    405 responses of APIs have a body and are not replaced.
    """

    def process_response(self, request, response):
        if not isinstance(response, HttpResponseNotAllowed) or response.content or request.htmx:
            return response
        return method_not_allowed(request, response)


class PageQueryPlanMiddleware(MiddlewareMixin):
    """Set the prepare threshold of the database connection for pages and APIs.

    Without an open connection, no account was loaded, so the request reads no large tables.
    """

    def process_request(self, request):
        set_prepare_threshold(is_page=not request.path.startswith(NON_PAGE_PREFIXES))


class TimeZoneMiddleware(MiddlewareMixin):
    """Activate the time zone of the reader for pages."""

    def __call__(self, request):
        if request.path.startswith(_API_PATHS):
            return self.get_response(request)
        with timezone.override(time_zone_of(request)):
            return self.get_response(request)
