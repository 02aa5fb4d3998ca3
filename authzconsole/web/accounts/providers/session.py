"""Sessions that were started through a sign-in provider."""

from collections.abc import Mapping
from time import time
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from authzconsole.common.recent_authentication import PROVIDER_SESSION_KEY, TIME_KEY, record_authentication
from authzconsole.common.second_factor import VERIFIED_BY_PROVIDER_KEY
from authzconsole.sessions.services import provider_name_digest
from authzconsole.sessions.store import PROVIDER_NAME_KEY
from authzconsole.web.accounts.reauthentication import ReauthenticationFailed
from authzconsole.web.shared.rendering import referring_page

# with this parameter, the provider asks for credentials even if its own session is still valid
AGAIN_PARAMETER = "again"
# In the state of a sign-in, and in the session: how the provider names the session in a single logout. Only
# SAML has it.
PROVIDER_STATE = "at_provider"


def record_provider_sign_in(request: HttpRequest, provider_id: str, state: Mapping[str, object]) -> None:
    """Store the provider in the session, and when the user last authenticated there (`auth_time`), which may
    be hours ago.
    """
    request.session[PROVIDER_SESSION_KEY] = provider_id
    if is_factor_verified_by_provider(provider_id):
        request.session[VERIFIED_BY_PROVIDER_KEY] = True
    record_authentication(request, ProviderMethod.name)
    if isinstance(authenticated_at := state.get("auth_time"), int):
        request.session[TIME_KEY] = min(authenticated_at, int(time()))
    if isinstance(at_provider := state.get(PROVIDER_STATE), Mapping):
        request.session[PROVIDER_STATE] = at_provider
        request.session[PROVIDER_NAME_KEY] = provider_name_digest(provider_id, at_provider["name_id"])


def is_factor_verified_by_provider(provider_id: str) -> bool:
    """Return whether the provider asks for the second factor itself, so that the console does not."""
    options = settings.SIGN_IN_PROVIDERS.get(provider_id)
    return options is not None and options.second_factor == "provider"


class ProviderMethod:
    """Confirm the identity by signing in again at the provider of the session. See ReauthenticationMethod."""

    name = "provider"
    template = "accounts/reauthentication/_provider.html"

    def is_available(self, request: HttpRequest) -> bool:
        options = settings.SIGN_IN_PROVIDERS.get(request.session.get(PROVIDER_SESSION_KEY, ""))
        if options is None:
            return False
        self.provider_name = options.name
        # a change returns to the page with its form, because the URL of the change may accept only POST
        form_page = referring_page(request) if request.method == "POST" else ""
        next_page = request.GET.get("next", "") or form_page or request.get_full_path()
        url = reverse("openid_connect_login", args=[request.session[PROVIDER_SESSION_KEY]])
        self.url = f"{url}?{urlencode({AGAIN_PARAMETER: 'yes', 'next': next_page})}"
        return True

    def verify(self, request: HttpRequest) -> None:
        raise ReauthenticationFailed(f"Sign in again with {self.provider_name}.")
