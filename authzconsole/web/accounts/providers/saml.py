"""SAML 2.0: sign-in that the console starts, and single logout.

python3-saml checks signature, issuer, audience, destination and times, and decrypts assertions. This module
adds that each answer belongs to a sign-in that this browser started, and that each assertion is accepted
once. Its packages are the extra `saml`, so they are imported when they are needed.

The console or the provider starts a single logout, over HTTP-Redirect. The session of the console ends first, so that it
also ends if the provider does not answer. Messages in both directions are signed.
"""

import hashlib
import logging
from collections.abc import Mapping
from time import time
from typing import TYPE_CHECKING

from allauth.socialaccount.helpers import complete_social_login, render_authentication_error
from allauth.socialaccount.providers.saml.provider import SAMLProvider
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.cache import caches
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST
from redis import RedisError

from authzconsole.settings.sign_in import ProviderOptions
from authzconsole.web.accounts.providers.adapters import (
    PROVIDER_STATE,
    ClaimsProvider,
    InvalidAnswer,
    provider_or_404,
)
from authzconsole.web.accounts.reauthentication import AGAIN_PARAMETER
from authzconsole.web.shared.rendering import render_page

if TYPE_CHECKING:
    from onelogin.saml2.auth import OneLogin_Saml2_Auth
import zlib
from datetime import UTC, datetime, timedelta

from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialApp
from django.contrib.auth.views import LogoutView
from django.http import Http404
from django.utils import timezone
from django.utils.decorators import method_decorator

from authzconsole.common.recent_authentication import PROVIDER_SESSION_KEY
from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.sessions import end_provider_sessions, provider_name_digest
from authzconsole.web.shared.rendering import see_other
from entities.frozen import frozen

logger = logging.getLogger(__name__)

# the claim for the identifier that SAML calls NameID, and the claims that can have the e-mail address
NAME_ID = "name_id"
EMAIL_ATTRIBUTES = (
    "email",
    "mail",
    "urn:oid:0.9.2342.19200300.100.1.3",
    "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
)
MAX_SUBJECT_CHARACTERS = 191
MAX_ANSWER_CHARACTERS = 60_000
# the page that repeats an answer from this site sends this field
REPEATED = "repeated"
# Key transport with PKCS #1 v1.5 can be decrypted with the error messages of the receiver (Bleichenbacher's
# attack).
REFUSED_ENCRYPTION = (
    "http://www.w3.org/2001/04/xmlenc#rsa-1_5",
    "http://www.w3.org/2001/04/xmlenc#tripledes-cbc",
)
# how long an assertion without a valid end is remembered
ASSERTION_SECONDS = 3_600


class ConsoleSamlProvider(ClaimsProvider, SAMLProvider):
    subject_claim = "subject"

    @property
    def options(self) -> ProviderOptions:
        return settings.SIGN_IN_PROVIDERS[self.app.provider_id]

    def redirect(self, request: HttpRequest, process, next_url=None, data=None, **kwargs) -> HttpResponse:
        client = saml_client(request, self)
        url = client.login(return_to="", force_authn=AGAIN_PARAMETER in request.GET)
        self.stash_redirect_state(request, process, next_url, data, state_id=client.get_last_request_id())
        return HttpResponseRedirect(url)


def saml_client(
    request: HttpRequest, provider: ConsoleSamlProvider, security: Mapping[str, bool] | None = None
) -> "OneLogin_Saml2_Auth":
    """Return python3-saml's client for this request. security: further settings of python3-saml."""
    from onelogin.saml2.auth import OneLogin_Saml2_Auth

    options, provider_id = provider.options, provider.app.provider_id
    post, redirect = (
        f"urn:oasis:names:tc:SAML:2.0:bindings:HTTP-{binding}" for binding in ("POST", "Redirect")
    )
    urls = {
        name: request.build_absolute_uri(reverse(f"saml-{name}", args=[provider_id]))
        for name in ("metadata", "acs", "slo")
    }
    console: dict[str, object] = {
        "entityId": urls["metadata"],
        "assertionConsumerService": {"url": urls["acs"], "binding": post},
        "x509cert": options.console_certificate,
        "privateKey": options.console_key,
    }
    identity_provider: dict[str, object] = {
        "entityId": options.issuer,
        "x509cert": options.certificate,
        "singleSignOnService": {"url": options.sso_url, "binding": redirect},
    }
    if options.slo_url:
        console["singleLogoutService"] = {"url": urls["slo"], "binding": redirect}
        identity_provider["singleLogoutService"] = {"url": options.slo_url, "binding": redirect}
    configuration = {
        "strict": True,
        "sp": console,
        "idp": identity_provider,
        "security": {
            "wantAssertionsSigned": True,
            "rejectDeprecatedAlgorithm": True,
            "requestedAuthnContext": False,
            "wantAttributeStatement": False,
            "allowRepeatAttributeName": True,
            "allowSingleLabelDomains": True,
            "wantAssertionsEncrypted": options.encrypted_assertions == "required",
            "signatureAlgorithm": "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
            "digestAlgorithm": "http://www.w3.org/2001/04/xmlenc#sha256",
            **(security or {}),
        },
    }
    return OneLogin_Saml2_Auth(
        {
            "https": "on" if request.is_secure() else "off",
            "http_host": request.get_host(),
            "script_name": request.path,
            "get_data": request.GET.dict(),
            "post_data": request.POST.dict(),
            # the provider signed the query as it wrote it; another encoding of the same values would not
            # match
            "query_string": request.META.get("QUERY_STRING", ""),
            "validate_signature_from_qs": True,
        },
        configuration,
    )


@csrf_exempt
@login_not_required
@require_POST
def saml_acs(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Complete a sign-in with the provider's response, which the browser submits.

    The browser sends no session cookie with a form that another site submits. The first request is therefore
    answered with a page that submits the same form again, from this site.
    """
    provider = provider_or_404(request, provider_id, ConsoleSamlProvider)
    if REPEATED not in request.POST:
        answer = request.POST.get("SAMLResponse", "")[:MAX_ANSWER_CHARACTERS]
        return render_page(
            request,
            "accounts/saml_answer.html",
            {"action": request.path, "answer": answer, "field": REPEATED},
        )
    try:
        claims, state = _accepted_answer(request, provider)
    except InvalidAnswer as error:
        return render_authentication_error(request, provider, exception=error)
    if state is None:
        return render_authentication_error(request, provider)
    return complete_social_login(request, provider.login_with(request, claims, state=state))


@login_not_required
@require_GET
def saml_metadata(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Return the metadata of the console, which is registered at the provider."""
    provider = provider_or_404(request, provider_id, ConsoleSamlProvider)
    # with this setting, the metadata has the certificate for encryption too
    client = saml_client(request, provider, {"wantAssertionsEncrypted": bool(provider.options.console_key)})
    return HttpResponse(client.get_settings().get_sp_metadata(), content_type="application/samlmetadata+xml")


def _accepted_answer(request: HttpRequest, provider: ConsoleSamlProvider) -> tuple[dict, dict | None]:
    """Return the attributes of a valid answer, and the state of its sign-in; None if this browser did not
    start it.
    """
    from lxml.etree import LxmlError
    from onelogin.saml2.errors import OneLogin_Saml2_Error
    from xmlsec import Error as XmlSecurityError

    client = saml_client(request, provider)
    is_encrypted = False
    try:
        is_encrypted = _is_encrypted(request.POST.get("SAMLResponse", ""))
        client.process_response()
        if errors := client.get_errors():
            reason = client.get_last_error_reason() or ", ".join(errors)
            raise _refusal(provider, is_encrypted, f"sends an invalid answer ({reason})")
    except (
        OneLogin_Saml2_Error,
        LxmlError,
        XmlSecurityError,
        ValueError,
        TypeError,
        AttributeError,
    ) as error:
        raise _refusal(provider, is_encrypted, "sends a malformed answer") from error
    if not client.is_authenticated():
        raise InvalidAnswer("did not permit the sign-in")
    claims = _claims(client, provider.options)
    request_id = client.get_last_response_in_response_to()
    try:
        state = provider.unstash_redirect_state(request, request_id or "")
    except PermissionDenied:
        state = None
    else:
        _use_assertion(provider, client)
        if provider.options.slo_url:
            state[PROVIDER_STATE] = {
                "name_id": client.get_nameid() or "",
                "format": client.get_nameid_format(),
                "index": client.get_session_index(),
                "qualifier": client.get_nameid_nq(),
                "own_qualifier": client.get_nameid_spnq(),
            }
    return claims, state


def _is_encrypted(answer: str) -> bool:
    """Return whether the answer has an encrypted part. Raise InvalidAnswer if the encryption is too weak."""
    from onelogin.saml2.utils import OneLogin_Saml2_Utils
    from onelogin.saml2.xml_utils import OneLogin_Saml2_XML

    if not answer:
        return False
    root = OneLogin_Saml2_XML.to_etree(OneLogin_Saml2_Utils.b64decode(answer))
    if {method.get("Algorithm") for method in OneLogin_Saml2_XML.query(root, "//xenc:EncryptionMethod")} & {
        *REFUSED_ENCRYPTION
    }:
        raise InvalidAnswer(
            "encrypts its answer with an algorithm that is not secure: configure RSA-OAEP and AES"
        )
    return bool(OneLogin_Saml2_XML.query(root, "//xenc:EncryptedData"))


def _refusal(provider: ConsoleSamlProvider, is_encrypted: bool, message: str) -> InvalidAnswer:
    """Return the exception with this message. The message about an encrypted answer is always the same.

    Different messages would help to decrypt an answer that was intercepted.
    """
    if not is_encrypted:
        return InvalidAnswer(message)
    logger.warning("%s %s", provider.app.provider_id, message)
    return InvalidAnswer("sends an encrypted answer that is not accepted")


def _claims(client: "OneLogin_Saml2_Auth", options: ProviderOptions) -> dict:
    attributes = client.get_attributes()
    name_id = client.get_nameid() or ""
    email = next((attributes[name] for name in EMAIL_ATTRIBUTES if name in attributes), [])
    claims = {**attributes, NAME_ID: name_id, "email": email}
    if options.subject_attribute:
        subject = next(iter(attributes.get(options.subject_attribute, [])), "")
    elif (client.get_nameid_format() or "").endswith(":transient"):
        raise InvalidAnswer(
            "sends a transient NameID, which changes with each sign-in: set `subject_attribute`"
        )
    else:
        subject = name_id
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_CHARACTERS:
        raise InvalidAnswer("sends no usable subject")
    return claims | {"subject": subject}


def _use_assertion(provider: ConsoleSamlProvider, client: "OneLogin_Saml2_Auth") -> None:
    """Raise InvalidAnswer if the assertion was used before, also in another browser."""
    digest = hashlib.sha256(
        f"{provider.app.provider_id}\n{client.get_last_assertion_id()}".encode()
    ).hexdigest()
    seconds = max(
        1, int((client.get_last_assertion_not_on_or_after() or time() + ASSERTION_SECONDS) - time()) + 300
    )
    try:
        is_new = caches["shared"].add(f"saml:{digest}", 1, seconds)
    except (RedisError, OSError):
        # without Redis, this process remembers the assertion alone
        is_new = caches["default"].add(f"saml:{digest}", 1, seconds)
    if not is_new:
        raise InvalidAnswer("sends an answer that was used before")


SIGNED_MESSAGES = {"wantMessagesSigned": True, "logoutRequestSigned": True, "logoutResponseSigned": True}
PARAMETERS = {"SAMLRequest", "SAMLResponse", "RelayState", "SigAlg", "Signature", "SAMLEncoding"}
MAX_MESSAGE_CHARACTERS, MAX_MESSAGE_BYTES = 8_000, 60_000
# how old a request of the provider may be, and how far its clock may differ
MAX_AGE = timedelta(minutes=5)


class InvalidMessage(Exception):
    """A message of the provider that is not accepted."""


@frozen
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
        logout = _logout_request(request, client)
        digest = provider_name_digest(provider_id, logout.name_id)
        ended = end_provider_sessions(digest, logout.includes)
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


def _signed_out_page(
    request: HttpRequest, name: str, *, url: str = "", fault: str = "", status: int = 200
) -> HttpResponse:
    return render_page(
        request,
        "accounts/sessions/signed_out.html",
        {"name": name, "url": url, "fault": fault},
        status=status,
    )
