"""Signing in and out, and changing one's password; Django's views in the console's look."""

from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth import views
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse, reverse_lazy
from django_htmx.http import HttpResponseClientRedirect


class SignIn(views.LoginView):
    template_name = "accounts/sign_in.html"
    redirect_authenticated_user = True

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        if request.htmx:
            # a part of a page was asked for after the session ended: the whole page must go to the sign-in
            back = request.htmx.current_url_abs_path or reverse("home")
            return HttpResponseClientRedirect(f"{reverse('sign-in')}?{urlencode({self.redirect_field_name: back})}")
        return super().get(request, *args, **kwargs)


class Password(views.PasswordChangeView):
    template_name = "accounts/password.html"
    success_url = reverse_lazy("home")

    def form_valid(self, form) -> HttpResponse:
        messages.success(self.request, "Your password is changed.")
        return super().form_valid(form)


@login_not_required
def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok", content_type="text/plain")
