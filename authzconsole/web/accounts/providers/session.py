"""Sessions that were started through a sign-in provider."""

from collections.abc import Mapping
from time import time
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from authzconsole.common.recent_authentication import TIME_KEY, record_authentication
from authzconsole.web.accounts.reauthentication import ReauthenticationFailed

# the id of the provider; sessions that were started with a password have no such key
PROVIDER_SESSION_KEY = "sign_in_provider"
# with this parameter, the provider asks for credentials even if its own session is still valid
AGAIN_PARAMETER = "again"


def record_provider_sign_in(request: HttpRequest, provider_id: str, claims: Mapping[str, object]) -> None:
    """Store the provider in the session, and when the user last authenticated there, which may be hours ago."""
    request.session[PROVIDER_SESSION_KEY] = provider_id
    record_authentication(request, ProviderMethod.name)
    if isinstance(authenticated_at := claims.get("auth_time"), int):
        request.session[TIME_KEY] = min(authenticated_at, int(time()))


class ProviderMethod:
    """Confirm the identity by signing in again at the provider of the session. See ReauthenticationMethod."""

    name = "provider"
    template = "accounts/reauthentication/_provider.html"

    def is_available(self, request: HttpRequest) -> bool:
        options = settings.SIGN_IN_PROVIDERS.get(request.session.get(PROVIDER_SESSION_KEY, ""))
        if options is None:
            return False
        self.provider_name = options.name
        next_page = request.GET.get("next", "") or request.get_full_path()
        url = reverse("openid_connect_login", args=[request.session[PROVIDER_SESSION_KEY]])
        self.url = f"{url}?{urlencode({AGAIN_PARAMETER: 'yes', 'next': next_page})}"
        return True

    def verify(self, request: HttpRequest) -> None:
        raise ReauthenticationFailed(f"Sign in again with {self.provider_name}.")
