"""The answer of a SAML provider in a real browser, which sends no session cookie with a form of another site."""

import base64
import zlib
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest

from tests.support.saml_provider import SSO_URL, answer, configure_saml

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_form_of_the_provider_signs_in(cast, chromium, live_server, settings):
    configure_saml(settings, link_existing="always")
    base = f"{live_server.url}/sign-in/staff"
    context = chromium.new_context(base_url=live_server.url)
    page, faults = context.new_page(), []
    page.on(
        "console", lambda message: faults.append(message.text) if "Content Security" in message.text else None
    )

    def respond(route):
        request = base64.b64decode(parse_qs(urlsplit(route.request.url).query)["SAMLRequest"][0])
        request_id = ElementTree.fromstring(zlib.decompress(request, -15)).attrib["ID"]
        xml = answer(
            request_id, "ned", audience=f"{base}/metadata", recipient=f"{base}/acs", destination=f"{base}/acs"
        )
        value = base64.b64encode(xml.encode()).decode()
        route.fulfill(
            content_type="text/html",
            body=f'<form method="post" action="{base}/acs"><input name="SAMLResponse" '
            f'value="{value}"><button>Answer</button></form>',
        )

    page.route(f"{SSO_URL}**", respond)
    page.goto("/sign-in?next=/ask")
    page.get_by_role("link", name="Sign in with Staff").click()
    page.get_by_role("button", name="Answer").click()
    page.wait_for_url("/ask")
    assert page.locator(".account-name").first.text_content() == "ned"
    context.close()
    assert faults == []
