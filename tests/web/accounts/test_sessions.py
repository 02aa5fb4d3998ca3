"""Sessions have limits, are listed, and end with the account."""

import io
import json
import re
from datetime import timedelta

import pytest
from django.conf import settings as configured
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db as django_sessions
from django.test import Client
from django.utils import timezone

from authzconsole import tasks
from authzconsole.common.tokens import TokenRefused, create_token, verify_token
from authzconsole.models import AccountSession
from authzconsole.sessions import EFFECT_PART, POLLING_SECTIONS, SessionStore, session_id
from authzconsole.web.effects.forms import EffectPage
from grants.models import JournalLine, User
from grants.principals.services import renew_user_password
from grants.tenant.import_document import import_tenant
from tests.support.cast import PASSWORD, SETUP
from tests.support.changes import set_user_active
from tests.support.pages import page_html
from tests.support.runs import create_running_run

IDLE, ABSOLUTE = 1_800, 43_200


def age(*, unused_seconds: int = 0, seconds: int = 0) -> None:
    """Move the last use, or the sign-in, of all sessions to the past."""
    now = timezone.now()
    AccountSession.objects.update(
        last_used_at=now - timedelta(seconds=unused_seconds),
        created_at=now - timedelta(seconds=max(seconds, unused_seconds)),
    )


def is_signed_in(client: Client) -> bool:
    return client.get("/ask").status_code == 200


def key_of(client: Client) -> str:
    return client.cookies[configured.SESSION_COOKIE_NAME].value


def test_the_limits_are_30_minutes_and_12_hours(settings):
    assert (settings.SESSION_IDLE_SECONDS, settings.SESSION_ABSOLUTE_SECONDS) == (IDLE, ABSOLUTE)


def test_an_idle_session_ends(browse):
    client = browse("dee")
    age(unused_seconds=IDLE - 60)
    assert is_signed_in(client)
    age(unused_seconds=IDLE)
    assert not is_signed_in(client)


def test_the_attack_the_open_page_of_a_run_does_not_keep_an_idle_session_alive(browse):
    client, url = browse("ada"), f"/analyses/{create_running_run().pk}/"
    poll = {"HX-Request": "true", "HX-Trigger": "run", "HX-Target": "run"}
    age(unused_seconds=IDLE - 60)
    assert client.get(url, headers=poll).status_code == 200
    assert timezone.now() - AccountSession.objects.get().last_used_at >= timedelta(seconds=IDLE - 60)
    age(unused_seconds=IDLE)
    assert client.get(url, headers=poll).status_code != 200


def test_all_sections_that_reload_themselves_are_known():
    texts = [path.read_text() for path in (configured.BASE_DIR / "templates").rglob("*.html")]
    names = [
        name for text in texts for name in re.findall(r'id="([^"]+)"\s[^<]*hx-trigger="[^"]*every ', text)
    ]
    # the part of a form that shows an effect has the id of its form
    assert sorted(names) == sorted([*POLLING_SECTIONS, "{{ effect_id }}"])
    triggers = [trigger for text in texts for trigger in re.findall(r'hx-trigger="([^"]*)"', text)]
    assert sum("every " in trigger for trigger in triggers) == len(names)
    effect_ids = {name for text in texts for name in re.findall(r'effect_id="([^"]+)"', text)}
    assert effect_ids and all(name.endswith(EFFECT_PART) for name in {*effect_ids, EffectPage.effect_id})


def test_a_form_that_waits_for_an_effect_does_not_keep_the_session_alive(browse):
    client, url = browse("ada"), "/lifecycle/delete/dataset:sales.orders"
    poll = {"HX-Request": "true", "HX-Trigger": "change-effect", "HX-Target": "change-effect"}
    age(unused_seconds=IDLE - 60)
    assert client.get(url, headers=poll).status_code == 200
    assert timezone.now() - AccountSession.objects.get().last_used_at >= timedelta(seconds=IDLE - 60)


@pytest.mark.parametrize("headers", [{"HX-Request": "true", "HX-Trigger": "next", "HX-Target": "run"}, {}])
def test_other_requests_of_the_page_of_a_run_use_the_session(browse, headers):
    client, url = browse("ada"), f"/analyses/{create_running_run().pk}/"
    age(unused_seconds=IDLE - 60)
    assert client.get(url, headers=headers).status_code == 200
    assert timezone.now() - AccountSession.objects.get().last_used_at < timedelta(seconds=5)


def test_a_session_in_use_ends_after_the_absolute_limit(browse):
    client = browse("dee")
    age(seconds=ABSOLUTE - 60)
    assert is_signed_in(client)
    assert AccountSession.objects.get().expire_date < timezone.now() + timedelta(seconds=IDLE + 1)
    age(seconds=ABSOLUTE)
    assert not is_signed_in(client)


def test_changing_the_session_does_not_extend_the_absolute_limit(browse):
    client = browse("ada")
    session = client.session
    session["sign_in"] = session["sign_in"] | {"at": timezone.now().timestamp() - ABSOLUTE + 60}
    session.save()
    client.post("/people/see-as", {"user": "dee"})
    assert AccountSession.objects.get().expire_date < timezone.now() + timedelta(seconds=61)


def test_the_time_of_the_last_use_is_written_at_most_once_a_minute(browse, django_assert_num_queries):
    client = browse("dee")
    age(unused_seconds=59)
    with django_assert_num_queries(1):
        assert SessionStore(key_of(client)).load()[SESSION_KEY]
    age(unused_seconds=61)
    assert SessionStore(key_of(client)).load()
    assert timezone.now() - AccountSession.objects.get().last_used_at < timedelta(seconds=5)


def test_the_cookie_has_no_lifetime_of_its_own(cast):
    response = Client().post("/sign-in", {"username": "dee", "password": PASSWORD})
    cookie = response.cookies[configured.SESSION_COOKIE_NAME]
    assert (cookie["max-age"], cookie["expires"], cookie["httponly"], cookie["samesite"]) == (
        "",
        "",
        True,
        "Lax",
    )


def test_a_session_of_version_1_is_not_valid(cast):
    old = django_sessions.SessionStore()
    old[SESSION_KEY], old["_auth_user_backend"] = str(cast["ada"].pk), configured.AUTHENTICATION_BACKENDS[0]
    old["_auth_user_hash"] = cast["ada"].get_session_auth_hash()
    old.save()
    client = Client()
    client.cookies[configured.SESSION_COOKIE_NAME] = old.session_key
    assert not is_signed_in(client)


def test_signing_in_deletes_expired_sessions(browse):
    browse("dee")
    AccountSession.objects.update(expire_date=timezone.now())
    browse("ada")
    assert [session.account.username for session in AccountSession.objects.select_related("account")] == [
        "ada"
    ]


def test_the_hourly_task_deletes_all_expired_sessions(browse, monkeypatch):
    monkeypatch.setattr(tasks, "EXPIRED_SESSIONS_AT_ONCE", 2)
    browse("ada")
    for _ in range(5):
        SessionStore().create()
    AccountSession.objects.filter(account=None).update(expire_date=timezone.now() - timedelta(seconds=1))
    tasks.clean_sessions()
    assert [row.account.username for row in AccountSession.objects.all()] == ["ada"]


def test_an_account_lists_its_sessions_without_their_keys(cast):
    agent = "Firefox\t/1 <b>" + "x" * 300
    client, other, foreign = Client(), Client(), Client()
    for browser, name, address in (
        (client, "dee", "192.0.2.1"),
        (other, "dee", "198.51.100.7"),
        (foreign, "ned", "203.0.113.9"),
    ):
        browser.post(
            "/sign-in",
            {"username": name, "password": PASSWORD},
            REMOTE_ADDR=address,
            headers={"User-Agent": agent},
        )
    text = page_html(client.get("/sessions"))
    assert "192.0.2.1" in text and "198.51.100.7" in text and "203.0.113.9" not in text
    assert "now, this session" in text and "Firefox/1 &lt;b&gt;x" in text
    assert not any(key_of(browser) in text for browser in (client, other, foreign))


def test_an_account_ends_one_of_its_sessions_or_all_others(browse):
    client, second, third = browse("dee"), browse("dee"), browse("dee")
    assert client.post("/sessions", {"session": session_id(key_of(second))})["Location"] == "/sessions"
    assert [is_signed_in(browser) for browser in (client, second, third)] == [True, False, True]
    client.post("/sessions")
    assert [is_signed_in(browser) for browser in (client, third)] == [True, False]


def test_the_attack_ending_a_session_of_another_account(browse):
    client, victim = browse("dee"), browse("ned")
    assert "There was no session" in page_html(
        client.post("/sessions", {"session": session_id(key_of(victim))}, follow=True)
    )
    client.post("/sessions")
    assert is_signed_in(victim)
    assert client.post("/accounts/sessions/user:ned").status_code == 404
    assert browse("aud").post("/accounts/sessions/user:ned").status_code == 403
    assert is_signed_in(victim)


def test_an_administrator_ends_sessions_of_an_account_with_a_journal_line(browse):
    client, first, second = browse("ada"), browse("dee"), browse("dee")
    url = "/accounts/sessions/user:dee"
    assert client.html(url).count("End session") == 2
    assert (
        client.post(url, {"session": session_id(key_of(first)), "reason": "lost laptop"})["Location"] == url
    )
    assert [is_signed_in(browser) for browser in (first, second)] == [False, True]
    line = JournalLine.objects.latest("revision")
    assert (line.action, line.principal, line.actor, line.detail, line.reason) == (
        "sessions-end",
        "user:dee",
        "ada",
        "1 session",
        "lost laptop",
    )
    client.post(url)
    assert not is_signed_in(second) and is_signed_in(client)
    assert "The account is not signed in anywhere." in client.html(url)
    assert "has ended already" in page_html(client.post(url, follow=True))


def test_a_password_change_ends_the_other_sessions(browse):
    client, other = browse("dee"), browse("dee")
    new = "quite another password"
    client.post("/password", {"old_password": PASSWORD, "new_password1": new, "new_password2": new})
    assert [is_signed_in(browser) for browser in (client, other)] == [True, False]
    assert AccountSession.objects.count() == 1
    renew_user_password(author=SETUP, name="dee")
    assert not AccountSession.objects.exists() and not is_signed_in(client)
    assert JournalLine.objects.latest("revision").action == "sessions-end"


def _by_service(active: bool) -> None:
    set_user_active("dee", active=active)


def _by_import(active: bool) -> None:
    line = json.dumps({"type": "user", "name": "dee", "active": active})
    import_tenant(stream=io.BytesIO(line.encode()), author=SETUP)


@pytest.mark.parametrize("switch", [_by_service, _by_import])
def test_the_attack_reactivation_does_not_revive_sessions_and_tokens(switch, browse):
    client, kept = browse("dee"), browse("ned")
    secret = create_token(author=SETUP, owner="dee", name="x", scopes=["read"], days=9).secret
    switch(False)
    lines = JournalLine.objects.order_by("-revision")[:3]
    assert [line.action for line in lines] == ["sessions-end", "token-revoke", "user-deactivate"]
    switch(True)
    assert not is_signed_in(client) and is_signed_in(kept)
    with pytest.raises(TokenRefused, match="revoked"):
        verify_token(secret)


def test_the_activation_of_an_account_deactivated_by_version_1_revives_nothing(browse):
    client = browse("dee")
    secret = create_token(author=SETUP, owner="dee", name="x", scopes=["read"], days=9).secret
    User.objects.filter(username="dee").update(is_active=False)
    set_user_active("dee", active=True)
    assert not is_signed_in(client)
    with pytest.raises(TokenRefused, match="revoked"):
        verify_token(secret)
