"""Adapters of django-allauth: they read providers from the settings, choose the account of an identity, and
render failures.
"""

import logging

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, _build_apps_from_settings
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.base import ProviderException
from allauth.socialaccount.providers.base.constants import AuthError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.settings.accounts import LOCAL_BACKEND
from authzconsole.web.accounts.providers.identities import Identity, SignInRefused, sign_in_account
from authzconsole.web.accounts.providers.session import record_provider_sign_in
from grants.models import User

logger = logging.getLogger(__name__)


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
        return ["authzconsole.web.accounts.factors.sign_in.SecondFactorStage"]

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
        return _settings_apps(provider, client_id)

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
            sentence = f"The sign-in with {name} was cancelled or not permitted."
            raise ImmediateHttpResponse(failure_page(request, provider_id, name, sentence, status=403))
        if exception is None and not (extra_context or {}).get("state"):
            raise ImmediateHttpResponse(
                failure_page(
                    request,
                    provider_id,
                    name,
                    "This sign-in has expired, was used before, or was started in another browser.",
                    status=400,
                )
            )
        logger.error(
            "sign-in through %s failed: %s", provider_id, exception or request.GET.get("error", "")[:100]
        )
        raise ImmediateHttpResponse(
            failure_page(request, provider_id, name, _sentence(name, exception), status=502)
        )


def _settings_apps(provider: str | None, client_id: str | None) -> list:
    return [
        app
        for apps in _build_apps_from_settings(provider=provider, client_id=client_id).values()
        for app in apps
    ]


def _sentence(name: str, exception: Exception | None) -> str:
    if isinstance(exception, InvalidAnswer):
        return f"{name} {exception}."
    return f"{name} does not answer as it should. The log of the console has the details."


class InvalidAnswer(ProviderException):
    """An answer of a provider that is not accepted. The message continues a sentence that starts with the
    provider's name.

    django-allauth reports a ProviderException to the adapter.
    """


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
