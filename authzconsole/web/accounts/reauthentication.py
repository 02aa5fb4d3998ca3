"""Ask for the password or another proof of identity again before a sensitive change ("step-up").

    @require_http_methods(["GET", "POST"])
    @capability_required(Capability.MANAGE_ACCOUNTS)
    @recent_authentication_required
    def change_something(request): ...

If the authentication of the session is older than REAUTHENTICATION_SECONDS, a POST to the view is answered
with a page that asks for the password. The page contains the submitted fields and posts to the same URL, so
that the change continues after the password, and a form that was filled in is not lost. Uploaded files are
not kept.

A method of authentication is a class with the interface of `ReauthenticationMethod`, listed in
REAUTHENTICATION_METHODS.
"""

from collections.abc import Callable
from functools import wraps
from typing import Protocol

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import BACKEND_SESSION_KEY, authenticate
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.module_loading import import_string
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from authzconsole.common.recent_authentication import is_recently_authenticated, record_authentication
from authzconsole.common.second_factor import lacks_required_factor
from authzconsole.settings.user_directory import LDAP_BACKEND
from authzconsole.web.accounts.local_sign_in import is_password_accepted
from authzconsole.web.accounts.password_attempt import PasswordAttemptForm
from authzconsole.web.shared.rendering import render_page, see_other

__all__ = [
    "ReauthenticationFailed",
    "ReauthenticationMethod",
    "is_recently_authenticated",
    "recent_authentication_required",
    "recent_authentication_required_if",
    "record_authentication",
]

METHOD_FIELD = "reauthentication_method"
# form fields with this prefix belong to the methods, and are not repeated in the form
FIELD_PREFIX = "reauthentication_"
PASSWORD_FIELD = "reauthentication_password"
View = Callable[..., HttpResponse]


class ReauthenticationFailed(ValueError):
    """The proof is wrong; the message says why. wait_seconds: how long further attempts are refused."""

    def __init__(self, message: str, *, wait_seconds: int = 0):
        super().__init__(message)
        self.wait_seconds = wait_seconds


class ReauthenticationMethod(Protocol):
    """A way to confirm the identity of the account of a session.

    name: `record_authentication` stores it in the session. template: the part of the form with the fields of
    the method. Field names start with FIELD_PREFIX. The submit button has the name METHOD_FIELD and the name
    of the method as its value.
    """

    name: str
    template: str

    def is_available(self, request: HttpRequest) -> bool:
        """Return whether the account can use this method."""

    def verify(self, request: HttpRequest) -> None:
        """Check the fields of the method in request.POST.

        Raise ReauthenticationFailed if the proof is wrong.
        """


class PasswordMethod(PasswordAttemptForm):
    """Ask for the password. Wrong passwords count like wrong passwords on the sign-in page."""

    name = "password"
    template = "accounts/reauthentication/_password.html"

    def is_available(self, request: HttpRequest) -> bool:
        return request.user.has_usable_password() or request.session.get(BACKEND_SESSION_KEY) == LDAP_BACKEND

    def verify(self, request: HttpRequest) -> None:
        try:
            with self.throttle_guesses(request, request.user.username, "continue"):
                self._check_password(request)
        except ValidationError as error:
            raise ReauthenticationFailed(" ".join(error.messages), wait_seconds=self.wait_seconds) from None

    def _check_password(self, request: HttpRequest) -> None:
        account = authenticate(
            request, username=request.user.username, password=request.POST.get(PASSWORD_FIELD, "")
        )
        if account is None or account.pk != request.user.pk or not is_password_accepted(account):
            raise ValidationError("This is not your password. Enter it again.")


def recent_authentication_required(view: View) -> View:
    """Let POST requests pass only if the account was authenticated recently; otherwise ask for a proof first.

    Apply it inside `capability_required`, so that accounts without access are refused first.
    """
    return recent_authentication_required_if(lambda request, *args, **kwargs: True)(view)


def recent_authentication_required_if(is_sensitive: Callable[..., bool]) -> Callable[[View], View]:
    """Return the decorator for a view with only some sensitive requests. is_sensitive: called with the
    arguments of the view.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded_view(request: HttpRequest, *args, **kwargs) -> HttpResponse:
            if (
                request.method != "POST"
                or is_recently_authenticated(request)
                or not is_sensitive(request, *args, **kwargs)
            ):
                return view(request, *args, **kwargs)
            return _confirm_or_ask(request) or view(request, *args, **kwargs)

        return sensitive_post_parameters(PASSWORD_FIELD)(guarded_view)

    return decorate


@require_http_methods(["GET", "HEAD", "POST"])
def reauthenticate(request: HttpRequest) -> HttpResponse:
    """Confirm the identity without a change, for example before a session uses the REST API.

    Return to the page `next`.
    """
    if request.method == "POST" and (response := _confirm_or_ask(request)):
        return response
    if request.method != "POST":
        return _form_response(request, status=200)
    messages.success(request, "Your identity is confirmed.")
    next_page = request.POST.get("next", "")
    is_local = url_has_allowed_host_and_scheme(
        next_page, {request.get_host()}, require_https=request.is_secure()
    )
    return see_other(next_page if is_local else reverse("home"))


def _confirm_or_ask(request: HttpRequest) -> HttpResponse | None:
    """Check the proof in the request and record it.

    Return the page that asks for one if it is missing or wrong.
    """
    methods = _available_methods(request)
    method = next((method for method in methods if method.name == request.POST.get(METHOD_FIELD)), None)
    if method is None:
        return _form_response(request, methods=methods, status=403)
    try:
        method.verify(request)
    except ReauthenticationFailed as error:
        response = _form_response(
            request, methods=methods, fault=str(error), status=429 if error.wait_seconds else 403
        )
        if error.wait_seconds:
            response["Retry-After"] = str(error.wait_seconds)
        return response
    record_authentication(request, method.name)
    return None


def _available_methods(request: HttpRequest) -> list[ReauthenticationMethod]:
    methods = [import_string(path)() for path in settings.REAUTHENTICATION_METHODS]
    return [method for method in methods if method.is_available(request)]


def _form_response(
    request: HttpRequest, *, methods: list[ReauthenticationMethod] | None = None, fault: str = "", status: int
) -> HttpResponse:
    """Render the form with the submitted fields, except the token of the form and the proof."""
    fields = request.POST if request.method == "POST" else request.GET
    submitted = [
        (name, value)
        for name, values in fields.lists()
        for value in values
        if name != "csrfmiddlewaretoken" and not name.startswith(FIELD_PREFIX)
    ]
    # without the navigation: an account that must set up a second factor cannot load its badges, which would
    # leave this page
    is_forced = lacks_required_factor(request, request.user)
    return render_page(
        request,
        "accounts/reauthentication/page.html",
        {
            "layout": "standalone.html" if is_forced else "base.html",
            "is_forced": is_forced,
            "methods": _available_methods(request) if methods is None else methods,
            "submitted": submitted,
            "fault": fault,
            "action": request.get_full_path() if request.method == "POST" else request.path,
            "is_change": request.path != reverse("reauthenticate"),
        },
        status=status,
    )
