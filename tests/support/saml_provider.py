"""A SAML identity provider that answers sign-ins with signed assertions, and takes part in single logout.

Its messages can be encrypted, and can contain false values.
"""

import base64
import json
import zlib
from datetime import UTC, datetime, timedelta
from functools import cache
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import uuid4
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID
from django.test import Client

from authzconsole.settings.sign_in import allauth_providers, saml_providers

ISSUER, SSO_URL, SLO_URL = (f"https://idp.corp.example/{path}" for path in ("metadata", "sso", "slo"))
ACS, METADATA, SLO = (f"http://testserver/sign-in/staff/{path}" for path in ("acs", "metadata", "slo"))
SHA256 = {
    "sign_algorithm": "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
    "digest_algorithm": "http://www.w3.org/2001/04/xmlenc#sha256",
}
SHA1 = {
    "sign_algorithm": "http://www.w3.org/2000/09/xmldsig#rsa-sha1",
    "digest_algorithm": "http://www.w3.org/2000/09/xmldsig#sha1",
}


@cache
def key_and_certificate(name: str) -> tuple[str, str]:
    """Return a new private key and its certificate as PEM; the same ones for the same name."""
    key, now = rsa.generate_private_key(65537, 2048), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private.decode(), certificate.public_bytes(serialization.Encoding.PEM).decode()


def configure_saml(settings, **options) -> None:
    """Configure the provider `staff` as the environment variable SAML_PROVIDERS would."""
    described = {
        "staff": {
            "issuer": ISSUER,
            "sso_url": SSO_URL,
            "certificate": key_and_certificate("idp")[1],
            "name": "Staff",
            **options,
        }
    }
    settings.SIGN_IN_PROVIDERS = saml_providers({"SAML_PROVIDERS": json.dumps(described)})
    settings.SOCIALACCOUNT_PROVIDERS = allauth_providers(settings.SIGN_IN_PROVIDERS)


def console_keys() -> dict[str, str]:
    """Return the options with the key pair of the console."""
    key, certificate = key_and_certificate("console")
    return {"console_key": key, "console_certificate": certificate}


def start(client: Client, path: str = "/sign-in/staff") -> str:
    """Start a sign-in with the browser `client`.

    Return the id of the request that it takes to the provider.
    """
    response = client.get(path)
    assert response.status_code == 302 and response["Location"].startswith(f"{SSO_URL}?SAMLRequest="), (
        response.content
    )
    request = base64.b64decode(parse_qs(urlsplit(response["Location"]).query)["SAMLRequest"][0])
    return ElementTree.fromstring(zlib.decompress(request, -15)).attrib["ID"]


def answer(
    request_id: str,
    name_id: str,
    attributes: dict | None = None,
    *,
    issuer: str = ISSUER,
    audience: str = METADATA,
    recipient: str = ACS,
    destination: str = ACS,
    minutes: int = 0,
    signed_by: str = "idp",
    algorithms: dict = SHA256,
    format: str = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent",
    confirms: str | None = None,
    status: str = "Success",
    index: str = "1",
) -> str:
    """Return the signed answer to a request. The options have the right values by default."""
    from onelogin.saml2.utils import OneLogin_Saml2_Utils

    confirms = request_id if confirms is None else confirms
    now = datetime.now(UTC) + timedelta(minutes=minutes)
    moments = (now, now - timedelta(minutes=2), now + timedelta(minutes=5))
    at, start_at, end = (moment.strftime("%Y-%m-%dT%H:%M:%SZ") for moment in moments)
    in_response_to = f' InResponseTo="{confirms}"' if confirms else ""
    statements = "".join(
        f'<saml:Attribute Name="{name}">'
        + "".join(f"<saml:AttributeValue>{escape(text)}</saml:AttributeValue>" for text in texts)
        + "</saml:Attribute>"
        for name, texts in (attributes or {}).items()
    )
    assertion = (
        f'<saml:Assertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_{uuid4()}" Version="2.0" IssueInstant="{at}">'
        f'<saml:Issuer>{issuer}</saml:Issuer><saml:Subject><saml:NameID Format="{format}">{escape(name_id)}'
        f'</saml:NameID><saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer"><saml:SubjectConfirmationData '
        f'NotOnOrAfter="{end}" Recipient="{recipient}"{in_response_to}/></saml:SubjectConfirmation></saml:Subject>'
        f'<saml:Conditions NotBefore="{start_at}" NotOnOrAfter="{end}"><saml:AudienceRestriction><saml:Audience>'
        f"{audience}</saml:Audience></saml:AudienceRestriction></saml:Conditions>"
        f'<saml:AuthnStatement AuthnInstant="{at}" SessionIndex="{index}"><saml:AuthnContext>'
        f"<saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>"
        + (f"<saml:AttributeStatement>{statements}</saml:AttributeStatement>" if statements else "")
        + "</saml:Assertion>"
    )
    if signed_by:
        key, certificate = key_and_certificate(signed_by)
        signed = OneLogin_Saml2_Utils.add_sign(assertion, key, certificate, **algorithms)
        assertion = signed.decode() if isinstance(signed, bytes) else signed
    response_to = f' InResponseTo="{request_id}"' if request_id else ""
    return (
        f'<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ID="_{uuid4()}" Version="2.0" '
        f'IssueInstant="{at}" Destination="{destination}"{response_to}>'
        f'<saml:Issuer xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion">{issuer}</saml:Issuer>'
        f'<samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:{status}"/></samlp:Status>'
        f"{assertion}</samlp:Response>"
    )


def encrypt(xml: str, reader: str = "console", transport: str = "RSA_OAEP") -> str:
    """Return the answer with its assertion encrypted for the certificate of `reader`."""
    import xmlsec
    from lxml import etree

    root = etree.fromstring(xml.encode())
    assertion = root.find("{urn:oasis:names:tc:SAML:2.0:assertion}Assertion")
    manager = xmlsec.KeysManager()
    manager.add_key(xmlsec.Key.from_memory(key_and_certificate(reader)[1], xmlsec.KeyFormat.CERT_PEM, None))
    data = xmlsec.template.encrypted_data_create(
        root, xmlsec.Transform.AES256, type=xmlsec.EncryptionType.ELEMENT, ns="xenc"
    )
    xmlsec.template.encrypted_data_ensure_cipher_value(data)
    key = xmlsec.template.add_encrypted_key(
        xmlsec.template.encrypted_data_ensure_key_info(data, ns="dsig"), getattr(xmlsec.Transform, transport)
    )
    xmlsec.template.encrypted_data_ensure_cipher_value(key)
    context = xmlsec.EncryptionContext(manager)
    context.key = xmlsec.Key.generate(xmlsec.KeyData.AES, 256, xmlsec.KeyDataType.SESSION)
    data = context.encrypt_xml(data, assertion)
    wrapper = etree.Element("{urn:oasis:names:tc:SAML:2.0:assertion}EncryptedAssertion")
    root.replace(data, wrapper)
    wrapper.append(data)
    return etree.tostring(root).decode()


def logout_message(
    kind: str,
    content: str,
    *,
    issuer: str = ISSUER,
    destination: str = SLO,
    minutes: int = 0,
    signed_by: str = "idp",
    relay_state: str = "r 1",
    to: str = "",
) -> str:
    """Return the query with a signed logout message. kind: `Request` or `Response`."""
    at = (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    destination = f' Destination="{destination}"' if destination else ""
    xml = (
        f'<samlp:Logout{kind} xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" '
        f'xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_{uuid4()}" Version="2.0" IssueInstant="{at}"{destination}'
        f"{to}><saml:Issuer>{issuer}</saml:Issuer>{content}</samlp:Logout{kind}>"
    )
    deflate = zlib.compressobj(wbits=-15)
    message = base64.b64encode(deflate.compress(xml.encode()) + deflate.flush()).decode()
    query = urlencode({f"SAML{kind}": message, "RelayState": relay_state, "SigAlg": SHA256["sign_algorithm"]})
    if not signed_by:
        return query
    key = serialization.load_pem_private_key(key_and_certificate(signed_by)[0].encode(), None)
    signature = key.sign(query.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{query}&{urlencode({'Signature': base64.b64encode(signature).decode()})}"


def logout_request(name_id: str, *indexes: str, **false_values) -> str:
    """Return the query with a request to end these sessions of a user; all sessions without indexes."""
    return logout_message(
        "Request",
        f"<saml:NameID>{escape(name_id)}</saml:NameID>"
        + "".join(f"<samlp:SessionIndex>{index}</samlp:SessionIndex>" for index in indexes),
        **false_values,
    )


def logout_response(request_id: str, status: str = "Success", **false_values) -> str:
    """Return the query with the response to a request of the console."""
    code = f'<samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:{status}"/></samlp:Status>'
    return logout_message("Response", code, to=f' InResponseTo="{request_id}"', **false_values)


def received_message(url: str, kind: str) -> ElementTree.Element:
    """Return the message of the console in a URL of the provider, after verifying its signature."""
    address, _, query = url.partition("?")
    assert address == SLO_URL, url
    parameters = parse_qs(query, keep_blank_values=True)
    certificate = x509.load_pem_x509_certificate(key_and_certificate("console")[1].encode())
    signed = "&".join(
        part
        for name in (f"SAML{kind}", "RelayState", "SigAlg")
        for part in query.split("&")
        if part.startswith(f"{name}=")
    )
    certificate.public_key().verify(
        base64.b64decode(parameters["Signature"][0]), signed.encode(), padding.PKCS1v15(), hashes.SHA256()
    )
    return ElementTree.fromstring(zlib.decompress(base64.b64decode(parameters[f"SAML{kind}"][0]), -15))


def send(client: Client, xml: str):
    """Send an answer as the page that repeats it does."""
    return client.post(
        "/sign-in/staff/acs", {"SAMLResponse": base64.b64encode(xml.encode()).decode(), "repeated": "yes"}
    )


def sign_in(
    client: Client,
    name_id: str,
    attributes: dict | None = None,
    *,
    path: str = "/sign-in/staff",
    **false_values,
):
    return send(client, answer(start(client, path), name_id, attributes, **false_values))
