"""Sign-in through SAML, with signed answers of an identity provider."""

import json
import re

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ImproperlyConfigured

from authzconsole.settings import sign_in as sign_in_settings
from authzconsole.settings.sign_in import saml_providers
from grants.models import JournalLine, Role, User
from tests.support.browsers import account_name
from tests.support.factors import add_app
from tests.support.pages import page_html
from tests.support.saml_provider import (
    SHA1,
    answer,
    configure_saml,
    key_and_certificate,
    send,
    sign_in,
    start,
)


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


def test_a_signed_answer_signs_in_and_continues_to_the_requested_page(browse, saml):
    client = browse()
    assert "Sign in with Staff" in page_html(client.get("/sign-in"))
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


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"certificate": ""}, "has no `certificate`"),
        ({"sso_url": "http://idp.corp.example"}, "must start with https://"),
        ({"certificate_file": "/nowhere"}, "cannot be read"),
        ({"scopes": "x"}, "`scopes` is not an option"),
    ],
)
def test_invalid_options_are_refused(change, sentence):
    options = {
        "issuer": "https://idp",
        "sso_url": "https://idp/sso",
        "certificate": key_and_certificate("idp")[1],
    } | change
    with pytest.raises(ImproperlyConfigured, match=sentence):
        saml_providers({"SAML_PROVIDERS": json.dumps({"staff": options})})


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(sign_in_settings, "IS_SAML_INSTALLED", False)
    with pytest.raises(ImproperlyConfigured, match=r"install the extra `saml`"):
        saml_providers({"SAML_ISSUER": "https://idp"})
    assert saml_providers({}) == {}
