"""SAML single logout over HTTP-Redirect, started by the console or by the provider.

The session of the console ends first, so that it also ends if the provider does not answer. Messages in both
directions are signed.
"""

import logging
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialApp
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LogoutView
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_GET

from authzconsole.common.recent_authentication import PROVIDER_SESSION_KEY
from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.sessions import end_provider_sessions, provider_name_digest
from authzconsole.web.accounts.providers.adapters import PROVIDER_STATE, provider_or_404
from authzconsole.web.accounts.providers.saml import ConsoleSamlProvider, saml_client
from authzconsole.web.shared.rendering import render_page, see_other

if TYPE_CHECKING:
    from onelogin.saml2.auth import OneLogin_Saml2_Auth

logger = logging.getLogger(__name__)

SIGNED_MESSAGES = {"wantMessagesSigned": True, "logoutRequestSigned": True, "logoutResponseSigned": True}
PARAMETERS = {"SAMLRequest", "SAMLResponse", "RelayState", "SigAlg", "Signature", "SAMLEncoding"}
MAX_MESSAGE_CHARACTERS, MAX_MESSAGE_BYTES = 8_000, 60_000
# how old a request of the provider may be, and how far its clock may differ
MAX_AGE = timedelta(minutes=5)


class InvalidMessage(Exception):
    """A message of the provider that is not accepted."""


@dataclass(frozen=True, slots=True)
class LogoutRequest:
    """A request to end sessions. indexes: the names of the sessions at the provider; if empty, all sessions
    of the user.
    """

    name_id: str
    indexes: frozenset[str]

    def includes(self, data: dict) -> bool:
        """Return whether this request ends the session with this data."""
        index = (data.get(PROVIDER_STATE) or {}).get("index")
        return not self.indexes or not index or index in self.indexes


@method_decorator(login_not_required, name="dispatch")
class SignOut(LogoutView):
    """End the session. If a SAML provider started it, continue to the single logout of the provider."""

    def post(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        provider_id, at_provider = (
            request.session.get(PROVIDER_SESSION_KEY, ""),
            request.session.get(PROVIDER_STATE),
        )
        response = super().post(request, *args, **kwargs)
        url, name = _logout_at_provider(request, provider_id, at_provider) if at_provider else ("", "")
        # not a redirect: the security policy of the page with the form permits none to other sites
        return _signed_out_page(request, name, url=url) if url else response


@login_not_required
@require_GET
def saml_slo(request: HttpRequest, provider_id: str) -> HttpResponse:
    """End the sessions that the provider names, or complete a logout that the console started."""
    provider = provider_or_404(request, provider_id, ConsoleSamlProvider)
    if not provider.options.slo_url:
        raise Http404("this provider has no single logout")
    name = provider.options.name
    try:
        _check_query(request)
        client = saml_client(request, provider, SIGNED_MESSAGES)
        url = _process_message(client)
        if "SAMLResponse" in request.GET:
            return see_other(reverse("sign-in"))
        ended = _end_sessions(provider, _logout_request(request, client))
    except InvalidMessage as error:
        logger.warning("single logout of %s refused: %s", provider_id, error)
        return _signed_out_page(
            request, name, fault="sent a message about a sign-out that is not accepted", status=400
        )
    for account, count in ended.items():
        record_event(
            EventKind.SIGN_OUT,
            request=request,
            account=account,
            detail=f"{provider_id} ended {count} session{'' if count == 1 else 's'}",
        )
    return HttpResponseRedirect(url)


def _logout_at_provider(
    request: HttpRequest, provider_id: str, at_provider: Mapping[str, str | None]
) -> tuple[str, str]:
    """Return the URL that ends the session of the provider, and the name of the provider; empty texts without
    single logout.

    at_provider: how the provider names the session.
    """
    try:
        provider = get_adapter().get_provider(request, provider=provider_id)
    except SocialApp.DoesNotExist:
        return "", ""
    if not isinstance(provider, ConsoleSamlProvider) or not provider.options.slo_url:
        return "", ""
    url = saml_client(request, provider, SIGNED_MESSAGES).logout(
        return_to="",
        name_id=at_provider["name_id"],
        session_index=at_provider["index"],
        name_id_format=at_provider["format"],
        nq=at_provider["qualifier"],
        spnq=at_provider["own_qualifier"],
    )
    return url, provider.options.name


def _check_query(request: HttpRequest) -> None:
    """Raise InvalidMessage unless the query is one message of the expected form.

    The signature covers the text of the query. With a repeated parameter or an encoded name, Django would
    read another value than the signed one.
    """
    raw_names = [part.partition("=")[0] for part in request.META.get("QUERY_STRING", "").split("&")]
    messages = {"SAMLRequest", "SAMLResponse"} & request.GET.keys()
    if (
        len(raw_names) != len(set(raw_names))
        or set(raw_names) != set(request.GET)
        or not set(raw_names) <= PARAMETERS
    ):
        raise InvalidMessage("the query has other, encoded or repeated parameters")
    if len(messages) != 1:
        raise InvalidMessage("the query must have one SAMLRequest or SAMLResponse")
    _check_size(request.GET[messages.pop()])


def _check_size(message: str) -> None:
    """Raise InvalidMessage if the message is too large, compressed or uncompressed."""
    from onelogin.saml2.utils import OneLogin_Saml2_Utils

    if len(message) > MAX_MESSAGE_CHARACTERS:
        raise InvalidMessage("the message is too long")
    inflate = zlib.decompressobj(-15)
    try:
        inflate.decompress(OneLogin_Saml2_Utils.b64decode(message), MAX_MESSAGE_BYTES)
    except (zlib.error, ValueError):
        raise InvalidMessage("the message is not compressed as HTTP-Redirect requires") from None
    if inflate.unconsumed_tail:
        raise InvalidMessage("the message is too long")


def _process_message(client: "OneLogin_Saml2_Auth") -> str:
    """Verify the message.

    Return the URL with the answer to a request. Raise InvalidMessage if the message is not accepted.
    """
    from lxml.etree import LxmlError
    from onelogin.saml2.errors import OneLogin_Saml2_Error

    try:
        url = client.process_slo(keep_local_session=True)
    except (OneLogin_Saml2_Error, LxmlError, ValueError, TypeError, AttributeError) as error:
        raise InvalidMessage(f"the message is malformed ({error})") from error
    if errors := client.get_errors():
        raise InvalidMessage(client.get_last_error_reason() or ", ".join(errors))
    return url or ""


def _logout_request(request: HttpRequest, client: "OneLogin_Saml2_Auth") -> LogoutRequest:
    """Return the verified request. Raise InvalidMessage if it is old, or meant for another service.

    python3-saml does not require the destination, so another service could forward its own request to the
    console.
    """
    from onelogin.saml2.errors import OneLogin_Saml2_Error
    from onelogin.saml2.logout_request import OneLogin_Saml2_Logout_Request
    from onelogin.saml2.utils import OneLogin_Saml2_Utils
    from onelogin.saml2.xml_utils import OneLogin_Saml2_XML

    root = OneLogin_Saml2_XML.to_etree(client.get_last_request_xml())
    if root.get("Destination") != request.build_absolute_uri(request.path):
        raise InvalidMessage("the request has another destination")
    try:
        issued_at = datetime.fromtimestamp(
            OneLogin_Saml2_Utils.parse_SAML_to_time(root.get("IssueInstant") or ""), UTC
        )
        name_id = OneLogin_Saml2_Logout_Request.get_nameid(root, client.get_settings().get_sp_key())
    except (OneLogin_Saml2_Error, ValueError, TypeError) as error:
        raise InvalidMessage(f"the request is malformed ({error})") from error
    if abs(timezone.now() - issued_at) > MAX_AGE:
        raise InvalidMessage("the request is too old, or the clocks differ")
    return LogoutRequest(
        name_id or "", frozenset(filter(None, OneLogin_Saml2_Logout_Request.get_session_indexes(root)))
    )


def _end_sessions(provider: ConsoleSamlProvider, logout: LogoutRequest) -> dict[str, int]:
    return end_provider_sessions(
        provider_name_digest(provider.app.provider_id, logout.name_id), logout.includes
    )


def _signed_out_page(
    request: HttpRequest, name: str, *, url: str = "", fault: str = "", status: int = 200
) -> HttpResponse:
    return render_page(
        request,
        "accounts/sessions/signed_out.html",
        {"name": name, "url": url, "fault": fault},
        status=status,
    )
