"""Sign-in with a passkey in place of the password and the second factor, with a passkey that needs no device."""

import hashlib
import json
import os
import re
from html import unescape

import pytest
from allauth.mfa.models import Authenticator
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.contrib.auth.hashers import make_password
from django.test import Client
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import (
    Aaguid,
    AttestationObject,
    AttestedCredentialData,
    AuthenticatorData,
    CollectedClientData,
)

from authzconsole.models import SecurityEvent
from grants.models import User
from tests.support.browsers import account_name
from tests.support.pages import page_html

HOST = "testserver"


class SoftPasskey:
    """A passkey of one account at https://testserver.

    origin, host, counter: what the browser and the passkey say, which an attack changes.
    """

    def __init__(self) -> None:
        self.id, self.key, self.user_handle = os.urandom(16), ec.generate_private_key(ec.SECP256R1()), b""
        self.origin, self.host, self.counter = f"https://{HOST}", HOST, 0

    def register(self, client: Client, *, verified: bool = True):
        """Add the passkey to the account of the client. verified: as for `sign_in`."""
        page = client.get("/second-factor/passkey", secure=True).content.decode()
        options = json.loads(unescape(re.search(r'data-options="([^"]+)"', page)[1]))["publicKey"]
        passwordless = re.search(r'name="passwordless" value="(\w+)"', page)[1]
        self.user_handle = websafe_decode(options["user"]["id"])
        data = AttestedCredentialData.create(
            Aaguid.NONE, self.id, ES256.from_cryptography_key(self.key.public_key())
        )
        attestation = AttestationObject.create(
            "none", self._authenticator_data(verified=verified, credential=data), {}
        )
        response = {
            "attestationObject": websafe_encode(attestation),
            "clientDataJSON": websafe_encode(self._client_data("webauthn.create", options)),
        }
        return client.post(
            "/second-factor/passkey",
            {"credential": self._credential(response), "name": "Laptop", "passwordless": passwordless},
            secure=True,
        )

    def sign_in(self, client: Client, *, verified: bool = True, **form: str):
        """Sign in with the passkey alone. verified: whether it asked its user for the PIN or the fingerprint."""
        options = self.challenge(client)["request_options"]["publicKey"]
        client_data, data = (
            self._client_data("webauthn.get", options),
            self._authenticator_data(verified=verified),
        )
        signature = self.key.sign(data + hashlib.sha256(client_data).digest(), ec.ECDSA(hashes.SHA256()))
        response = {
            "authenticatorData": websafe_encode(data),
            "clientDataJSON": websafe_encode(client_data),
            "signature": websafe_encode(signature),
            "userHandle": websafe_encode(self.user_handle),
        }
        return client.post(
            "/sign-in/passkey", {"credential": self._credential(response), **form}, secure=True
        )

    def challenge(self, client: Client) -> dict:
        """Return the options for the browser, as the script of the page fetches them."""
        headers = {"X-Requested-With": "XMLHttpRequest"}
        return client.get("/sign-in/passkey", headers=headers, secure=True).json()

    def _authenticator_data(self, *, verified: bool, credential: bytes = b"") -> AuthenticatorData:
        flags = AuthenticatorData.FLAG.UP | (AuthenticatorData.FLAG.UV if verified else 0)
        flags |= AuthenticatorData.FLAG.AT if credential else 0
        return AuthenticatorData.create(
            hashlib.sha256(self.host.encode()).digest(), flags, self.counter, credential
        )

    def _client_data(self, kind: str, options: dict) -> CollectedClientData:
        return CollectedClientData.create(kind, websafe_decode(options["challenge"]), self.origin)

    def _credential(self, response: dict) -> str:
        return json.dumps(
            {
                "id": websafe_encode(self.id),
                "rawId": websafe_encode(self.id),
                "type": "public-key",
                "clientExtensionResults": {},
                "response": response,
            }
        )


@pytest.fixture
def passkey(browse, cast, settings):
    """A passkey of ned, whose console role requires a second factor."""
    settings.PASSKEY_SIGN_IN, settings.MFA_REQUIRED_ROLES = True, ["ordinary"]
    passkey = SoftPasskey()
    assert "New recovery codes" in page_html(passkey.register(browse("ned")))
    return passkey


def test_a_passkey_replaces_the_password_and_the_second_factor(browse, passkey):
    client = browse()
    assert "Sign in with a passkey" in client.html("/sign-in", secure=True)
    response = passkey.sign_in(client, next="/my-access")
    assert (response.status_code, response["Location"], account_name(client)) == (302, "/my-access", "ned"), (
        response.content
    )
    assert client.get("/my-access", secure=True).status_code == 200
    assert SecurityEvent.objects.filter(kind="sign-in").latest("pk").account == "ned"


def test_other_sites_are_no_next_page(browse, passkey):
    assert passkey.sign_in(browse(), next="//evil.example/")["Location"] == "/"


def test_a_passkey_that_did_not_verify_its_user_is_refused(browse, passkey):
    client = browse()
    assert passkey.sign_in(client, verified=False).status_code == 400 and account_name(client) == ""


def test_a_new_passkey_that_replaces_the_password_must_verify_its_user(browse, passkey):
    other = SoftPasskey()
    response = other.register(browse("dee"), verified=False)
    assert response.status_code == 400 and "was not accepted" in page_html(response)
    assert not Authenticator.objects.filter(user__username="dee").exists()


def test_an_answer_counts_once_and_only_for_its_own_challenge(browse, passkey):
    client, answers = browse(), []
    post = client.post
    client.post = lambda path, data, **options: answers.append(data) or post(path, data, **options)
    assert passkey.sign_in(client).status_code == 302
    for thief in (client, browse()):
        post("/sign-out", secure=True)
        passkey.challenge(thief)
        assert type(thief).post(thief, "/sign-in/passkey", answers[0], secure=True).status_code == 400
        assert account_name(thief) == ""


def test_a_passkey_of_another_account_or_of_none_is_refused(browse, passkey, cast):
    client = browse()
    for handle in (b"", b"999999", b"x", str(cast["ada"].pk).encode()):
        passkey.user_handle = handle
        assert passkey.sign_in(client).status_code == 400 and account_name(client) == ""
    assert SecurityEvent.objects.filter(kind="sign-in-failure", detail__startswith="passkey: ").exists()


@pytest.mark.parametrize("change", ["inactive", "without a password", "expired password", "limited sign-in"])
def test_an_account_that_cannot_sign_in_with_a_password_cannot_use_a_passkey(
    browse, passkey, settings, change
):
    ned = User.objects.filter(username="ned")
    match change:
        case "inactive":
            ned.update(is_active=False)
        case "without a password":
            ned.update(password=make_password(None))
        case "expired password":
            ned.update(must_change_password=True, password_expires_at="2020-01-01T00:00:00Z")
        case "limited sign-in":
            settings.LOCAL_SIGN_IN, settings.BREAK_GLASS_ACCOUNTS = "break-glass", ["ada"]
    client = browse()
    response = passkey.sign_in(client)
    assert (
        response.status_code == 400
        and "cannot sign in with a passkey" in page_html(response)
        and account_name(client) == ""
    )


def test_the_setting_turns_sign_in_with_a_passkey_off(browse, passkey, settings):
    settings.PASSKEY_SIGN_IN = False
    assert browse().get("/sign-in/passkey").status_code == 404
    assert "passkey" not in browse().html("/sign-in")


def test_a_new_passkey_can_stay_a_second_factor(browse, passkey):
    client = browse("ada")
    assert '"residentKey": "required"' in client.html("/second-factor/passkey", secure=True).replace(
        "&quot;", '"'
    )
    page = client.html("/second-factor/passkey?use=second-factor", secure=True).replace("&quot;", '"')
    assert '"residentKey": "discouraged"' in page


@pytest.mark.parametrize(
    "credential",
    [
        "",
        "x",
        "[]",
        "{}",
        '{"response": 1}',
        '{"response": {"userHandle": 1}}',
        "x" * 30_000,
        "[" * 20_000,
        "9" * 20_000,
    ],
)
def test_malformed_answers_are_refused(browse, passkey, credential):
    client = browse()
    passkey.challenge(client)
    assert client.post("/sign-in/passkey", {"credential": credential}, secure=True).status_code == 400


def _claim_another_user(passkey):
    passkey.user_handle = websafe_encode(b"x").encode()


def _sign_with_another_key(passkey):
    passkey.key = ec.generate_private_key(ec.SECP256R1())


def _send_unknown_credential(passkey):
    passkey.id = os.urandom(16)


ATTACKS = {
    "a page of another origin": lambda passkey: setattr(passkey, "origin", "https://evil.example"),
    "a page of a sub-domain": lambda passkey: setattr(passkey, "origin", f"https://{HOST}.evil.example"),
    "a page without TLS": lambda passkey: setattr(passkey, "origin", f"http://{HOST}"),
    "a passkey of another site": lambda passkey: setattr(passkey, "host", "evil.example"),
    "another key": _sign_with_another_key,
    "an unknown credential": _send_unknown_credential,
    "the handle of an unknown user": _claim_another_user,
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_attack_a_forged_answer_signs_nobody_in(browse, passkey, attack):
    ATTACKS[attack](passkey)
    client = browse()
    assert passkey.sign_in(client).status_code == 400 and account_name(client) == ""


def test_the_attack_the_passkey_of_one_user_does_not_sign_in_another(browse, passkey):
    """The browser names the user, so dee could name ned."""
    own = SoftPasskey()
    assert "New recovery codes" in page_html(own.register(browse("dee")))
    own_id, own_handle = own.id, own.user_handle
    own.user_handle = passkey.user_handle
    client = browse()
    assert own.sign_in(client).status_code == 400 and account_name(client) == ""
    # the id of the credential of ned, signed by dee
    own.id = passkey.id
    assert own.sign_in(client).status_code == 400 and account_name(client) == ""
    own.id, own.user_handle = own_id, own_handle
    assert own.sign_in(client).status_code == 302 and account_name(client) == "dee"


def test_the_attack_a_registered_credential_cannot_be_added_to_another_account(browse, passkey):
    """Otherwise one could let another person sign in to one's own account, or shadow its passkey."""
    copy = SoftPasskey()
    copy.id = passkey.id
    copy.register(browse("dee"))
    client = browse()
    assert passkey.sign_in(client).status_code == 302 and account_name(client) == "ned"


def test_the_attack_a_copied_passkey_with_an_old_counter_is_refused(browse, passkey):
    """A passkey that counts its signatures never counts backwards; a copy of it does."""
    for counter, status in ((5, 302), (7, 302), (7, 400), (6, 400), (0, 400), (8, 302)):
        client = browse()
        passkey.counter = counter
        assert passkey.sign_in(client).status_code == status, counter
