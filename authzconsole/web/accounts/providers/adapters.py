"""Adapters of django-allauth: they read providers from the settings, choose the account of an identity, and
render failures.
"""

import logging
from collections.abc import Mapping
from time import time
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, _build_apps_from_settings, get_adapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base import Provider, ProviderException
from allauth.socialaccount.providers.base.constants import AuthError
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from authzconsole.common.recent_authentication import (
    PROVIDER_SESSION_KEY,
    TIME_KEY,
    VERIFIED_BY_PROVIDER_KEY,
    record_authentication,
)
from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.sessions import PROVIDER_NAME_KEY, provider_name_digest
from authzconsole.settings.accounts import LOCAL_BACKEND
from authzconsole.web.accounts.providers.identities import Identity, SignInRefused, sign_in_account
from grants.models import User

logger = logging.getLogger(__name__)

# In the state of a sign-in, and in the session: how the provider names the session in a single logout. Only
# SAML has it.
PROVIDER_STATE = "at_provider"


class AccountAdapter(DefaultAccountAdapter):
    """Sign in without messages and e-mails of django-allauth."""

    def login(self, request: HttpRequest, user: User) -> None:
        if not hasattr(user, "backend"):
            user.backend = LOCAL_BACKEND
        super().login(request, user)

    def post_login(
        self, request: HttpRequest, user: User, *, signal_kwargs: dict | None, **kwargs
    ) -> HttpResponse:
        if login := (signal_kwargs or {}).get("sociallogin"):
            record_provider_sign_in(request, login.account.provider, login.state)
        return super().post_login(request, user, signal_kwargs=signal_kwargs, **kwargs)

    def get_login_stages(self) -> list[str]:
        return ["authzconsole.web.accounts.factors.pages.SecondFactorStage"]

    def add_message(self, *args, **kwargs) -> None:
        pass

    def send_notification_mail(self, *args, **kwargs) -> None:
        pass


class ProviderAdapter(DefaultSocialAccountAdapter):
    """Take providers from the settings only, and accounts from
    authzconsole.web.accounts.providers.identities.
    """

    def list_apps(self, request, provider=None, client_id=None) -> list:
        # not from the database, so that no secret is stored there
        apps = _build_apps_from_settings(provider=provider, client_id=client_id)
        return [app for provider_apps in apps.values() for app in provider_apps]

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        identity = Identity(sociallogin.account.provider, sociallogin.account.uid, sociallogin.claims)
        try:
            sociallogin.account = sign_in_account(request, identity)
        except SignInRefused as refusal:
            logger.warning("sign-in through %s refused: %s", identity.provider, refusal)
            record_event(
                EventKind.SIGN_IN_FAILURE,
                request=request,
                account=identity.name(),
                detail=f"{identity.provider}: {refusal}",
            )
            page = failure_page(request, identity.provider, identity.options.name, str(refusal), status=403)
            raise ImmediateHttpResponse(page) from None
        sociallogin.user = sociallogin.account.user
        # the session stores these while the sign-in waits for a second factor
        sociallogin.token = None
        sociallogin.state["auth_time"] = sociallogin.claims.get("auth_time")

    def serialize_instance(self, instance) -> dict:
        return {
            name: value for name, value in super().serialize_instance(instance).items() if name != "password"
        }

    def on_authentication_error(
        self, request: HttpRequest, provider, error=None, exception=None, extra_context=None
    ) -> None:
        provider_id, name = provider.app.provider_id, provider.app.name
        record_event(
            EventKind.SIGN_IN_FAILURE,
            request=request,
            account="",
            detail=f"{provider_id}: {exception or error}",
        )
        if error == AuthError.CANCELLED:
            sentence, status = f"The sign-in with {name} was cancelled or not permitted.", 403
        elif exception is None and not (extra_context or {}).get("state"):
            sentence = "This sign-in has expired, was used before, or was started in another browser."
            status = 400
        else:
            cause = exception or request.GET.get("error", "")[:100]
            logger.error("sign-in through %s failed: %s", provider_id, cause)
            sentence = f"{name} does not answer as it should. The log of the console has the details."
            if isinstance(exception, InvalidAnswer):
                sentence = f"{name} {exception}."
            status = 502
        raise ImmediateHttpResponse(failure_page(request, provider_id, name, sentence, status=status))


class InvalidAnswer(ProviderException):
    """An answer of a provider that is not accepted. The message continues a sentence that starts with the
    provider's name.

    django-allauth reports a ProviderException to the adapter.
    """


class ClaimsProvider(Provider):
    """A provider that stores no claims in the database; authzconsole.web.accounts.providers.identities reads them.

    subject_claim: the identifier of a user.
    """

    subject_claim = "sub"

    def login_with(self, request: HttpRequest, claims: dict, **attributes) -> SocialLogin:
        """Return the login of a user with verified claims. attributes: of the login."""
        login = self.sociallogin_from_response(request, claims)
        login.claims = claims
        for name, value in attributes.items():
            setattr(login, name, value)
        return login

    def extract_uid(self, data: dict) -> str:
        return data[self.subject_claim]

    def extract_common_fields(self, data: dict) -> dict:
        return {}

    def extract_extra_data(self, data: dict) -> dict:
        return {}

    def extract_email_addresses(self, data: dict) -> list:
        return []


def provider_or_404(
    request: HttpRequest, provider_id: str, class_: type[ClaimsProvider] = ClaimsProvider
) -> Any:
    """Return the provider with this id. Raise Http404 if there is none of this class."""
    try:
        provider = get_adapter().get_provider(request, provider=provider_id)
    except (SocialApp.DoesNotExist, ImproperlyConfigured):
        provider = None
    if not isinstance(provider, class_):
        raise Http404("there is no such sign-in provider")
    return provider


def failure_page(
    request: HttpRequest, provider_id: str, name: str, sentence: str, *, status: int
) -> HttpResponse:
    """Return a page that explains why a sign-in failed, with a link that tries again and one to the sign-in
    page.
    """
    retry_url = reverse("openid_connect_login", kwargs={"provider_id": provider_id})
    return render(
        request,
        "accounts/sign_in_failed.html",
        {"name": name, "sentence": sentence, "retry_url": retry_url},
        status=status,
    )


def record_provider_sign_in(request: HttpRequest, provider_id: str, state: Mapping[str, object]) -> None:
    """Store the provider in the session, and when the user last authenticated there (`auth_time`), which may
    be hours ago.
    """
    request.session[PROVIDER_SESSION_KEY] = provider_id
    if is_factor_verified_by_provider(provider_id):
        request.session[VERIFIED_BY_PROVIDER_KEY] = True
    record_authentication(request, "provider")
    if isinstance(authenticated_at := state.get("auth_time"), int):
        request.session[TIME_KEY] = min(authenticated_at, int(time()))
    if isinstance(at_provider := state.get(PROVIDER_STATE), Mapping):
        request.session[PROVIDER_STATE] = at_provider
        request.session[PROVIDER_NAME_KEY] = provider_name_digest(provider_id, at_provider["name_id"])


def is_factor_verified_by_provider(provider_id: str) -> bool:
    """Return whether the provider asks for the second factor itself, so that the console does not."""
    options = settings.SIGN_IN_PROVIDERS.get(provider_id)
    return options is not None and options.second_factor == "provider"
