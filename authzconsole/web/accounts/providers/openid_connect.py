"""OpenID Connect: the authorization code flow with PKCE, state and nonce.

django-allauth trusts an ID token that it received directly, and does not send a nonce. This module verifies
each ID token: signature, issuer, audience, expiry, nonce, and that the userinfo describes the same subject.
"""

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from allauth.account.utils import get_next_redirect_url
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.models import SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.base import AuthProcess, ProviderException
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_GET
from requests import RequestException

from authzconsole.web.accounts.providers.adapters import ClaimsProvider, InvalidAnswer, provider_or_404
from authzconsole.web.accounts.reauthentication import AGAIN_PARAMETER

if TYPE_CHECKING:
    import jwt

# not HS256, because its key would be the client secret; never `none`
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
MAX_CLOCK_DIFFERENCE_SECONDS = 60
MAX_SUBJECT_CHARACTERS = 191


class ConsoleAdapter(OpenIDConnectOAuth2Adapter):
    """Send requests to the provider. nonce: the nonce of the sign-in in progress."""

    nonce = ""

    @property
    def openid_config(self) -> dict:
        """Return the metadata of the provider.

        Raise InvalidAnswer if it is that of another issuer or has no endpoints.
        """
        if not hasattr(self, "_openid_config"):
            provider = self.get_provider()
            config = self._get_json(provider.server_url)
            if config.get("issuer") != provider.app.settings["server_url"]:
                raise InvalidAnswer("names another issuer than OIDC_ISSUER")
            for endpoint in ENDPOINTS:
                if not _is_url(config.get(endpoint)):
                    raise InvalidAnswer(f"names no `{endpoint}`")
            self._openid_config = config
        return self._openid_config

    def _get_json(self, url: str, **arguments) -> dict:
        with get_adapter().get_requests_session() as session:
            response = session.get(url, **arguments)
            response.raise_for_status()
            value = response.json()
        if not isinstance(value, dict):
            raise InvalidAnswer("sends no JSON object")
        return value

    def get_access_token_data(
        self, request: HttpRequest, app: SocialApp, client, pkce_code_verifier=None
    ) -> dict:
        try:
            return super().get_access_token_data(request, app, client, pkce_code_verifier=pkce_code_verifier)
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidAnswer("sends no access token") from error

    def parse_token(self, data: dict) -> SocialToken:
        return SocialToken(token=str(data["access_token"]))

    def complete_login(
        self, request: HttpRequest, app: SocialApp, token: SocialToken, **kwargs
    ) -> SocialLogin:
        claims = self._verified_claims(app, kwargs["response"].get("id_token"))
        if _is_url(userinfo_url := self.openid_config.get("userinfo_endpoint")):
            userinfo = self._get_json(userinfo_url, headers={"Authorization": f"Bearer {token.token}"})
            if userinfo.get("sub") != claims["sub"]:
                raise InvalidAnswer("describes a different user than the one who signed in")
            claims = userinfo | claims
        return self.get_provider().login_with(request, claims)

    def _verified_claims(self, app: SocialApp, id_token: object) -> dict:
        if not isinstance(id_token, str):
            raise InvalidAnswer("sends no ID token")
        # here, because most processes never verify a token, and the import takes time and 8 MB
        import jwt

        try:
            claims = jwt.decode(
                id_token,
                key=self._signing_key(id_token),
                algorithms=ALGORITHMS,
                audience=app.client_id,
                issuer=app.settings["server_url"],
                leeway=MAX_CLOCK_DIFFERENCE_SECONDS,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except jwt.PyJWTError as error:
            raise InvalidAnswer(f"sends an invalid ID token ({error})") from error
        if not constant_time_compare(str(claims.get("nonce", "")), self.nonce):
            raise InvalidAnswer("sends the ID token of another sign-in")
        if (
            claims.get("azp", app.client_id) != app.client_id
            or not 0 < len(claims["sub"]) <= MAX_SUBJECT_CHARACTERS
        ):
            raise InvalidAnswer("sends an ID token for another client, or without a usable subject")
        return claims

    def _signing_key(self, id_token: str) -> "jwt.PyJWK":
        """Return the key of the provider with the id in the token.

        A token without an id is accepted if there is one key.
        """
        import jwt

        key_id = jwt.get_unverified_header(id_token).get("kid")
        keys = jwt.PyJWKSet.from_dict(self._get_json(self.openid_config["jwks_uri"])).keys
        candidates = [
            key for key in keys if key_id in (None, key.key_id) and key.public_key_use in (None, "sig")
        ]
        if len(candidates) != 1:
            raise InvalidAnswer("signs with a key that it does not publish")
        return candidates[0]


def _is_url(value: object) -> bool:
    return isinstance(value, str) and urlsplit(value).scheme in ("https", "http")


class ConsoleProvider(ClaimsProvider, OpenIDConnectProvider):
    """A provider that sends a nonce."""

    oauth2_adapter_class = ConsoleAdapter

    def redirect(self, request: HttpRequest, process, next_url=None, data=None, **kwargs) -> HttpResponse:
        nonce = secrets.token_urlsafe(32)
        parameters = {"nonce": nonce}
        if AGAIN_PARAMETER in request.GET:
            # max_age makes the provider send auth_time
            parameters |= {"prompt": "login", "max_age": "0"}
        return super().redirect(
            request, process, next_url, data, auth_params=parameters, nonce=nonce, **kwargs
        )


class _CallbackView(OAuth2CallbackView):
    def _get_state(self, request: HttpRequest, provider):
        state, response = super()._get_state(request, provider)
        if state is not None:
            self.adapter.nonce = state.get("nonce", "")
        return state, response


@login_not_required
@require_GET
def provider_login(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Redirect to the provider.

    Signed-in users continue to the requested page, unless they have to sign in again.
    """
    next_url = get_next_redirect_url(request)
    if request.user.is_authenticated and AGAIN_PARAMETER not in request.GET:
        return redirect(next_url or "home")
    provider = provider_or_404(request, provider_id)
    return _response_or_failure_page(
        request, provider, lambda: provider.redirect(request, AuthProcess.LOGIN, next_url)
    )


@login_not_required
@require_GET
def provider_callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Complete a sign-in. The provider redirects the browser to this URL with a code and the state."""
    provider = provider_or_404(request, provider_id, ConsoleProvider)
    adapter = ConsoleAdapter(request, provider_id)
    return _response_or_failure_page(request, provider, lambda: _CallbackView.adapter_view(adapter)(request))


def _response_or_failure_page(
    request: HttpRequest, provider, respond: Callable[[], HttpResponse]
) -> HttpResponse:
    try:
        return respond()
    except (RequestException, OAuth2Error, ProviderException) as error:
        return render_authentication_error(request, provider, exception=error)
