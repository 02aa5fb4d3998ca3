"""The pages on which users set up their second factors, and the page on which an administrator resets those
of an account.
"""

from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import clear_totp_secret, get_totp_secret
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from authzconsole.common.second_factor import lacks_required_factor
from authzconsole.common.sign_in_methods.factors import factor_title
from authzconsole.web.accounts.factors.codes import matching_counter
from authzconsole.web.accounts.factors.passkey_sign_in import can_replace_password
from authzconsole.web.accounts.factors.passkeys import (
    passkey_name,
    registered_credential,
    registration_options,
)
from authzconsole.web.accounts.factors.qr_code import QrCode
from authzconsole.web.accounts.factors.services import (
    FactorError,
    add_app,
    add_passkey,
    generate_recovery_codes,
    remove_factor,
    reset_factors,
)
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import principal_url
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.rendering import render_page, requested_section, see_other, show_outcome
from grants.errors import GrantError
from grants.models import User
from grants.roles.capabilities import Capability


@require_safe
def factor_list(request: HttpRequest) -> HttpResponse:
    factors = list(Authenticator.objects.filter(user=request.user).order_by("pk"))
    codes = next((factor for factor in factors if factor.type == Authenticator.Type.RECOVERY_CODES), None)
    return _page(
        request,
        "list.html",
        {
            "factors": [
                {"factor": factor, "title": factor_title(factor)} for factor in factors if factor is not codes
            ],
            "has_app": any(factor.type == Authenticator.Type.TOTP for factor in factors),
            "total_codes": len(codes.wrap().get_unused_codes()) if codes else 0,
            "has_codes": codes is not None,
        },
    )


@sensitive_variables("secret", "codes")
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
@recent_authentication_required
def new_app(request: HttpRequest) -> HttpResponse:
    """Show a new secret as a QR code, and add the authenticator app after the user enters a valid code."""
    secret, fault = get_totp_secret(regenerate=request.method != "POST"), ""
    if request.method == "POST":
        counter = matching_counter(secret, request.POST.get("code", "").strip()[:20])
        if counter is None:
            fault = "This code is wrong or has expired. Enter the code that the app shows now."
        else:
            try:
                codes = add_app(
                    author=request_author(request), user=request.user, secret=secret, last_counter=counter
                )
            except FactorError as error:
                fault = f"{error}."
            else:
                clear_totp_secret(request)
                messages.success(request, "The authenticator app was added.")
                return _codes_page(request, codes) if codes else see_other(reverse("second-factor"))
    url = get_adapter().build_totp_url(request.user, secret)
    return _page(
        request,
        "app.html",
        {"secret": secret, "url": url, "qr_code": QrCode(url), "fault": fault},
        status=400 if fault else 200,
    )


@sensitive_variables("codes")
@require_http_methods(["GET", "HEAD", "POST"])
@recent_authentication_required
def new_passkey(request: HttpRequest) -> HttpResponse:
    fault, can_choose = "", can_replace_password(request.user)
    replaces_password = can_choose and request.GET.get("use") != "second-factor"
    if request.method == "POST":
        try:
            name = passkey_name(request.POST.get("name", ""))
            credential = registered_credential(request.POST.get("credential", ""))
            codes = add_passkey(
                author=request_author(request), user=request.user, name=name, credential=credential
            )
        except ValidationError as error:
            fault = " ".join(error.messages)
        else:
            messages.success(request, "The passkey was added.")
            return _codes_page(request, codes) if codes else see_other(reverse("second-factor"))
    options = registration_options(request.user, replaces_password=replaces_password)
    return _page(
        request,
        "passkey.html",
        {
            "options": options,
            "fault": fault,
            "name": request.POST.get("name", ""),
            "can_choose": can_choose,
            "replaces_password": replaces_password,
        },
        status=400 if fault else 200,
    )


@require_http_methods(["GET", "HEAD", "POST"])
@recent_authentication_required
def remove_factor_view(request: HttpRequest, pk: int) -> HttpResponse:
    factor = (
        Authenticator.objects.filter(user=request.user, pk=pk)
        .exclude(type=Authenticator.Type.RECOVERY_CODES)
        .first()
    )
    if factor is None:
        raise Http404("there is no such factor")
    if request.method != "POST":
        return _page(request, "remove.html", {"title": factor_title(factor), "pk": pk})
    try:
        title = remove_factor(author=request_author(request), user=request.user, pk=pk)
    except FactorError:
        raise Http404("there is no such factor") from None
    messages.success(request, f"The {title} was removed.")
    return see_other(reverse("second-factor"))


@sensitive_variables("codes")
@require_POST
@recent_authentication_required
def new_recovery_codes(request: HttpRequest) -> HttpResponse:
    """Generate recovery codes. They are shown in this response and never again."""
    try:
        codes = generate_recovery_codes(author=request_author(request), user=request.user)
    except FactorError as error:
        messages.error(request, f"{error}.")
        return see_other(reverse("second-factor"))
    return _codes_page(request, codes)


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.MANAGE_ACCOUNTS, visible_to=[Capability.READ_ACCOUNTS])
@recent_authentication_required
def reset_factors_view(request: HttpRequest, principal: str) -> HttpResponse:
    user = principal_or_404(principal)
    if not isinstance(user, User):
        raise Http404("groups have no account")
    if request.method != "POST":
        titles = sorted(factor_title(factor) for factor in Authenticator.objects.filter(user=user))
        template = "_reset_form.html" if requested_section(request) == "dialog" else "reset.html"
        return _page(
            request,
            template,
            {"account": user, "titles": titles, "back": principal_url("account", str(user))},
        )
    try:
        outcome = reset_factors(
            author=request_author(request, request.POST.get("reason", "").strip()), name=user.username
        )
    except GrantError as error:
        messages.error(request, f"{error}.")
    else:
        show_outcome(request, outcome)
    return see_other(principal_url("account", principal))


def _codes_page(request: HttpRequest, codes: list[str]) -> HttpResponse:
    return _page(request, "recovery_codes.html", {"codes": [f"{code[:4]} {code[4:]}" for code in codes]})


def _is_impersonating(request: HttpRequest) -> bool:
    return request.impersonator is not None


def _page(request: HttpRequest, template: str, context: dict, *, status: int = 200) -> HttpResponse:
    """Render a page. An account that must set up a factor first sees it without the navigation."""
    is_forced = not _is_impersonating(request) and lacks_required_factor(request, request.user)
    layout = {"layout": "standalone.html" if is_forced else "base.html", "is_forced": is_forced}
    return render_page(request, f"accounts/factors/{template}", layout | context, status=status)
