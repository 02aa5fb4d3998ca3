"""Throttling of password and token guesses, shared by all processes."""

import logging
import os
import subprocess
import sys

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.core.cache import caches
from django.test import Client, RequestFactory

from authzconsole import settings as of_the_product
from authzconsole.common import login_throttle
from authzconsole.common.tokens import create_token
from authzconsole.ops.address import free_port
from tests.support.cast import PASSWORD, SETUP, create_sample_users
from tests.support.workers import ROOT, database_url

MANY = login_throttle.MAX_PASSWORDS_PER_NAME
NOW = 1_800_000_000


@pytest.fixture(autouse=True)
def now(monkeypatch):
    """No window ends in the middle of a test; `now.append(seconds)` moves on."""
    moments = [NOW]
    monkeypatch.setattr(login_throttle, "time", lambda: sum(moments))
    return moments


@pytest.fixture
def cast(db):
    return create_sample_users()


@pytest.fixture
def redis_shared(settings, redis_server):
    """Counted in a real Redis, as in the product."""
    settings.CACHES = caches_at(redis_server)
    caches["shared"].clear()


def caches_at(redis_url: str) -> dict:
    return of_the_product.CACHES | {"shared": of_the_product.CACHES["shared"] | {"LOCATION": [redis_url]}}


def sign_in(name: str, password: str = "wrong", **where):
    return Client().post("/sign-in", {"username": name, "password": password}, **where)


def statuses(times: int, name: str, **where) -> list[int]:
    return [sign_in(name, **where).status_code for _ in range(times)]


@pytest.mark.usefixtures("cast", "redis_shared")
@pytest.mark.parametrize("name", ["ned", "ina", "nobody", "näme with spaces"])
def test_repeated_wrong_passwords_block_known_and_unknown_names(name):
    assert statuses(MANY, name) == [200] * MANY
    held = sign_in(name, PASSWORD)
    assert held.status_code == 429 and 0 < int(held["Retry-After"]) <= login_throttle.WINDOW_SECONDS
    assert held.context["form"].non_field_errors() == [
        "Too many wrong passwords for this name or from your address. "
        f"Wait {login_throttle.wait_in_words(int(held['Retry-After']))}, then sign in."]
    assert sign_in("dee", PASSWORD).status_code == 302


@pytest.mark.usefixtures("cast", "redis_shared")
def test_blocked_attempts_check_no_password(monkeypatch, django_assert_num_queries):
    looked = []
    monkeypatch.setattr("authzconsole.web.accounts.sign_in.AuthenticationForm.clean", lambda form: looked.append(form))
    for name in ("ned", "nobody"):
        login_throttle.count_failure(*[login_throttle.password_counters(RequestFactory().get("/"), name)[0]] * MANY)
        with django_assert_num_queries(0):
            assert sign_in(name).status_code == 429
    assert not looked


@pytest.mark.usefixtures("cast")
def test_known_and_unknown_names_cost_the_same_hashing(monkeypatch):
    hashed, encode, found = [], MD5PasswordHasher.encode, []
    monkeypatch.setattr(MD5PasswordHasher, "encode", lambda *given: hashed.append(1) or encode(*given))
    for name in ("ned", "ina", "nobody"):
        hashed.clear()
        sign_in(name)
        found.append(len(hashed))
    assert found == [1, 1, 1]


@pytest.mark.usefixtures("cast", "redis_shared")
def test_a_successful_sign_in_resets_the_count(monkeypatch):
    assert statuses(MANY - 1, "ned") == [200] * (MANY - 1)
    assert sign_in("ned", PASSWORD).status_code == 302
    assert statuses(MANY, "ned") == [200] * MANY
    assert sign_in("ned").status_code == 429


@pytest.mark.usefixtures("cast", "redis_shared")
def test_an_address_that_tries_many_names_is_blocked(monkeypatch):
    monkeypatch.setattr(login_throttle, "MAX_PASSWORDS_PER_ADDRESS", 7)
    assert [sign_in(f"name{number}", REMOTE_ADDR="192.0.2.1").status_code for number in range(7)] == [200] * 7
    assert sign_in("ned", PASSWORD, REMOTE_ADDR="192.0.2.1").status_code == 429
    assert sign_in("ned", PASSWORD, REMOTE_ADDR="192.0.2.2").status_code == 302


@pytest.mark.usefixtures("cast", "redis_shared")
def test_a_successful_sign_in_does_not_reset_the_count_of_the_address(monkeypatch):
    monkeypatch.setattr(login_throttle, "MAX_PASSWORDS_PER_ADDRESS", 4)
    found = [sign_in(*sent).status_code for sent in [("a",), ("dee", PASSWORD)] * 5]
    assert found == [200, 302, 200, 302, 200, 302, 200, 429, 429, 429]


@pytest.mark.usefixtures("cast", "redis_shared")
def test_the_block_ends_and_is_not_extended_by_attempts(now):
    statuses(MANY, "ned")
    now.append(int(sign_in("ned")["Retry-After"]) - 1)
    assert [sign_in("ned")["Retry-After"] for _ in range(3)] == ["1"] * 3
    now.append(1)
    assert sign_in("ned", PASSWORD).status_code == 302


@pytest.mark.usefixtures("cast", "redis_shared")
def test_a_new_password_set_by_an_administrator_lifts_the_block(cast):
    statuses(MANY, "dee")
    administrator = Client()
    administrator.force_login(cast["ada"])
    password = administrator.post("/accounts/password/user:dee", {"reason": "locked out"}).context["password"]
    assert sign_in("dee", password).status_code == 302


def open_session(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def change(client: Client, old: str, new: str = "quite another password", **where):
    return client.post("/password", {"old_password": old, "new_password1": new, "new_password2": new}, **where)


@pytest.mark.usefixtures("redis_shared")
def test_the_password_form_is_throttled_like_sign_in(cast, monkeypatch):
    left_open = open_session(cast["ned"])
    assert [change(left_open, "wrong").status_code for _ in range(MANY)] == [200] * MANY
    looked = []
    monkeypatch.setattr(MD5PasswordHasher, "verify", lambda *given: looked.append(given))
    held = change(left_open, PASSWORD)
    assert held.status_code == 429 and 0 < int(held["Retry-After"]) <= login_throttle.WINDOW_SECONDS and not looked
    told = ("Too many wrong passwords for this name or from your address. "
            f"Wait {login_throttle.wait_in_words(int(held['Retry-After']))}, then change yours.")
    assert held.context["form"].errors == {"old_password": [told]} and told in held.content.decode()
    assert sign_in("ned", PASSWORD).status_code == 429
    monkeypatch.undo()
    assert cast["ned"].check_password(PASSWORD)


@pytest.mark.usefixtures("redis_shared")
def test_the_old_password_is_counted_by_name_and_address(cast, monkeypatch):
    monkeypatch.setattr(login_throttle, "MAX_PASSWORDS_PER_ADDRESS", MANY + 2)
    ned, dee = open_session(cast["ned"]), open_session(cast["dee"])
    assert [change(ned, "wrong").status_code for _ in range(MANY - 1)] == [200] * (MANY - 1)
    assert "too short" in change(ned, PASSWORD, "short").content.decode()
    assert [change(ned, "wrong").status_code for _ in range(2)] == [200] * 2
    assert [change(dee, "wrong").status_code for _ in range(2)] == [200, 429]
    assert change(dee, PASSWORD, REMOTE_ADDR="192.0.2.2").status_code == 302


@pytest.mark.usefixtures("redis_shared")
def test_the_new_password_field_does_not_reveal_the_old_password(cast):
    texts = [change(open_session(cast["ned"]), "wrong", tried).context["form"].errors.as_json() for tried in (PASSWORD, "other")]
    assert all("old_password" in text and "is your current password" not in text for text in texts)


@pytest.mark.usefixtures("cast", "redis_shared")
def test_a_block_is_logged_once_on_a_single_line(caplog):
    caplog.set_level(logging.WARNING, "authzconsole.common.login_throttle")
    statuses(MANY + 3, "x\nWARNING all is well")
    told = [record.getMessage() for record in caplog.records if record.name == "authzconsole.common.login_throttle"]
    assert len(told) == 1 and "\n" not in told[0] and "WARNING all is well': further attempts wait for" in told[0]


@pytest.mark.usefixtures("cast")
def test_without_redis_each_process_counts_separately(settings, caplog):
    settings.CACHES = caches_at(f"redis://127.0.0.1:{free_port()}/0")
    assert sign_in("ned", PASSWORD).status_code == 302
    assert statuses(MANY + 1, "ned") == [200] * MANY + [429]
    assert sign_in("dee", PASSWORD).status_code == 302
    assert "Redis does not answer (ConnectionError): this process counts" in caplog.text


def test_the_redis_location_is_a_list():
    """Django splits an address that is given as text."""
    assert isinstance(of_the_product.CACHES["shared"]["LOCATION"], list)


GUESSING = """
import django, sys
django.setup()
from django.test import Client, override_settings
from authzconsole.common import login_throttle
from tests.web.accounts.test_login_throttle import NOW, caches_at
login_throttle.time = lambda: NOW
with override_settings(CACHES=caches_at(sys.argv[1]), ALLOWED_HOSTS=["testserver"]):
    for _ in range(8):
        print(Client().post("/sign-in", {"username": "nobody", "password": "wrong"}).status_code)
"""


@pytest.mark.django_db(transaction=True)
def test_several_processes_count_together(redis_server, redis_shared):
    environment = os.environ | {"DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    processes = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", GUESSING, redis_server], cwd=ROOT, env=environment,
                                  stdout=subprocess.PIPE, text=True) for _ in range(3)]
    told = "".join(process.communicate()[0] for process in processes).split()
    # as many more as there were others looking at the same moment
    assert len(told) == 24 and MANY <= told.count("200") <= MANY + 2 and set(told) == {"200", "429"}
    assert sign_in("nobody").status_code == 429


@pytest.mark.parametrize(("proxies", "forwarded", "told", "found"), [
    (0, "203.0.113.9", "192.0.2.1", "192.0.2.1"),
    (1, "198.51.100.7, 203.0.113.9", "192.0.2.1", "203.0.113.9"),
    (2, "198.51.100.7, 203.0.113.9", "192.0.2.1", "198.51.100.7"),
    (1, None, "192.0.2.1", "192.0.2.1"),
    (0, None, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
    (0, None, "", ""),
])
def test_the_client_address_comes_from_trusted_proxies(settings, proxies, forwarded, told, found):
    settings.REST_FRAMEWORK = settings.REST_FRAMEWORK | {"NUM_PROXIES": proxies}
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    assert login_throttle.client_address(RequestFactory().get("/", headers=headers, REMOTE_ADDR=told)) == found


@pytest.mark.usefixtures("redis_shared")
@pytest.mark.parametrize(("path", "is_problem"), [("/api/v1/entities", True), ("/access/v1/evaluation", False)])
def test_unknown_tokens_block_an_address_but_not_valid_tokens(cast, monkeypatch, path, is_problem):
    monkeypatch.setattr(login_throttle, "MAX_TOKENS_PER_ADDRESS", 3)
    issued = create_token(author=SETUP, owner="ada", name="x", scopes=["read", "decide"], days=1)

    def called(secret):
        send = Client().get if is_problem else Client().post
        return send(path, content_type="application/json", headers={"Authorization": f"Bearer {secret}"})

    assert [called(f"azc_{number}").status_code for number in range(5)] == [401] * 3 + [429] * 2
    refused = called("azc_x")
    sentence = refused.json()["detail"] if is_problem else refused.json()
    assert int(refused["Retry-After"]) > 0 and sentence.startswith("too many unknown tokens came from your address: wait")
    assert called(issued.secret).status_code not in (401, 429)
    assert sign_in("ned", PASSWORD).status_code == 302
