"""SAML single logout, started by the console and by the provider; and encrypted assertions."""

import json
from urllib.parse import quote

import pytest
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ImproperlyConfigured

from authzconsole.models import AccountSession, SecurityEvent
from authzconsole.settings.sign_in import saml_providers
from grants.models import User
from tests.support.pages import page_html
from tests.support.saml_provider import (
    SLO_URL,
    answer,
    configure_saml,
    console_keys,
    encrypted,
    key_and_certificate,
    logout_request,
    logout_response,
    received_message,
    send,
    sign_in,
    start,
)

NAMES = {"p": "urn:oasis:names:tc:SAML:2.0:protocol", "a": "urn:oasis:names:tc:SAML:2.0:assertion"}


@pytest.fixture
def saml(cast, settings):
    """The settings name the provider `staff` with single logout; saml(option=...) changes its options."""
    User.objects.filter(username="ned").update(password=make_password(None))

    def configure(**options):
        configure_saml(
            settings, **{"link_existing": "without-password", "slo_url": SLO_URL, **console_keys(), **options}
        )

    configure()
    return configure


@pytest.fixture
def signed_in(browse, saml):
    """Return a new browser in which ned has signed in. index: of the session at the provider."""

    def sign_in_with(index: str = "1"):
        client = browse()
        assert sign_in(client, "ned", index=index).status_code == 302
        return client

    return sign_in_with


def is_signed_in(client) -> bool:
    return client.get("/my-access").status_code == 200


def slo(client, query: str):
    return client.get(f"/sign-in/staff/slo?{query}")


def test_signing_out_of_the_console_continues_at_the_provider(signed_in):
    client = signed_in("s-1")
    page = page_html(client.post("/sign-out"))
    assert not is_signed_in(client)
    url = page.partition('http-equiv="refresh" content="0; url=')[2].partition('"')[0].replace("&amp;", "&")
    request = received_message(url, "Request")
    assert [request.findtext(name, namespaces=NAMES) for name in ("a:NameID", "p:SessionIndex")] == [
        "ned",
        "s-1",
    ]
    response = slo(client, logout_response(request.attrib["ID"]))
    assert (response.status_code, response["Location"]) == (303, "/sign-in")
    refused = slo(client, logout_response(request.attrib["ID"], "Responder"))
    assert refused.status_code == 400 and "You may still be signed in there" in page_html(refused)


def test_a_provider_without_single_logout_ends_the_session_of_the_console_only(signed_in, saml):
    client = signed_in()
    saml(slo_url="")
    assert client.post("/sign-out")["Location"] == "/sign-in" and not is_signed_in(client)
    assert slo(client, logout_request("ned")).status_code == 404


def test_the_provider_ends_the_named_sessions_without_a_cookie(signed_in, browse):
    first, second = signed_in("s-1"), signed_in("s-2")
    response = slo(browse(), logout_request("ned", "s-1"))
    message = received_message(response["Location"], "Response")
    assert message.find("p:Status/p:StatusCode", NAMES).attrib["Value"].endswith(":Success")
    assert not is_signed_in(first) and is_signed_in(second)
    event = SecurityEvent.objects.filter(kind="sign-out").latest("pk")
    assert (event.account, event.detail) == ("ned", "staff ended 1 session")
    slo(browse(), logout_request("ned"))
    assert not is_signed_in(second)


def test_other_users_and_other_sessions_of_the_account_stay(signed_in, browse):
    by_password, client = browse("ada"), signed_in()
    slo(browse(), logout_request("ada"))
    slo(browse(), logout_request("ned", "another"))
    assert is_signed_in(by_password) and is_signed_in(client)
    assert (
        AccountSession.objects.filter(provider_name="").exclude(account=None).get().account.username == "ada"
    )


LIES = {
    "not signed": {"signed_by": ""},
    "signed by another key": {"signed_by": "mallory"},
    "old": {"minutes": -10},
    "from the future": {"minutes": 10},
    "another issuer": {"issuer": "https://elsewhere.example"},
    "for another service": {"destination": "https://elsewhere.example/slo"},
    "without a destination": {"destination": ""},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_false_request_ends_no_session(signed_in, browse, lie):
    client = signed_in()
    assert slo(browse(), logout_request("ned", **LIES[lie])).status_code == 400 and is_signed_in(client)


def test_the_attack_a_second_message_beside_the_signed_one_is_refused(signed_in, browse):
    client = signed_in()
    signed, forged = logout_request("someone"), logout_request("ned", signed_by="").split("&")[0]
    for extra in (
        forged,
        forged.replace("SAMLRequest", "SAMLReques%74"),
        forged.replace("SAMLRequest", "SAML%52equest"),
    ):
        assert slo(browse(), f"{signed}&{extra}").status_code == 400
        assert slo(browse(), f"{extra}&{signed}").status_code == 400
    assert is_signed_in(client)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "SAMLRequest=",
        "SAMLRequest=x",
        "SAMLResponse=%00",
        "SAMLRequest=" + "A" * 9_000,
        "SAMLRequest=" + quote("7cGBAAAAAMMgzfmDHgQ=") + "&SAMLResponse=x",
        "x=1",
    ],
)
def test_malformed_messages_get_a_page(browse, saml, query):
    assert slo(browse(), query).status_code == 400


def test_a_message_that_is_large_when_it_is_decompressed_is_refused(browse, saml):
    assert slo(browse(), logout_request("n" * 500_000)).status_code == 400


@pytest.mark.parametrize("needed", ["accepted", "required"])
def test_an_encrypted_assertion_signs_in(browse, saml, needed):
    saml(encrypted_assertions=needed)
    client = browse()
    assert send(client, encrypted(answer(start(client), "ned"))).status_code == 302 and is_signed_in(client)


def test_an_assertion_in_clear_text_is_refused_if_encryption_is_required(browse, saml):
    saml(encrypted_assertions="required")
    client = browse()
    assert sign_in(client, "ned").status_code == 502 and not is_signed_in(client)


def test_faults_of_encrypted_answers_look_alike(browse, saml):
    answers = [
        lambda number: encrypted(answer(number, "ned"), reader="another"),
        lambda number: encrypted(answer(number, "ned", signed_by="")),
        lambda number: encrypted(answer(number, "ned", signed_by="mallory")),
        lambda number: encrypted(answer(number, "ned", minutes=-30)),
        lambda number: encrypted(answer(number, "ned")).replace("CipherValue>", "CipherValue>AAAA", 1),
    ]
    for wrong in answers:
        client = browse()
        response = send(client, wrong(start(client)))
        assert response.status_code == 502 and "sends an encrypted answer that is not accepted" in page_html(
            response
        )
        assert not is_signed_in(client)


def test_weak_encryption_is_refused(browse, saml):
    client = browse()
    response = send(client, encrypted(answer(start(client), "ned"), transport="RSA_PKCS1"))
    assert response.status_code == 502 and "not secure" in page_html(response) and not is_signed_in(client)


def test_the_metadata_has_the_logout_and_the_certificate_for_signing_and_encryption(browse, saml):
    metadata = browse().get("/sign-in/staff/metadata").content.decode()
    assert 'Location="http://testserver/sign-in/staff/slo"' in metadata
    assert 'use="signing"' in metadata and 'use="encryption"' in metadata


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"slo_url": SLO_URL}, "`slo_url` needs `console_key_file`"),
        ({"encrypted_assertions": "required"}, "`encrypted_assertions` needs"),
        ({"encrypted_assertions": "off"}, "must be one of"),
        ({"slo_url": "http://idp.corp.example/slo", **console_keys()}, "must start with https://"),
        ({"console_key": "x"}, "belong together"),
        ({**console_keys(), "console_key": "x"}, "must be a private key"),
        ({**console_keys(), "console_key": key_and_certificate("another")[0]}, "must be the RSA key of"),
    ],
)
def test_invalid_options_are_refused(options, sentence):
    known = {
        "issuer": "https://idp",
        "sso_url": "https://idp/sso",
        "certificate": key_and_certificate("idp")[1],
    }
    with pytest.raises(ImproperlyConfigured, match=sentence) as error:
        saml_providers({"SAML_PROVIDERS": json.dumps({"staff": known | options})})
    assert "PRIVATE KEY-----" not in str(error.value)
