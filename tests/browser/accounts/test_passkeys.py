"""Passkeys in a real browser, with the virtual authenticator of Chromium."""

import pytest
from allauth.mfa.models import Authenticator

from authzconsole.models import SecurityEvent
from grants.models import JournalLine
from tests.support.cast import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


def add_authenticator(page) -> tuple:
    """Add a virtual authenticator to the browser page.

    Return the connection and the id of the authenticator.
    """
    connection = page.context.new_cdp_session(page)
    connection.send("WebAuthn.enable")
    return connection, connection.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})[
        "authenticatorId"
    ]


def add_passkey(page, name: str) -> None:
    page.goto("/second-factor/passkey")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Add passkey").click()
    page.get_by_text("New recovery codes").wait_for()


def sign_in_to_the_second_step(page) -> None:
    page.goto("/sign-in")
    # PASSKEY_SIGN_IN is off
    assert not page.get_by_text("passkey").count()
    page.get_by_label("User name").fill("ned")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("/sign-in/second-factor")


def test_a_passkey_is_added_and_then_needed_at_sign_in(cast, page_of):
    page = page_of("ned")
    connection, authenticator = add_authenticator(page)
    add_passkey(page, "Laptop")
    assert Authenticator.objects.get(type="webauthn").wrap().name == "Laptop"
    line = JournalLine.objects.filter(action="factor-add").first()
    assert (line.actor, line.detail) == ("ned", "passkey Laptop")
    page.context.clear_cookies()
    sign_in_to_the_second_step(page)
    page.goto("/")
    assert "/sign-in" in page.url
    sign_in_to_the_second_step(page)
    page.get_by_role("button", name="Use passkey").click()
    page.wait_for_url("/")
    # another authenticator does not have the passkey
    page.context.clear_cookies()
    connection.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": authenticator})
    connection.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    sign_in_to_the_second_step(page)
    page.get_by_role("button", name="Use passkey").click()
    page.get_by_text("The passkey was cancelled, or took too long.").wait_for()
    assert page.url.endswith("/sign-in/second-factor")


def test_a_passkey_signs_in_without_a_name_and_a_password(cast, page_of, settings):
    settings.PASSKEY_SIGN_IN, settings.MFA_REQUIRED_ROLES = True, ["ordinary"]
    page = page_of("ned")
    connection, authenticator = add_authenticator(page)
    add_passkey(page, "Phone")
    page.context.clear_cookies()
    page.goto("/sign-in?next=/my-access")
    page.get_by_role("link", name="Sign in with a passkey").click()
    page.get_by_role("button", name="Use passkey").click()
    page.wait_for_url("/my-access")
    assert (
        page.context.cookies() and SecurityEvent.objects.filter(kind="sign-in").latest("pk").account == "ned"
    )
    # without the PIN or the fingerprint of its user, the authenticator does not answer
    page.context.clear_cookies()
    connection.send("WebAuthn.setUserVerified", {"authenticatorId": authenticator, "isUserVerified": False})
    page.goto("/sign-in/passkey")
    page.get_by_role("button", name="Use passkey").click()
    page.get_by_text("The passkey was cancelled, or took too long.").wait_for()
    assert page.url.endswith("/sign-in/passkey")
