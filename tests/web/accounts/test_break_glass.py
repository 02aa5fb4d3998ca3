"""Passwords of the console can be limited to break-glass accounts. Each use of one is a security event."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from authzconsole.common.recent_authentication import TIME_KEY
from authzconsole.common.security_events.shipping import ocsf_event
from authzconsole.models import SecurityEvent
from authzconsole.settings.sign_in import check_local_sign_in
from tests.support.cast import PASSWORD
from tests.support.pages import page_html

# the running provider uses deprecated functions of its libraries
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:authlib", "ignore:get_jwt_config:DeprecationWarning"
)


def is_signed_in(client, name: str) -> bool:
    client.post("/sign-in", {"username": name, "password": PASSWORD})
    return "_auth_user_id" in client.session


@pytest.mark.parametrize(
    ("choice", "expected"), [("all", [True, True]), ("break-glass", [True, False]), ("none", [False, False])]
)
def test_only_permitted_accounts_sign_in_with_a_password(browse, settings, choice, expected):
    settings.LOCAL_SIGN_IN, settings.BREAK_GLASS_ACCOUNTS = choice, ["ada"]
    assert [is_signed_in(browse(), name) for name in ("ada", "ned")] == expected


def test_a_refused_password_looks_like_a_wrong_one(browse, settings):
    settings.LOCAL_SIGN_IN, settings.BREAK_GLASS_ACCOUNTS = "break-glass", ["ada"]
    pages = [
        page_html(browse().post("/sign-in", {"username": "ned", "password": password}))
        for password in (PASSWORD, "wrong")
    ]
    assert all(
        "Wrong user name or password." in page and "for emergency accounts only" in page for page in pages
    )
    assert "emergency" not in browse("ned").html("/")


def test_the_use_of_a_break_glass_account_is_a_warning_and_a_security_event(browse, settings, caplog):
    settings.LOCAL_SIGN_IN, settings.BREAK_GLASS_ACCOUNTS = "break-glass", ["ada"]
    assert is_signed_in(browse(), "ada")
    event = SecurityEvent.objects.get(kind="break-glass")
    assert (event.account, event.address, ocsf_event(event)["severity_id"]) == ("ada", "127.0.0.1", 3)
    record = next(record for record in caplog.records if "break-glass" in record.getMessage())
    assert record.levelname == "WARNING" and "user:ada" in record.getMessage()


def test_a_directory_is_not_limited(browse, settings):
    settings.AUTHENTICATION_BACKENDS = ["tests.support.second_backend.SecondBackend"]
    settings.LOCAL_SIGN_IN = "none"
    assert is_signed_in(browse(), "ned")


def test_a_refused_password_confirms_no_sensitive_change(browse, settings):
    settings.LOCAL_SIGN_IN, settings.BREAK_GLASS_ACCOUNTS = "break-glass", ["ned"]
    client = browse("ada")
    session = client.session
    session[TIME_KEY] = 0
    session.save()
    confirmation = {"reauthentication_method": "password", "reauthentication_password": PASSWORD}
    assert client.post("/policies/core/activate", confirmation).status_code == 403


def test_no_identity_is_linked_to_a_break_glass_account(browse, settings, oidc):
    settings.BREAK_GLASS_ACCOUNTS = ["ned"]
    assert oidc.sign_in(browse(), "s-ned").status_code == 403


@pytest.mark.parametrize(
    ("choice", "accounts", "has_other_way", "sentence"),
    [
        ("some", [], True, "LOCAL_SIGN_IN is 'some'; it must be one of"),
        ("break-glass", [], True, "name the accounts in BREAK_GLASS_ACCOUNTS"),
        ("none", [], False, "there is no other way to sign in"),
        ("break-glass", ["ada"], False, "there is no other way to sign in"),
    ],
)
def test_settings_that_lock_everyone_out_are_refused(choice, accounts, has_other_way, sentence):
    with pytest.raises(ImproperlyConfigured, match=sentence):
        check_local_sign_in(choice, accounts, has_other_way)
    check_local_sign_in("all", [], False)
