"""The views for signing in and for changing the own password, based on those of Django, with throttling."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth import views
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from authzconsole.common import login_throttle


class PasswordAttemptForm:
    """A form that checks a password, and counts wrong ones for a name and for a client address.

    After too many, all such forms refuse further attempts for some time, also for unknown names: see
    authzconsole.common.login_throttle.
    """

    wait_seconds = 0

    @contextmanager
    def counted(self, request: HttpRequest, name: str, then: str) -> Iterator[None]:
        """Wrap the check, which raises ValidationError for a wrong password. then: what the user can do after the wait."""
        counters = login_throttle.password_counters(request, name)
        self.wait_seconds = login_throttle.seconds_to_wait(*counters)
        if self.wait_seconds:
            raise ValidationError("Too many wrong passwords for this name or from your address. "
                                  f"Wait {login_throttle.wait_in_words(self.wait_seconds)}, then {then}.")
        try:
            yield
        except ValidationError:
            login_throttle.count_failure(*counters)
            raise
        # The counter of the address stays: otherwise the owner of one account could go on guessing for others.
        login_throttle.reset(counters[0])


class RetryAfterMixin:
    """A view of a PasswordAttemptForm that answers 429 with Retry-After while attempts are refused."""

    def form_invalid(self, form: PasswordAttemptForm) -> HttpResponse:
        response = super().form_invalid(form)
        if form.wait_seconds:
            response.status_code, response["Retry-After"] = 429, str(form.wait_seconds)
        return response


class SignInForm(PasswordAttemptForm, AuthenticationForm):
    error_messages = AuthenticationForm.error_messages | {
        "invalid_login": "Wrong user name or password. Both are case-sensitive.",
        "inactive": "This account is inactive. A console administrator can activate it.",
    }

    def clean(self) -> dict:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name is None or not password:
            return super().clean()
        with self.counted(self.request, name, "sign in"):
            return super().clean()


class SignIn(RetryAfterMixin, views.LoginView):
    template_name = "accounts/sign_in.html"
    form_class = SignInForm
    redirect_authenticated_user = True

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        if request.htmx:
            # htmx requested a section after the session ended: redirect the whole page
            back = request.htmx.current_url_abs_path or reverse("home")
            return HttpResponseClientRedirect(f"{reverse('sign-in')}?{urlencode({self.redirect_field_name: back})}")
        return super().get(request, *args, **kwargs)


class OwnPasswordForm(PasswordAttemptForm, PasswordChangeForm):
    error_messages = PasswordChangeForm.error_messages | {
        "password_incorrect": "This is not your current password. Enter it again.",
        "password_mismatch": "The two new passwords differ. Enter the same password in both fields.",
    }

    def __init__(self, *args, request: HttpRequest, **kwargs):
        super().__init__(*args, **kwargs)
        self.request = request

    def clean_old_password(self) -> str:
        with self.counted(self.request, self.user.username, "change yours"):
            return super().clean_old_password()

    def clean_new_password1(self) -> str:
        password = self.cleaned_data.get("new_password1", "")
        # Compare with the old password that was already verified, not with that of the account: this would be an uncounted guess.
        if password == self.cleaned_data.get("old_password"):
            raise ValidationError("This is your current password. Choose another.")
        return password


class PasswordChange(RetryAfterMixin, views.RedirectURLMixin, views.PasswordChangeView):
    """Change the own password, then redirect to the page that required the change, if any."""

    template_name = "accounts/password.html"
    form_class = OwnPasswordForm
    next_page = "home"
    get_success_url = views.RedirectURLMixin.get_success_url

    def get_form_kwargs(self) -> dict:
        return super().get_form_kwargs() | {"request": self.request}

    def get_context_data(self, **kwargs) -> dict:
        is_forced = self.request.impersonator is None and self.request.user.must_change_password
        return super().get_context_data(is_forced=is_forced, layout="standalone.html" if is_forced else "base.html",
                                        next=self.get_redirect_url(), **kwargs)

    def form_valid(self, form) -> HttpResponse:
        form.user.must_change_password = False
        messages.success(self.request, "Your password was changed.")
        return super().form_valid(form)


@login_not_required
def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok", content_type="text/plain")
