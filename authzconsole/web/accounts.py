"""Signing in and out, and changing one's password; Django's views in the console's look."""

from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth import views
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from authzconsole import guesses


class SignInForm(AuthenticationForm):
    """Who guesses waits, known here or not: see authzconsole.guesses."""

    wait_seconds = 0

    def clean(self) -> dict:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name is None or not password:
            return super().clean()
        counted = guesses.passwords(self.request, name)
        self.wait_seconds = guesses.seconds_to_wait(*counted)
        if self.wait_seconds:
            raise ValidationError("Too many wrong passwords were sent for this name or from your address. "
                                  f"Wait {guesses.in_words(self.wait_seconds)}, then sign in.")
        try:
            cleaned = super().clean()
        except ValidationError:
            guesses.count_wrong(*counted)
            raise
        # not those of the address: who has one account could go on guessing at others
        guesses.forget(counted[0])
        return cleaned


class SignIn(views.LoginView):
    template_name = "accounts/sign_in.html"
    form_class = SignInForm
    redirect_authenticated_user = True

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        if request.htmx:
            # a part of a page was asked for after the session ended: the whole page must go to the sign-in
            back = request.htmx.current_url_abs_path or reverse("home")
            return HttpResponseClientRedirect(f"{reverse('sign-in')}?{urlencode({self.redirect_field_name: back})}")
        return super().get(request, *args, **kwargs)

    def form_invalid(self, form: SignInForm) -> HttpResponse:
        response = super().form_invalid(form)
        if form.wait_seconds:
            response.status_code, response["Retry-After"] = 429, str(form.wait_seconds)
        return response


class OwnPassword(PasswordChangeForm):
    def clean_new_password1(self) -> str:
        password = self.cleaned_data.get("new_password1", "")
        if self.user.check_password(password):
            raise ValidationError("This is the password that you have now. Choose another.")
        return password


class Password(views.RedirectURLMixin, views.PasswordChangeView):
    """Leads back to where somebody was going when the console asked for a new password first."""

    template_name = "accounts/password.html"
    form_class = OwnPassword
    next_page = "home"
    get_success_url = views.RedirectURLMixin.get_success_url

    def get_context_data(self, **kwargs) -> dict:
        is_forced = self.request.looker is None and self.request.user.must_change_password
        return super().get_context_data(is_forced=is_forced, layout="alone.html" if is_forced else "base.html",
                                        next=self.get_redirect_url(), **kwargs)

    def form_valid(self, form) -> HttpResponse:
        form.user.must_change_password = False
        messages.success(self.request, "Your password is changed.")
        return super().form_valid(form)


@login_not_required
def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok", content_type="text/plain")
