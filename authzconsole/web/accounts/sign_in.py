"""Sign-in and password change: the views of Django. Guesses are throttled, and LOCAL_SIGN_IN can limit passwords of
the console to break-glass accounts.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from allauth.account.utils import perform_login
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from authzconsole.common import login_throttle
from authzconsole.common.recent_authentication import (
    SIGN_IN,
    is_recently_authenticated,
    record_authentication,
)
from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.sessions import end_sessions
from authzconsole.settings.accounts import LOCAL_BACKEND
from authzconsole.settings.user_directory import LDAP_PROVIDER
from grants.models import User

logger = logging.getLogger(__name__)


class ThrottledForm:
    """A form that checks a password or a code. wait_seconds: how long further attempts are refused."""

    wait_seconds = 0

    def limit_response(self, response: HttpResponse) -> HttpResponse:
        """Return the response with 429 and Retry-After while attempts are refused."""
        if self.wait_seconds:
            response.status_code, response["Retry-After"] = 429, str(self.wait_seconds)
        return response


class PasswordAttemptForm(ThrottledForm):
    """A form that checks a password and counts wrong passwords by user name and by client address.

    After too many wrong passwords, all such forms refuse further attempts for some time, also for unknown
    names. See authzconsole.common.login_throttle.
    """

    @contextmanager
    def throttle_guesses(self, request: HttpRequest, name: str, next_step: str) -> Iterator[None]:
        """Wrap a password check that raises ValidationError for a wrong password. While the user has to wait,
        raise it without a check.

        next_step: ends the error message, such as `sign in`.
        """
        counters = login_throttle.password_counters(request, name)
        self.wait_seconds = counters.seconds_to_wait()
        if self.wait_seconds:
            record_event(
                EventKind.SIGN_IN_FAILURE, request=request, account=name, detail="too many wrong passwords"
            )
            raise ValidationError(
                "Too many wrong passwords for this name or from your address. "
                f"Wait {login_throttle.wait_in_words(self.wait_seconds)}, then {next_step}."
            )
        try:
            yield
        except ValidationError:
            counters.count_failure()
            raise
        counters.reset()


def is_password_accepted(user: User) -> bool:
    """Return whether the password that `authenticate` verified may be used. Passwords of a directory are
    always accepted.

    user: has the attribute `backend` that `authenticate` sets.
    """
    if user.backend != LOCAL_BACKEND or settings.LOCAL_SIGN_IN == "all":
        return True
    return settings.LOCAL_SIGN_IN == "break-glass" and user.username in settings.BREAK_GLASS_ACCOUNTS


def record_break_glass(request: HttpRequest, user: User) -> None:
    """Log and record that a break-glass account was used with its password of the console."""
    if user.username in settings.BREAK_GLASS_ACCOUNTS and user.backend == LOCAL_BACKEND:
        logger.warning("%s, a break-glass account, signs in with its password", user)
        record_event(EventKind.BREAK_GLASS, request=request, account=user.username)


class RetryAfterMixin:
    """Respond with 429 and Retry-After while the PasswordAttemptForm of the view refuses attempts."""

    def form_invalid(self, form: PasswordAttemptForm) -> HttpResponse:
        return form.limit_response(super().form_invalid(form))


class SignInForm(PasswordAttemptForm, AuthenticationForm):
    error_messages = AuthenticationForm.error_messages | {
        "invalid_login": "Wrong user name or password. Both are case-sensitive.",
        "inactive": "This account is inactive. A console administrator can activate it.",
        "expired": "This first password has expired. A console administrator can set another.",
    }

    def confirm_login_allowed(self, user) -> None:
        super().confirm_login_allowed(user)
        if user.is_service or not is_password_accepted(user):
            raise self.get_invalid_login_error()
        if user.has_expired_password:
            raise ValidationError(self.error_messages["expired"], code="expired")

    def get_invalid_login_error(self) -> ValidationError:
        # the password was correct, but another system refused the sign-in (authzconsole.directory.backend)
        refusal = getattr(self.request, "sign_in_refusal", "")
        return ValidationError(refusal, code="refused") if refusal else super().get_invalid_login_error()

    def clean(self) -> dict:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name is None or not password:
            return super().clean()
        with self.throttle_guesses(self.request, name, "sign in"):
            return super().clean()


class SignIn(RetryAfterMixin, views.LoginView):
    template_name = "accounts/sign_in.html"
    form_class = SignInForm
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs) -> dict:
        next_url = self.get_redirect_url()
        query = {self.redirect_field_name: next_url} if next_url else {}
        providers = [
            {
                "name": options.name,
                "url": reverse("openid_connect_login", args=[provider_id], query=query),
            }
            for provider_id, options in settings.SIGN_IN_PROVIDERS.items()
            if options.protocol != LDAP_PROVIDER
        ]
        passkey_url = reverse("passkey-sign-in", query=query) if settings.PASSKEY_SIGN_IN else ""
        return super().get_context_data(
            providers=providers, passkey_url=passkey_url, is_limited=settings.LOCAL_SIGN_IN != "all", **kwargs
        )

    def form_valid(self, form: SignInForm) -> HttpResponse:
        """Sign in, or redirect to the page that asks for the second factor."""
        record_break_glass(self.request, form.get_user())
        return perform_login(self.request, form.get_user(), redirect_url=self.get_success_url())

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        if request.htmx:
            # htmx requested a section after the session ended; redirect the whole page
            back = request.htmx.current_url_abs_path or reverse("home")
            return HttpResponseClientRedirect(reverse("sign-in", query={self.redirect_field_name: back}))
        return super().get(request, *args, **kwargs)


class OwnPasswordForm(PasswordAttemptForm, PasswordChangeForm):
    error_messages = PasswordChangeForm.error_messages | {
        "password_incorrect": "This is not your current password. Enter it again.",
        "password_mismatch": "The two new passwords differ. Enter the same password in both fields.",
    }

    def __init__(self, *args, request: HttpRequest, **kwargs):
        super().__init__(*args, **kwargs)
        self.request = request
        # right after the first sign-in, the old password was just entered
        if self.user.must_change_password and is_recently_authenticated(request, SIGN_IN, "password"):
            del self.fields["old_password"]

    def clean_old_password(self) -> str:
        with self.throttle_guesses(self.request, self.user.username, "change yours"):
            try:
                return super().clean_old_password()
            except ValidationError:
                record_event(
                    EventKind.SIGN_IN_FAILURE,
                    request=self.request,
                    detail="wrong password in the password form",
                )
                raise

    def clean_new_password1(self) -> str:
        password = self.cleaned_data.get("new_password1", "")
        # Compare with the submitted old password, which is verified by now. Comparing with the password of
        # the account would allow guesses that are not counted.
        is_asked = "old_password" in self.fields
        if (
            password == self.cleaned_data.get("old_password")
            or not is_asked
            and self.user.check_password(password)
        ):
            raise ValidationError("This is your current password. Choose another.")
        return password


class PasswordChange(RetryAfterMixin, views.RedirectURLMixin, views.PasswordChangeView):
    """Change the password of the signed-in user, then redirect to the page that required the change, if any."""

    template_name = "accounts/password.html"
    form_class = OwnPasswordForm
    next_page = "home"
    get_success_url = views.RedirectURLMixin.get_success_url

    def get_form_kwargs(self) -> dict:
        return super().get_form_kwargs() | {"request": self.request}

    def get_context_data(self, **kwargs) -> dict:
        is_forced = self.request.impersonator is None and self.request.user.must_change_password
        return super().get_context_data(
            is_forced=is_forced,
            next=self.get_redirect_url(),
            **kwargs,
        )

    def form_valid(self, form) -> HttpResponse:
        form.user.must_change_password, form.user.password_expires_at = False, None
        messages.success(self.request, "Your password was changed.")
        record_authentication(self.request, "password")
        end_sessions(form.user, except_key=self.request.session.session_key or "")
        return super().form_valid(form)


@login_not_required
def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok", content_type="text/plain")
