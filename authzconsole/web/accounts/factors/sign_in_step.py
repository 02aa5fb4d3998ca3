"""The step of a sign-in that asks for the second factor."""

from allauth.account.internal.decorators import login_stage_required
from allauth.account.internal.stagekit import clear_login
from allauth.mfa.base.internal.flows import post_authentication
from allauth.mfa.models import Authenticator
from allauth.mfa.stages import AuthenticateStage
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from authzconsole.settings.accounts import LOCAL_BACKEND
from authzconsole.web.accounts.factors.codes import verify_code
from authzconsole.web.accounts.factors.passkeys import request_options, verify_passkey
from authzconsole.web.accounts.providers.session import is_factor_verified_by_provider
from authzconsole.web.shared.rendering import render_page, see_other


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


@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
@login_stage_required(stage=AuthenticateStage.key, redirect_urlname="sign-in")
def second_factor_sign_in(request: HttpRequest) -> HttpResponse:
    """Complete a sign-in that started with a password or a provider.

    If none has started, redirect to the sign-in page.
    """
    stage = request._login_stage
    user, fault, wait_seconds = stage.login.user, "", 0
    if not user.is_active:
        clear_login(request)
        return see_other(reverse("sign-in"))
    if request.method == "POST":
        try:
            if "credential" in request.POST:
                factor = verify_passkey(request, user, request.POST["credential"])
            else:
                factor = verify_code(request, user, request.POST.get("code", ""))
        except ValidationError as error:
            fault, wait_seconds = " ".join(error.messages), getattr(error, "wait_seconds", 0)
        else:
            post_authentication(request, factor)
            user.backend = stage.state["backend"]
            return stage.exit()
    status = 429 if wait_seconds else 400 if fault else 200
    types = set(Authenticator.objects.filter(user=user).values_list("type", flat=True))
    response = render_page(
        request,
        "accounts/factors/sign_in.html",
        {
            "name": user.username,
            "fault": fault,
            "has_app": Authenticator.Type.TOTP in types,
            "options": request_options(user) if Authenticator.Type.WEBAUTHN in types else "",
        },
        status=status,
    )
    if wait_seconds:
        response["Retry-After"] = str(wait_seconds)
    return response
