"""The pages on which users set up their second factors.

The views of django-allauth change the factors; `journalled_factors` writes the journal lines in the same
transaction. A recent authentication is asked for by the console (`MFA_REAUTHENTICATION_REQUIRED`).
"""

import json

from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.views import GenerateRecoveryCodesView
from allauth.mfa.totp.views import ActivateTOTPView
from allauth.mfa.webauthn.views import AddWebAuthnView, RemoveWebAuthnView
from django.conf import settings
from django.contrib import messages
from django.db.models import QuerySet
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST, require_safe
from django.views.generic.base import TemplateResponseMixin

from authzconsole.common.second_factor import lacks_required_factor
from authzconsole.common.sign_in_methods import factor_title, journalled_factors
from authzconsole.web.accounts.factors.forms import LAST_COUNTER, AppForm, NewPasskeyForm, fault_of
from authzconsole.web.accounts.reauthentication import recent_authentication_required
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
