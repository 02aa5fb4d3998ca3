"""Authenticator apps and recovery codes: setting up, signing in, guesses, replays, required roles and resets."""

import io
import re
import time

import pytest
from allauth.mfa.models import Authenticator
from django.core.cache import caches
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from authzconsole.common.recent_authentication import TIME_KEY
from authzconsole.common.sign_in_methods import journalled_factors, reset_factors
from authzconsole.common.tokens import create_token
from authzconsole.models import SecurityEvent
from grants.errors import GrantError
from grants.journal import Author
from grants.models import JournalLine, User
from grants.principals.services import renew_user_password
from tests.support.browsers import is_signed_in
from tests.support.cast import PASSWORD, SETUP
from tests.support.factors import SECRET, add_app, code_at
from tests.support.pages import page_html

# the running provider uses deprecated functions of its libraries
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:authlib", "ignore:get_jwt_config:DeprecationWarning"
)


def set_up_app(client: Client) -> tuple[str, list[str]]:
    """Add an authenticator app to the account of the client. Return its secret and the recovery codes."""
    secret = re.search(
        r'<div class="secret"> <code>(\w+)</code>', page_html(client.get("/second-factor/app"))
    )[1]
    page = page_html(client.post("/second-factor/app", {"code": code_at(secret)}))
    return secret, [code.replace(" ", "") for code in re.findall(r"<li><code>([\d ]+)</code>", page)]


def send_password(client: Client, name: str = "ned", **form):
    return client.post("/sign-in", {"username": name, "password": PASSWORD, **form})


def send_code(client: Client, code: str):
    return client.post("/sign-in/second-factor", {"code": code})


def after_password(browse, name: str = "ned") -> Client:
    """Return a browser in which the password was sent."""
    client = browse()
    send_password(client, name)
    return client


def after_code(browse, code: str) -> Client:
    """Return a browser in which the password and the code of ned were sent."""
    client = after_password(browse)
    send_code(client, code)
    return client


def newest_lines(count: int) -> list[tuple]:
    lines = JournalLine.objects.order_by("-revision")[:count]
    return [(line.actor, line.action, line.principal, line.detail) for line in lines][::-1]


@pytest.fixture
def factor_of_ned(cast):
    """The secret of ned's authenticator app, which was last used a minute ago, and ned's recovery codes."""
    return SECRET, add_app(cast["ned"])


def test_an_app_is_added_with_recovery_codes_and_journal_lines(browse):
    client = browse("ned")
    secret, codes = set_up_app(client)
    assert len(set(codes)) == 10 and newest_lines(2) == [
        ("ned", "factor-add", "user:ned", "authenticator app"),
        ("ned", "factor-add", "user:ned", "recovery codes"),
    ]
    page = client.html("/second-factor")
    assert (
        "Authenticator app" in page
        and "10 unused codes are left" in page
        and "Add authenticator app" not in page
    )


def test_a_wrong_code_adds_no_app_and_keeps_the_secret(browse):
    client = browse("ned")
    secret = re.search(r"<code>(\w+)</code>", client.html("/second-factor/app"))[1]
    response = client.post(
        "/second-factor/app", {"code": "000000" if code_at(secret) != "000000" else "111111"}
    )
    assert (
        response.status_code == 400
        and secret in response.content.decode()
        and not Authenticator.objects.exists()
    )


def test_secrets_are_encrypted_in_the_database(factor_of_ned, settings):
    secret, codes = factor_of_ned
    stored = str(list(Authenticator.objects.values_list("data", flat=True)))
    assert secret not in stored and not any(code in stored for code in codes)
    totp = Authenticator.objects.get(type="totp")
    assert totp.wrap().validate_code(code_at(secret))
    settings.MFA_KEYS = ["k" * 32]
    assert totp.wrap().validate_code(code_at(secret, 1))


def test_without_its_key_a_factor_accepts_no_code_and_the_page_says_so(browse, factor_of_ned, settings):
    settings.SECRET_KEY = "another" * 10
    client = after_password(browse)
    response = send_code(client, code_at(factor_of_ned[0]))
    assert "lacks the key of your second factor" in page_html(response) and not is_signed_in(client)


def test_the_password_alone_does_not_sign_in(browse, factor_of_ned):
    client = browse()
    response = send_password(client, next="/ask")
    assert response["Location"] == "/sign-in/second-factor" and not is_signed_in(client)
    stored = str(dict(client.session.items()))
    assert PASSWORD not in stored and "md5$" not in stored
    assert client.get("/ask").status_code == 302
    assert "Code of ned" in client.html("/sign-in/second-factor")
    response = send_code(client, code_at(factor_of_ned[0]))
    assert response["Location"] == "/ask" and is_signed_in(client) and client.get("/ask").status_code == 200


def test_the_step_without_a_password_before_leads_to_sign_in(browse, factor_of_ned):
    assert browse().get("/sign-in/second-factor")["Location"] == "/sign-in"
    client = browse()
    assert send_code(client, code_at(factor_of_ned[0]))["Location"] == "/sign-in" and not is_signed_in(client)


def test_the_step_ends_after_five_minutes(browse, factor_of_ned, monkeypatch):
    client, now = browse(), time.time()
    send_password(client)
    monkeypatch.setattr(time, "time", lambda: now + 301)
    assert client.get("/sign-in/second-factor")["Location"] == "/sign-in"


def test_a_code_works_once_even_in_another_process(browse, factor_of_ned):
    code = code_at(factor_of_ned[0])
    for attempt, expected in ((1, True), (2, False)):
        caches["default"].clear()
        assert is_signed_in(after_code(browse, code)) is expected, attempt


def test_an_older_code_is_refused_after_a_newer_one(browse, factor_of_ned):
    for steps, expected in ((1, True), (0, False), (-1, False)):
        assert is_signed_in(after_code(browse, code_at(factor_of_ned[0], steps))) is expected, steps


def test_the_attack_the_code_that_added_the_app_does_not_sign_in(browse):
    client = browse("ned")
    secret = re.search(r"<code>(\w+)</code>", client.html("/second-factor/app"))[1]
    code = code_at(secret)
    assert "recovery codes" in page_html(client.post("/second-factor/app", {"code": code}))
    for next_code, expected in ((code, False), (code_at(secret, 1), True)):
        assert is_signed_in(after_code(browse, next_code)) is expected


@pytest.mark.parametrize("steps", [-3, 3])
def test_a_code_of_another_time_is_refused(browse, factor_of_ned, steps):
    client = after_password(browse)
    assert send_code(client, code_at(factor_of_ned[0], steps)).status_code == 400 and not is_signed_in(client)


def test_a_recovery_code_works_once(browse, factor_of_ned, caplog):
    for expected in (True, False):
        client = after_code(browse, f"{factor_of_ned[1][0][:4]} {factor_of_ned[1][0][4:]}")
        assert is_signed_in(client) is expected
    assert "user:ned used a recovery code; 9 are left" in caplog.text


def test_guesses_are_limited_for_the_account_not_for_a_session(browse, factor_of_ned):
    for _ in range(5):
        client = after_password(browse)
        assert send_code(client, "12345").status_code == 400
    event = SecurityEvent.objects.order_by("-pk").first()
    assert (event.kind, event.account, event.detail) == ("sign-in-failure", "ned", "wrong second factor")
    client = after_password(browse)
    response = send_code(client, code_at(factor_of_ned[0]))
    assert response.status_code == 429 and int(response["Retry-After"]) > 0 and not is_signed_in(client)


def guess_codes(browse, address: str, times: int) -> list[int]:
    """Return the status of each of several wrong codes of ned from this address."""
    client = after_password(browse)
    return [
        client.post("/sign-in/second-factor", {"code": "12345"}, REMOTE_ADDR=address).status_code
        for _ in range(times)
    ]


def test_the_attack_wrong_codes_from_elsewhere_do_not_lock_out_the_account(browse, factor_of_ned):
    assert guess_codes(browse, "203.0.113.66", 6) == [400] * 5 + [429]
    client = after_code(browse, factor_of_ned[1][0])
    assert is_signed_in(client)
    assert guess_codes(browse, "203.0.113.66", 1) == [429]


def test_the_attack_guesses_of_codes_from_many_addresses_are_limited(browse, factor_of_ned, monkeypatch):
    monkeypatch.setattr("authzconsole.web.accounts.factors.forms.MAX_CODES_PER_NAME", 7)
    statuses = guess_codes(browse, "203.0.113.1", 4) + guess_codes(browse, "203.0.113.2", 4)
    assert statuses == [400] * 7 + [429]
    client = after_password(browse)
    assert send_code(client, code_at(factor_of_ned[0])).status_code == 429
    # the guesser does not know the new password
    password = renew_user_password(author=SETUP, name="ned")
    client = browse()
    client.post("/sign-in", {"username": "ned", "password": password})
    send_code(client, code_at(factor_of_ned[0]))
    assert is_signed_in(client)


@pytest.mark.parametrize("code", ["", "x" * 5000, "\x00", "٣٣٣٣٣٣"])
def test_malformed_codes_are_refused(browse, factor_of_ned, code):
    client = after_password(browse)
    assert send_code(client, code).status_code == 400


def test_a_deactivated_account_cannot_complete_the_step(browse, factor_of_ned):
    client = after_password(browse)
    User.objects.filter(username="ned").update(is_active=False)
    assert send_code(client, code_at(factor_of_ned[0]))["Location"] == "/sign-in" and not is_signed_in(client)


def test_changes_of_factors_need_a_recent_authentication(browse, factor_of_ned):
    client = browse("ned")
    session = client.session
    session[TIME_KEY] = 0
    session.save()
    pk = Authenticator.objects.get(type="totp").pk
    for url in ("/second-factor/app", "/second-factor/codes", f"/second-factor/{pk}/remove"):
        assert "Confirm your identity" in page_html(client.post(url, {"code": "1"})), url
    assert Authenticator.objects.count() == 2


def test_removing_the_last_factor_removes_the_recovery_codes(browse, factor_of_ned):
    client = browse("ned")
    pk = Authenticator.objects.get(type="totp").pk
    assert "authenticator app" in client.html(f"/second-factor/{pk}/remove")
    client.post(f"/second-factor/{pk}/remove")
    assert not Authenticator.objects.exists()
    assert newest_lines(2) == [
        ("ned", "factor-remove", "user:ned", "authenticator app"),
        ("ned", "factor-remove", "user:ned", "recovery codes"),
    ]


def test_new_recovery_codes_replace_the_old_ones(browse, factor_of_ned):
    page = page_html(browse("ned").post("/second-factor/codes"))
    codes = [code.replace(" ", "") for code in re.findall(r"<li><code>([\d ]+)</code>", page)]
    assert len(codes) == 10 and not set(codes) & set(factor_of_ned[1])
    client = after_password(browse)
    assert send_code(client, factor_of_ned[1][0]).status_code == 400


def test_an_account_cannot_change_the_factors_of_another(browse, factor_of_ned, cast):
    pk = Authenticator.objects.get(type="totp").pk
    assert browse("ada").post(f"/second-factor/{pk}/remove").status_code == 404
    with pytest.raises(GrantError), journalled_factors(Author("ada", user_id=cast["ada"].pk), cast["dee"]):
        raise AssertionError("nothing is changed")


def test_an_administrator_resets_the_factors_of_an_account(browse, factor_of_ned):
    client = browse("ada")
    assert "Removes: authenticator app, recovery codes." in page_html(
        client.get("/accounts/second-factor/user:ned")
    )
    response = client.post("/accounts/second-factor/user:ned", {"reason": "lost the phone"}, follow=True)
    assert "second factors of" in page_html(response) and "were removed" in page_html(response)
    line = JournalLine.objects.order_by("-revision").first()
    assert (line.actor, line.action, line.detail, line.reason) == (
        "ada",
        "factor-reset",
        "authenticator app, recovery codes",
        "lost the phone",
    )
    client = after_password(browse)
    assert is_signed_in(client)


def test_a_command_resets_the_factors_of_the_last_administrator(factor_of_ned):
    output = io.StringIO()
    call_command("reset_second_factor", "ned", stdout=output)
    assert "were removed" in output.getvalue() and not Authenticator.objects.exists()
    assert newest_lines(1)[0][:2] == ("reset_second_factor", "factor-reset")
    assert not reset_factors(author=SETUP, name="ned").has_changed
    with pytest.raises(CommandError, match="user:nowhere does not exist"):
        call_command("reset_second_factor", "nowhere")


def test_an_account_of_a_required_role_sets_up_a_factor_before_anything_else(browse, settings):
    settings.MFA_REQUIRED_ROLES = ["administrator"]
    client = after_password(browse, "ada")
    for url in ("/", "/journal/", "/grant/dataset:sales.orders"):
        assert client.get(url)["Location"] == "/second-factor", url
    assert client.post("/analyses/start", {"analysis": "visibility"})["Location"] == "/second-factor"
    assert client.get("/", headers={"HX-Request": "true"})["HX-Redirect"] == "/second-factor"
    assert "your console role requires a second factor" in page_html(client.get("/second-factor"))
    assert client.get("/api/v1/grants").status_code == 403
    assert client.post("/access/v1/evaluation", {}, "application/json").status_code == 403
    set_up_app(client)
    assert client.get("/").status_code == 200 and client.get("/api/v1/grants").status_code == 200
    assert client.post("/sign-out").status_code == 302


def test_other_roles_and_tokens_need_no_factor(browse, settings, client):
    settings.MFA_REQUIRED_ROLES = ["administrator"]
    assert browse("aud").get("/").status_code == 200
    token = create_token(author=SETUP, owner="ada", name="a script", scopes=["read"], days=1)
    assert (
        client.get("/api/v1/grants", headers={"Authorization": f"Bearer {token.secret}"}).status_code == 200
    )


def test_a_required_role_costs_one_query_for_each_page_and_no_query_otherwise(browse, settings):
    client = browse("ada")
    client.get("/policies/")
    totals = []
    for roles in ([], ["auditor"], ["administrator"]):
        settings.MFA_REQUIRED_ROLES = roles
        with CaptureQueriesContext(connection) as queries:
            client.get("/policies/")
        totals.append(sum("mfa_authenticator" in query["sql"] for query in queries))
    assert totals == [0, 0, 1]


def test_the_second_factor_is_asked_after_a_provider_unless_the_provider_asks(
    browse, oidc, factor_of_ned, settings
):
    settings.MFA_REQUIRED_ROLES = ["auditor", "ordinary"]
    client = browse()
    response = oidc.sign_in(client, "s-ned", path="/sign-in/corp?next=/ask")
    assert response["Location"] == "/sign-in/second-factor" and not is_signed_in(client)
    stored = str(dict(client.session.items()))
    assert "md5$" not in stored and "access_token" not in stored and "'token'" not in stored
    assert (
        send_code(client, code_at(factor_of_ned[0]))["Location"] == "/ask"
        and client.session["sign_in_provider"] == "corp"
    )
    oidc.configure(second_factor="provider")
    for name in ("ned", "dee"):
        client = browse()
        oidc.sign_in(client, f"s-{name}", {"preferred_username": name})
        assert client.get("/").status_code == 200, name


def test_the_session_keeps_the_backend_that_checked_the_password(browse, factor_of_ned, settings):
    settings.AUTHENTICATION_BACKENDS = [
        "tests.support.second_backend.SecondBackend",
        *settings.AUTHENTICATION_BACKENDS,
    ]
    client = after_code(browse, code_at(factor_of_ned[0]))
    assert client.session["_auth_user_backend"] == "tests.support.second_backend.SecondBackend"


@pytest.mark.parametrize(
    "credential",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"id": 1}',
        "null",
        '{"response": {"clientDataJSON": "e30"}}',
        "x" * 30_000,
        "[" * 20_000,
        "9" * 20_000,
        '{"id": "YQ", "rawId": "YQ", "type": "public-key", "response": {"clientDataJSON": "e30", '
        '"attestationObject": "e30", "authenticatorData": "e30", "signature": "e30"}}',
    ],
)
def test_malformed_passkeys_are_refused(browse, factor_of_ned, credential):
    client = after_password(browse)
    client.get("/sign-in/second-factor")
    assert client.post(
        "/sign-in/second-factor", {"credential": credential}
    ).status_code == 400 and not is_signed_in(client)
    client = browse("dee")
    client.get("/second-factor/passkey")
    assert client.post("/second-factor/passkey", {"credential": credential}).status_code == 400
    assert not Authenticator.objects.filter(type="webauthn").exists()
