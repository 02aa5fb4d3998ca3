"""Sign in with a passkey in place of the password and the second factor (PASSKEY_SIGN_IN).

The passkey is one factor, and its PIN or fingerprint is the other one. It replaces a password of the console,
so it is accepted only for accounts that could sign in with one: not for users of sign-in providers and
directories, which decide who may sign in.
"""

from allauth.account.utils import perform_login
from allauth.mfa.base.internal.flows import post_authentication
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from authzconsole.common.security_events.kinds import EventKind
from authzconsole.common.security_events.record import record_event
from authzconsole.settings.accounts import LOCAL_BACKEND
from authzconsole.web.accounts.factors.passkeys import sign_in_options, verify_sign_in
from authzconsole.web.accounts.local_sign_in import is_password_accepted, record_break_glass
from authzconsole.web.shared.rendering import render_page, see_other
from grants.models import User

NOT_PERMITTED = "This account cannot sign in with a passkey. Sign in as usual."


@login_not_required
@sensitive_post_parameters("credential")
@require_http_methods(["GET", "HEAD", "POST"])
def passkey_sign_in(request: HttpRequest) -> HttpResponse:
    if not settings.PASSKEY_SIGN_IN:
        raise Http404("sign-in with passkeys is turned off")
    values = request.POST if request.method == "POST" else request.GET
    back, fault = _own_url(request, values.get("next", "")), ""
    if request.user.is_authenticated:
        return see_other(back)
    if request.method == "POST":
        try:
            factor = verify_sign_in(request.POST.get("credential", ""))
            user = _permitted_user(factor)
        except ValidationError as error:
            fault = " ".join(error.messages)
            record_event(EventKind.SIGN_IN_FAILURE, request=request, account="", detail=f"passkey: {fault}")
        else:
            record_break_glass(request, user)
            post_authentication(request, factor, passwordless=True)
            return perform_login(request, user, redirect_url=back)
    return render_page(
        request,
        "accounts/factors/passkey_sign_in.html",
        {"options": sign_in_options(), "fault": fault, "next": back},
        status=400 if fault else 200,
    )


def can_replace_password(user: User) -> bool:
    """Return whether a new passkey of the account may replace its password."""
    return settings.PASSKEY_SIGN_IN and user.has_usable_password()


def _permitted_user(factor: Authenticator) -> User:
    """Return the user of a verified passkey.

    Raise ValidationError unless a password of the console would be accepted.
    """
    user = factor.user
    user.backend = LOCAL_BACKEND
    if (
        not user.is_active
        or user.is_service
        or user.has_expired_password
        or not user.has_usable_password()
        or (not is_password_accepted(user))
    ):
        raise ValidationError(NOT_PERMITTED)
    return user


def _own_url(request: HttpRequest, url: str) -> str:
    """Return the URL if it is one of this site, otherwise that of the first page."""
    is_own = url_has_allowed_host_and_scheme(
        url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return url if is_own else reverse("home")
