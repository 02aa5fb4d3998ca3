"""Sign-in through SAML, with signed and encrypted answers of an identity provider; and single logout."""

import json
import re
from urllib.parse import quote

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ImproperlyConfigured

from authzconsole.models import AccountSession, SecurityEvent
from authzconsole.settings import sign_in as sign_in_settings
from authzconsole.settings.sign_in import saml_providers
from grants.models import JournalLine, Role, User
from tests.support.browsers import account_name
from tests.support.factors import add_app
from tests.support.pages import page_html
from tests.support.saml_provider import (
    SHA1,
    SLO_URL,
    answer,
    configure_saml,
    console_keys,
    encrypt,
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
    """The settings name the provider `staff`; saml(option=...) changes its options. ned has no password and
    may be linked.
    """
    User.objects.filter(username="ned").update(password=make_password(None))

    def configure(**options):
        configure_saml(settings, **{"link_existing": "without-password", **options})

    configure()
    return configure


@pytest.fixture
def logout(saml):
    """The settings name the provider with single logout; logout(option=...) changes its options."""

    def configure(**options):
        saml(**{"slo_url": SLO_URL, **console_keys(), **options})

    configure()
    return configure


def test_a_signed_answer_signs_in_and_continues_to_the_requested_page(browse, saml):
    client = browse()
    assert "Sign in with Staff" in client.html("/sign-in")
    response = sign_in(client, "ned", path="/sign-in/staff?next=/ask")
    assert (response.status_code, response["Location"], account_name(client)) == (302, "/ask", "ned"), (
        response.content
    )
    line = JournalLine.objects.order_by("-revision").first()
    assert (line.actor, line.action, line.detail) == (
        "sign-in",
        "identity-link",
        "provider: staff, subject: ned",
    )
    assert SocialAccount.objects.get().extra_data == {}


def test_the_form_of_the_provider_is_repeated_from_this_site(browse, saml):
    client = browse()
    xml = answer(start(client), "ned")
    response = client.post("/sign-in/staff/acs", {"SAMLResponse": "abc<>"})
    page = page_html(response)
    assert response.status_code == 200 and 'value="abc&lt;&gt;"' in page and 'name="repeated"' in page
    assert send(client, xml).status_code == 302


def test_attributes_decide_role_name_and_email(browse, saml):
    saml(
        unknown_users="create",
        subject_attribute="employee",
        name_claim="login",
        role_claim="groups",
        roles={"audit": "auditor"},
    )
    client = browse()
    sign_in(
        client,
        "a-transient-one",
        {"employee": ["e-7"], "login": ["newcomer"], "groups": ["x", "audit"], "mail": ["n@corp.example"]},
        format="urn:oasis:names:tc:SAML:2.0:nameid-format:transient",
    )
    user = User.objects.get(username="newcomer")
    assert (user.role, user.email, user.is_principal) == (Role.AUDITOR, "n@corp.example", False)
    assert SocialAccount.objects.get(user=user).uid == "e-7" and account_name(client) == "newcomer"


def test_an_identity_cannot_take_over_an_account_by_sending_its_name(browse, saml):
    client = browse()
    assert sign_in(client, "ada").status_code == 403 and account_name(client) == ""


LIES = {
    "not signed": {"signed_by": ""},
    "signed by another key": {"signed_by": "mallory"},
    "signed with SHA-1": {"algorithms": SHA1},
    "another audience": {"audience": "https://elsewhere.example/metadata"},
    "another recipient": {"recipient": "https://elsewhere.example/acs"},
    "another destination": {"destination": "https://elsewhere.example/acs"},
    "another issuer": {"issuer": "https://elsewhere.example"},
    "expired": {"minutes": -30},
    "not valid yet": {"minutes": 30},
    "another request": {"confirms": "ONELOGIN_0000"},
    "refused by the provider": {"status": "Responder"},
    "a transient name": {"format": "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_false_answer_is_refused(browse, saml, lie):
    client = browse()
    response = sign_in(client, "ned", **LIES[lie])
    assert response.status_code == 502 and account_name(client) == "" and not SocialAccount.objects.exists()
    assert "Try again with Staff" in page_html(response)


def test_a_changed_answer_is_refused(browse, saml):
    client = browse()
    xml = answer(start(client), "ned").replace(">ned<", ">ada<")
    assert send(client, xml).status_code == 502 and account_name(client) == ""


def test_an_unsigned_assertion_beside_the_signed_one_is_refused(browse, saml):
    client = browse()
    request_id = start(client)
    signed, forged = answer(request_id, "ned"), answer(request_id, "ada", signed_by="")
    assertion = re.search(r"<saml:Assertion.*</saml:Assertion>", forged, re.DOTALL)[0]
    assert send(client, signed.replace("</samlp:Status>", f"</samlp:Status>{assertion}")).status_code == 502
    assert account_name(client) == ""


def _parts(client):
    """Return a signed answer about ned, its assertion, and a forged assertion about ada with the same id."""
    request_id = start(client)
    signed, forged = answer(request_id, "ned"), answer(request_id, "ada", signed_by="")
    assertion, evil = (
        re.search(r"<saml:Assertion.*</saml:Assertion>", xml, re.DOTALL)[0] for xml in (signed, forged)
    )
    same_id = re.search(r'ID="([^"]+)"', assertion)[1]
    return signed, assertion, re.sub(r'ID="[^"]+"', f'ID="{same_id}"', evil, count=1)


def _signature(assertion):
    return re.search(r"<(?:\w+:)?Signature .*</(?:\w+:)?Signature>", assertion, re.DOTALL)[0]


def _in_signature(evil, assertion):
    """Put the signed assertion, without its signature, into an object of a copy of the signature."""
    signature = _signature(assertion)
    tag = re.match(r"<((?:\w+:)?)Signature", signature)[1]
    inner = signature.replace(
        f"</{tag}Signature>",
        f"<{tag}Object>{assertion.replace(signature, '')}</{tag}Object></{tag}Signature>",
    )
    return evil.replace("</saml:Issuer>", f"</saml:Issuer>{inner}", 1)


# the forged assertion, the signed one: what replaces the signed one in the answer
WRAPPINGS = {
    "the forged one before the signed one": lambda evil, good: evil + good,
    "the forged one after the signed one": lambda evil, good: good + evil,
    "the signed one inside the forged one": lambda evil, good: evil.replace(
        "</saml:Assertion>", f"{good}</saml:Assertion>"
    ),
    "the signed one in the subject of the forged one": lambda evil, good: evil.replace(
        "</saml:Subject>", f"</saml:Subject><saml:Advice>{good}</saml:Advice>"
    ),
    "the forged one inside the signed one": lambda evil, good: good.replace(
        "</saml:Assertion>", f"{evil}</saml:Assertion>"
    ),
    "the signed one in an extension": lambda evil, good: (
        f'<samlp:Extensions xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol">{good}</samlp:Extensions>{evil}'
    ),
    "the signed one in the signature of the forged one": _in_signature,
    "the signature moved to the forged one": lambda evil, good: (
        evil.replace("</saml:Issuer>", f"</saml:Issuer>{_signature(good)}", 1)
        + good.replace(_signature(good), "")
    ),
    "no signature": lambda evil, good: good.replace(_signature(good), ""),
    "an empty signature": lambda evil, good: re.sub(r"(SignatureValue>)[^<]+", r"\1", good),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("has_same_id", [True, False])
def test_the_attack_a_signature_wrapping_signs_nobody_in(browse, saml, wrapping, has_same_id):
    client = browse()
    signed, assertion, evil = _parts(client)
    if not has_same_id:
        evil = re.sub(r'ID="[^"]+"', 'ID="_forged"', evil, count=1)
    xml = signed.replace(assertion, WRAPPINGS[wrapping](evil, assertion))
    assert xml != signed
    response = send(client, xml)
    assert response.status_code == 502 and account_name(client) == "", wrapping
    assert not SocialAccount.objects.filter(uid="ada").exists()


@pytest.mark.parametrize("noise", ["<!-- x -->", "<?x y?>", "<![CDATA[]]>"])
def test_the_attack_a_comment_in_a_name_does_not_shorten_it(browse, saml, noise):
    """The signature covers a form of the document without comments, and some parsers end a text at one."""
    client = browse()
    xml = answer(start(client), "ned.evil.example").replace(">ned.evil", f">ned{noise}.evil")
    response = send(client, xml)
    assert account_name(client) != "ned" and not SocialAccount.objects.filter(uid="ned").exists(), response


def test_the_attack_an_external_entity_is_not_read(browse, saml, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("ned")
    client = browse()
    xml = answer(start(client), "ned")
    doctype = f'<!DOCTYPE r [<!ENTITY x SYSTEM "file://{secret}">]>'
    assert send(client, doctype + xml.replace(">ned<", ">&x;<")).status_code == 502
    assert account_name(client) == ""


def test_the_attack_the_e_mail_of_an_identity_takes_over_no_account(browse, saml, cast):
    User.objects.filter(username="ada").update(email="ada@corp.example")
    client = browse()
    for attributes in ({"mail": ["ada@corp.example"]}, {"email": ["ada@corp.example"]}):
        sign_in(client, "mallory", attributes)
        assert account_name(client) in ("", "mallory")
    assert not SocialAccount.objects.filter(user__username="ada").exists()


def test_an_answer_is_accepted_once_and_only_in_its_own_browser(browse, saml):
    client, victim = browse(), browse()
    xml = answer(start(client), "ned")
    assert send(victim, xml).status_code == 400 and account_name(victim) == ""
    assert send(client, xml).status_code == 302
    client.post("/sign-out")
    assert send(client, xml).status_code == 400 and account_name(client) == ""


def test_an_assertion_is_not_accepted_as_the_answer_to_another_request(browse, saml):
    client = browse()
    first = start(client)
    xml = answer(first, "ned", confirms="")
    assert send(client, xml).status_code == 302
    thief = browse()
    response = send(thief, xml.replace(first, start(thief)))
    assert response.status_code == 502 and "used before" in page_html(response) and account_name(thief) == ""


def test_a_sign_in_that_the_console_did_not_start_is_refused(browse, saml):
    client = browse()
    assert send(client, answer("", "ned", confirms="")).status_code == 400 and account_name(client) == ""


@pytest.mark.parametrize(
    "xml", ["", "x", "<a/>", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "<a>" * 2000, "\x00"]
)
def test_malformed_answers_get_a_page(browse, saml, xml):
    assert send(browse(), xml).status_code == 502


def test_an_answer_that_is_no_base64_gets_a_page(browse, saml):
    assert (
        browse().post("/sign-in/staff/acs", {"SAMLResponse": "\N{SNOWMAN}", "repeated": "yes"}).status_code
        == 502
    )
    assert browse().post("/sign-in/staff/acs", {"repeated": "yes"}).status_code == 502


def test_the_second_factor_is_asked_after_the_provider(browse, saml, cast):
    add_app(cast["ned"])
    client = browse()
    assert sign_in(client, "ned")["Location"] == "/sign-in/second-factor" and account_name(client) == ""


def test_the_metadata_names_the_address_for_answers(browse, saml):
    response = browse().get("/sign-in/staff/metadata")
    assert (
        response.status_code == 200 and b'Location="http://testserver/sign-in/staff/acs"' in response.content
    )


def test_urls_of_another_protocol_or_provider_do_not_exist(browse, saml):
    for path in ("/sign-in/staff/callback", "/sign-in/nowhere", "/sign-in/nowhere/metadata"):
        assert browse().get(path).status_code == 404, path
    assert browse().post("/sign-in/nowhere/acs").status_code == 404


@pytest.fixture
def signed_in(browse, logout):
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


def test_a_provider_without_single_logout_ends_the_session_of_the_console_only(signed_in, logout):
    client = signed_in()
    logout(slo_url="")
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


LOGOUT_LIES = {
    "not signed": {"signed_by": ""},
    "signed by another key": {"signed_by": "mallory"},
    "old": {"minutes": -10},
    "from the future": {"minutes": 10},
    "another issuer": {"issuer": "https://elsewhere.example"},
    "for another service": {"destination": "https://elsewhere.example/slo"},
    "without a destination": {"destination": ""},
}


@pytest.mark.parametrize("lie", LOGOUT_LIES)
def test_a_false_request_ends_no_session(signed_in, browse, lie):
    client = signed_in()
    assert slo(browse(), logout_request("ned", **LOGOUT_LIES[lie])).status_code == 400 and is_signed_in(
        client
    )


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
def test_malformed_messages_get_a_page(browse, logout, query):
    assert slo(browse(), query).status_code == 400


def test_a_message_that_is_large_when_it_is_decompressed_is_refused(browse, logout):
    assert slo(browse(), logout_request("n" * 500_000)).status_code == 400


@pytest.mark.parametrize("needed", ["accepted", "required"])
def test_an_encrypted_assertion_signs_in(browse, logout, needed):
    logout(encrypted_assertions=needed)
    client = browse()
    assert send(client, encrypt(answer(start(client), "ned"))).status_code == 302 and is_signed_in(client)


def test_an_assertion_in_clear_text_is_refused_if_encryption_is_required(browse, logout):
    logout(encrypted_assertions="required")
    client = browse()
    assert sign_in(client, "ned").status_code == 502 and not is_signed_in(client)


def test_faults_of_encrypted_answers_look_alike(browse, logout):
    answers = [
        lambda number: encrypt(answer(number, "ned"), reader="another"),
        lambda number: encrypt(answer(number, "ned", signed_by="")),
        lambda number: encrypt(answer(number, "ned", signed_by="mallory")),
        lambda number: encrypt(answer(number, "ned", minutes=-30)),
        lambda number: encrypt(answer(number, "ned")).replace("CipherValue>", "CipherValue>AAAA", 1),
    ]
    for wrong in answers:
        client = browse()
        response = send(client, wrong(start(client)))
        assert response.status_code == 502 and "sends an encrypted answer that is not accepted" in page_html(
            response
        )
        assert not is_signed_in(client)


def test_weak_encryption_is_refused(browse, logout):
    client = browse()
    response = send(client, encrypt(answer(start(client), "ned"), transport="RSA_PKCS1"))
    assert response.status_code == 502 and "not secure" in page_html(response) and not is_signed_in(client)


def test_the_metadata_has_the_logout_and_the_certificate_for_signing_and_encryption(browse, logout):
    metadata = browse().get("/sign-in/staff/metadata").content.decode()
    assert 'Location="http://testserver/sign-in/staff/slo"' in metadata
    assert 'use="signing"' in metadata and 'use="encryption"' in metadata


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"certificate": ""}, "has no `certificate`"),
        ({"sso_url": "http://idp.corp.example"}, "must start with https://"),
        ({"certificate_file": "/nowhere"}, "cannot be read"),
        ({"scopes": "x"}, "`scopes` is not an option"),
        ({"slo_url": SLO_URL}, "`slo_url` needs `console_key_file`"),
        ({"encrypted_assertions": "required"}, "`encrypted_assertions` needs"),
        ({"encrypted_assertions": "off"}, "must be one of"),
        ({"slo_url": "http://idp.corp.example/slo", **console_keys()}, "must start with https://"),
        ({"console_key": "x"}, "belong together"),
        ({**console_keys(), "console_key": "x"}, "must be a private key"),
        ({**console_keys(), "console_key": key_and_certificate("another")[0]}, "must be the RSA key of"),
    ],
)
def test_invalid_options_are_refused(change, sentence):
    options = {
        "issuer": "https://idp",
        "sso_url": "https://idp/sso",
        "certificate": key_and_certificate("idp")[1],
    } | change
    with pytest.raises(ImproperlyConfigured, match=sentence) as error:
        saml_providers({"SAML_PROVIDERS": json.dumps({"staff": options})})
    assert "PRIVATE KEY-----" not in str(error.value)


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(sign_in_settings, "IS_SAML_INSTALLED", False)
    with pytest.raises(ImproperlyConfigured, match=r"install the extra `saml`"):
        saml_providers({"SAML_ISSUER": "https://idp"})
    assert saml_providers({}) == {}
