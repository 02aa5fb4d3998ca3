"""Sensitive changes need a recent authentication, so that a stolen or unattended session cannot take over the
console.
"""

import html
import re
from time import time

import pytest
from django.test import Client

from authzconsole.common import recent_authentication
from authzconsole.common.login_throttle import MAX_PASSWORDS_PER_PAIR
from authzconsole.common.tokens import create_token
from tests.support.authors import database_state
from tests.support.cast import PASSWORD, SETUP
from tests.support.factors import code_at
from tests.support.pages import page_html

SENSITIVE = [
    ("/accounts/change/user:dee", {"change": "role", "role": "administrator"}),
    ("/accounts/change/user:dee", {"change": "activity", "active": "no"}),
    ("/accounts/password/user:dee", {}),
    ("/accounts/tokens/new", {"owner": "ada", "name": "x", "scope": ["read", "administer"], "days": "9"}),
    ("/accounts/tokens/{token}/revoke", {}),
    ("/policies/existing/activate", {"from": "final"}),
    ("/people/add", {"type": "account", "name": "eve", "role": "administrator"}),
]
CONFIRM = {"reauthentication_method": "password", "reauthentication_password": PASSWORD}


@pytest.fixture
def clock(monkeypatch):
    """Return a list of seconds; append to it to advance the clock."""
    seconds = [time()]
    monkeypatch.setattr(recent_authentication, "time", lambda: sum(seconds))
    return seconds


@pytest.fixture
def stale(browse, clock, settings) -> Client:
    """The session of an administrator who signed in too long ago."""
    client = browse("ada")
    clock.append(settings.REAUTHENTICATION_SECONDS)
    return client


def submitted_fields(response) -> dict[str, list[str]]:
    """Return the hidden fields of the form, as a browser would post them."""
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(
        r'<input type="hidden" name="([^"]+)" value="([^"]*)">', response.content.decode()
    ):
        fields.setdefault(html.unescape(name), []).append(html.unescape(value))
    return fields


@pytest.mark.parametrize(("url", "form"), SENSITIVE)
def test_a_stale_session_changes_nothing_until_the_password_is_given(url, form, stale):
    url = url.format(
        token=create_token(author=SETUP, owner="ada", name="x", scopes=["read"], days=1).token.pk
    )
    before = database_state()
    response = stale.post(url, form | {"reason": 'a "reason" & <more>'})
    assert response.status_code == 403 and "Nothing has changed yet" in page_html(response)
    assert "The change then continues with what you entered" in page_html(response)
    assert database_state() == before
    repeated = submitted_fields(response)
    assert {name: repeated[name] for name in form} == {
        name: value if isinstance(value, list) else [value] for name, value in form.items()
    }
    assert repeated["reason"] == ['a "reason" & <more>']
    response = stale.post(url, repeated | CONFIRM)
    assert response.status_code in (200, 303) and database_state() != before


@pytest.mark.parametrize(
    ("url", "form", "change"),
    [
        ("/accounts/tokens/new", {}, "Create an API token"),
        ("/people/rename/user:dee", {"name": "new"}, "Rename user:dee"),
        (
            "/policies/existing/activate",
            {"from": "final", "at": "2127-03-01T08:00"},
            "Activate generation existing at ",
        ),
        ("/accounts/change/user:dee", {"change": "role", "role": "auditor"}, "user:dee"),
    ],
)
def test_the_page_names_the_change_that_it_confirms(url, form, change, stale):
    text = page_html(stale.post(url, form | {"reason": "x"}))
    assert change in text[: text.index("needs a recent sign-in")]


def test_a_recent_sign_in_needs_no_confirmation(browse, clock, settings):
    client = browse("ada")
    clock.append(settings.REAUTHENTICATION_SECONDS - 5)
    assert client.post("/accounts/change/user:dee", {"change": "role", "role": "auditor"}).status_code == 303


def test_a_confirmation_lasts_for_further_changes(stale, settings, clock):
    form = {"change": "role", "role": "auditor"}
    assert stale.post("/accounts/change/user:dee", form | CONFIRM).status_code == 303
    assert stale.post("/accounts/change/user:out", form).status_code == 303
    clock.append(settings.REAUTHENTICATION_SECONDS)
    assert stale.post("/accounts/change/user:grp", form).status_code == 403


def test_a_wrong_password_changes_nothing_and_is_counted(stale, cast):
    form = {"change": "role", "role": "administrator"}
    wrong = form | CONFIRM | {"reauthentication_password": "wrong"}
    before = database_state()
    for _ in range(MAX_PASSWORDS_PER_PAIR):
        response = stale.post("/accounts/change/user:dee", wrong)
        assert response.status_code == 403 and "This is not your password" in page_html(response)
        assert "wrong" not in str(submitted_fields(response))
    response = stale.post("/accounts/change/user:dee", form | CONFIRM)
    assert response.status_code == 429 and int(response["Retry-After"]) > 0
    assert database_state() == before


def test_the_password_of_another_account_confirms_nothing(stale, cast):
    cast["ada"].set_password("the password of ada alone")
    cast["ada"].save()
    stale.force_login(cast["ada"])
    recent = stale.session
    recent[recent_authentication.TIME_KEY] = 0
    recent.save()
    assert (
        stale.post(
            "/accounts/change/user:dee", {"change": "role", "role": "auditor", "username": "dee"} | CONFIRM
        ).status_code
        == 403
    )


def test_accounts_without_access_are_refused_first(browse, clock, settings):
    clients = browse("dee"), browse("aud")
    clock.append(settings.REAUTHENTICATION_SECONDS)
    form = {"change": "role", "role": "administrator"}
    assert [client.post("/accounts/change/user:dee", form | CONFIRM).status_code for client in clients] == [
        404,
        403,
    ]


def test_adding_an_ordinary_user_needs_no_confirmation(stale):
    assert stale.post("/people/add", {"type": "user", "name": "eve"}).status_code == 303


def test_changing_the_password_counts_as_a_recent_authentication(stale):
    new = "quite another password"
    stale.post("/password", {"old_password": PASSWORD, "new_password1": new, "new_password2": new})
    assert stale.post("/accounts/change/user:dee", {"change": "role", "role": "auditor"}).status_code == 303


def test_the_identity_can_be_confirmed_on_its_own_page(stale):
    assert 'name="next" value="/journal/"' in page_html(stale.get("/reauthenticate?next=/journal/"))
    assert stale.post("/reauthenticate", CONFIRM | {"next": "/journal/"})["Location"] == "/journal/"
    assert stale.post("/reauthenticate", CONFIRM | {"next": "https://elsewhere.example/"})["Location"] == "/"
    assert stale.post("/accounts/change/user:dee", {"change": "role", "role": "auditor"}).status_code == 303


def test_an_account_that_must_set_up_a_second_factor_confirms_its_identity(stale, settings):
    """The page has no navigation: every other request of such an account is redirected to the page Second
    factor.
    """
    settings.MFA_REQUIRED_ROLES = ["administrator"]
    secret = re.search(
        r'<div class="secret"> <code>(\w+)</code>', page_html(stale.get("/second-factor/app"))
    )[1]
    code = code_at(secret)
    response = stale.post("/second-factor/app", {"code": code})
    assert (
        response.status_code == 403
        and "Password of ada" in page_html(response)
        and "hx-get" not in page_html(response)
    )
    assert "The authenticator app was added." in page_html(
        stale.post("/second-factor/app", submitted_fields(response) | CONFIRM)
    )
    assert stale.get("/").status_code == 200


def test_a_session_from_before_a_clock_change_is_stale(browse, clock):
    client = browse("ada")
    clock.append(-60)
    assert client.post("/accounts/change/user:dee", {"change": "role", "role": "auditor"}).status_code == 403


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("patch", "/api/v1/users/dee", {"role": "administrator", "reason": "x"}),
        ("post", "/api/v1/users", {"name": "eve", "role": "administrator"}),
        ("put", "/api/v1/policies/active", {"name": "existing", "reason": "x"}),
    ],
)
def test_rest_refuses_a_stale_session(method, path, body, stale):
    before = database_state()
    response = getattr(stale, method)(path, body, content_type="application/json")
    assert response.status_code == 403 and "/reauthenticate" in response.json()["detail"]
    assert database_state() == before
