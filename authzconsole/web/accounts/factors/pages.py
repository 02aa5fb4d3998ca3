"""The pages on which users set up their second factors and enter them at sign-in, and sign-in with a passkey in place
of the password and the second factor (PASSKEY_SIGN_IN).

The views of django-allauth change the factors; `journalled_factors` writes the journal lines in the same
transaction. A recent authentication is asked for by the console (`MFA_REAUTHENTICATION_REQUIRED`).
"""

import json

from allauth.account.utils import get_next_redirect_url, perform_login
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.views import GenerateRecoveryCodesView
from allauth.mfa.stages import AuthenticateStage
from allauth.mfa.totp.views import ActivateTOTPView
from allauth.mfa.webauthn.views import AddWebAuthnView, LoginWebAuthnView, RemoveWebAuthnView
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.db.models import QuerySet
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST, require_safe
from django.views.generic.base import TemplateResponseMixin

from authzconsole.common.recent_authentication import lacks_required_factor
from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.common.sign_in_methods import factor_title, journalled_factors
from authzconsole.settings.accounts import LOCAL_BACKEND
from authzconsole.web.accounts.factors.forms import (
    LAST_COUNTER,
    AppForm,
    CodeForm,
    NewPasskeyForm,
    PasskeyForm,
    PasskeySignInForm,
    fault_of,
)
from authzconsole.web.accounts.providers.adapters import is_factor_verified_by_provider
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.accounts.sign_in import record_break_glass
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.rendering import render_page, see_other


@require_safe
def factor_list(request: HttpRequest) -> HttpResponse:
    factors = list(Authenticator.objects.filter(user=request.user).order_by("pk"))
    codes = next((factor for factor in factors if factor.type == Authenticator.Type.RECOVERY_CODES), None)
    return _page(
        request,
        "accounts/factors/list.html",
        {
            "factors": [
                {"factor": factor, "title": factor_title(factor)} for factor in factors if factor is not codes
            ],
            "has_app": any(factor.type == Authenticator.Type.TOTP for factor in factors),
            "total_codes": len(codes.wrap().get_unused_codes()) if codes else 0,
            "has_codes": codes is not None,
        },
    )


class _FactorView(TemplateResponseMixin):
    """A view of django-allauth with the templates of the console.

    done: the message after a change.
    """

    done = ""

    def form_valid(self, form: Form) -> HttpResponse:
        """Change the factors. New recovery codes are shown in this response and never again."""
        with journalled_factors(request_author(self.request), self.request.user):
            self.change_factors(form)
        if self.done:
            messages.success(self.request, self.done)
        if getattr(self, "did_generate_recovery_codes", False):
            return codes_page(self.request)
        return see_other(reverse("second-factor"))

    def change_factors(self, form: Form) -> None:
        super().form_valid(form)

    def get_success_url(self) -> str:
        return reverse("second-factor")

    def render_to_response(self, context: dict, **kwargs) -> HttpResponse:
        form = context.get("form")
        fault = fault_of(form)
        status = 400 if fault else 200
        return _page(self.request, self.template_name, context | {"fault": fault}, status=status)


@method_decorator([sensitive_post_parameters("code"), recent_authentication_required], name="dispatch")
class NewApp(_FactorView, ActivateTOTPView):
    """Show a new secret as a QR code, and add the authenticator app after the user enters a valid code."""

    template_name, form_class = "accounts/factors/app.html", AppForm
    done = "The authenticator app was added."

    def dispatch(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        if Authenticator.objects.filter(user=request.user, type=Authenticator.Type.TOTP).exists():
            messages.error(request, "The account has an authenticator app already: remove it first.")
            return see_other(reverse("second-factor"))
        return super().dispatch(request, *args, **kwargs)

    def change_factors(self, form: AppForm) -> None:
        super().change_factors(form)
        # this code and older ones are not accepted at sign-in
        app = Authenticator.objects.get(user=self.request.user, type=Authenticator.Type.TOTP)
        app.data[LAST_COUNTER] = form.counter
        app.save(update_fields=["data"])


@method_decorator(recent_authentication_required, name="dispatch")
class NewPasskey(_FactorView, AddWebAuthnView):
    template_name, form_class = "accounts/factors/passkey.html", NewPasskeyForm
    done = "The passkey was added."

    def get_context_data(self, **kwargs) -> dict:
        """A passkey that replaces the password is stored with the name of the account, and verifies its user
        with a PIN or a fingerprint.
        """
        context = super().get_context_data(**kwargs)
        options = json.loads(json.dumps(context["js_data"]["creation_options"]))
        can_choose = settings.PASSKEY_SIGN_IN and self.request.user.has_usable_password()
        replaces_password = can_choose and self.request.GET.get("use") != "second-factor"
        if replaces_password:
            options["publicKey"]["authenticatorSelection"] |= {
                "residentKey": "required",
                "requireResidentKey": True,
                "userVerification": "required",
            }
        return context | {
            "options": json.dumps(options),
            "name": context["form"]["name"].value() or "",
            "can_choose": can_choose,
            "replaces_password": replaces_password,
        }


@method_decorator(recent_authentication_required, name="dispatch")
class RemoveFactor(_FactorView, RemoveWebAuthnView):
    """Remove an app or a passkey. With the last one, the recovery codes are removed too."""

    template_name = "accounts/factors/remove.html"

    def get_queryset(self) -> QuerySet[Authenticator]:
        factors = Authenticator.objects.filter(user=self.request.user)
        return factors.exclude(type=Authenticator.Type.RECOVERY_CODES)

    def get_context_data(self, **kwargs) -> dict:
        title = factor_title(self.object)
        return super().get_context_data(**kwargs) | {"title": title, "pk": self.object.pk}

    def form_valid(self, form: Form) -> HttpResponse:
        self.done = f"The {factor_title(self.object)} was removed."
        return super().form_valid(form)


@method_decorator([require_POST, recent_authentication_required], name="dispatch")
class NewRecoveryCodes(_FactorView, GenerateRecoveryCodesView):
    """Replace the recovery codes by new ones."""

    did_generate_recovery_codes = True

    def form_invalid(self, form: Form) -> HttpResponse:
        messages.error(self.request, "recovery codes need another factor: set one up first.")
        return see_other(reverse("second-factor"))


@sensitive_variables("codes")
def codes_page(request: HttpRequest) -> HttpResponse:
    factor = Authenticator.objects.get(user=request.user, type=Authenticator.Type.RECOVERY_CODES)
    codes = [f"{code[:4]} {code[4:]}" for code in factor.wrap().generate_codes()]
    return _page(request, "accounts/factors/recovery_codes.html", {"codes": codes})


def _page(request: HttpRequest, template: str, context: dict, *, status: int = 200) -> HttpResponse:
    """Render a page. An account that must set up a factor first sees it without the navigation."""
    is_forced = request.impersonator is None and lacks_required_factor(request, request.user)
    return render_page(request, template, {"is_forced": is_forced} | context, status=status)


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
