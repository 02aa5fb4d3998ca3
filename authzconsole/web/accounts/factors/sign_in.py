"""The second factor at sign-in, and sign-in with a passkey in place of the password and the second factor
(PASSKEY_SIGN_IN): the views of django-allauth, with the forms of the console.
"""

import json

from allauth.account.utils import get_next_redirect_url, perform_login
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.models import Authenticator
from allauth.mfa.stages import AuthenticateStage
from allauth.mfa.webauthn.views import LoginWebAuthnView
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters

from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.settings.accounts import LOCAL_BACKEND
from authzconsole.web.accounts.factors.forms import CodeForm, PasskeyForm, PasskeySignInForm, fault_of
from authzconsole.web.accounts.passwords import record_break_glass
from authzconsole.web.accounts.providers.adapters import is_factor_verified_by_provider
from authzconsole.web.shared.rendering import render_page


class SecondFactorStage(AuthenticateStage):
    """Ask accounts with a second factor for it, unless the sign-in provider verifies one itself."""

    def handle(self) -> tuple:
        # the waiting sign-in stores the account, but not the backend that checked its password
        self.state["backend"] = getattr(self.login.user, "backend", LOCAL_BACKEND)
        return super().handle()

    def _should_handle(self, request: HttpRequest) -> bool:
        provider_login = (self.login.signal_kwargs or {}).get("sociallogin")
        if provider_login is not None and is_factor_verified_by_provider(provider_login.account.provider):
            return False
        return super()._should_handle(request)


@method_decorator([login_not_required, sensitive_post_parameters("code")], name="dispatch")
class SecondFactorSignIn(AuthenticateView):
    """Complete a sign-in that started with a password or a provider.

    If none has started, redirect to the sign-in page.
    """

    http_method_names = ["get", "head", "post"]
    form_class, webauthn_form_class = CodeForm, PasskeyForm

    def post(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        # the account may have been deactivated since its password was checked
        return (
            super().post(request, *args, **kwargs) if self.stage.login.user.is_active else self.stage.abort()
        )

    def form_valid(self, form: CodeForm | PasskeyForm) -> HttpResponse:
        self.stage.login.user.backend = self.stage.state["backend"]
        return super().form_valid(form)

    def render_to_response(self, context: dict, **kwargs) -> HttpResponse:
        user = self.stage.login.user
        types = set(Authenticator.objects.filter(user=user).values_list("type", flat=True))
        fault = fault_of(self.form)
        options = json.dumps(context["js_data"]["request_options"])
        response = render_page(
            self.request,
            "accounts/factors/sign_in.html",
            {
                "name": user.username,
                "fault": fault,
                "has_app": Authenticator.Type.TOTP in types,
                "options": options if Authenticator.Type.WEBAUTHN in types else "",
            },
            status=400 if fault else 200,
        )
        return self.form.limit_response(response) if self.form else response


@method_decorator([login_not_required, sensitive_post_parameters("credential")], name="dispatch")
class PasskeySignIn(LoginWebAuthnView):
    """Sign in with a passkey alone.

    The passkey is one factor, and its PIN or fingerprint is the other one. Users of sign-in providers and
    directories cannot use one, because these decide who may sign in. A request of a script returns the
    options for the browser as JSON, and stores the challenge in the session.
    """

    http_method_names = ["get", "head", "post"]
    form_class = PasskeySignInForm

    def dispatch(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        if not settings.PASSKEY_SIGN_IN:
            raise Http404("sign-in with passkeys is turned off")
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        is_script = request.headers.get("X-Requested-With") == "XMLHttpRequest"
        return super().get(request, *args, **kwargs) if is_script else self._page()

    def form_valid(self, form: PasskeySignInForm) -> HttpResponse:
        user = form.cleaned_data["credential"].user
        record_break_glass(self.request, user)
        form.save()
        return perform_login(self.request, user, redirect_url=self._next_url())

    def form_invalid(self, form: PasskeySignInForm) -> HttpResponse:
        fault = fault_of(form)
        record_event(EventKind.SIGN_IN_FAILURE, request=self.request, account="", detail=f"passkey: {fault}")
        return self._page(fault)

    def _page(self, fault: str = "") -> HttpResponse:
        context = {"fault": fault, "next": self._next_url()}
        status = 400 if fault else 200
        return render_page(self.request, "accounts/factors/passkey_sign_in.html", context, status=status)

    def _next_url(self) -> str:
        return get_next_redirect_url(self.request) or reverse("home")
