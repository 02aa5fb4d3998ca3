"""Throttling of password and token guesses, shared by all processes."""

import logging
import os
import pickle
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
import redis
from django.contrib.auth.hashers import MD5PasswordHasher
from django.core.cache import caches
from django.core.management import CommandError, call_command
from django.test import Client, RequestFactory

from authzconsole import settings as product_settings
from authzconsole.common import login_throttle
from authzconsole.common.tokens import create_token
from authzconsole.ops.address import free_port
from grants.models import JournalLine
from tests.support.cast import PASSWORD, SETUP, create_sample_users
from tests.support.workers import ROOT, database_url

pytestmark = pytest.mark.usefixtures("cast", "redis_shared")

LIMIT = login_throttle.MAX_PASSWORDS_PER_PAIR
NOW = 1_800_000_000


@pytest.fixture(autouse=True)
def now(monkeypatch):
    """Stop the clock, so that no window ends during a test. `now.append(seconds)` advances it."""
    moments = [NOW]
    monkeypatch.setattr(login_throttle, "time", lambda: sum(moments))
    return moments


@pytest.fixture
def cast(db):
    return create_sample_users()


@pytest.fixture
def redis_shared(settings, redis_server):
    """Count in a real Redis, as in the product."""
    settings.CACHES = caches_at(redis_server)
    caches["shared"].clear()


def caches_at(redis_url: str) -> dict:
    return product_settings.CACHES | {"shared": product_settings.CACHES["shared"] | {"LOCATION": [redis_url]}}


def sign_in(name: str, password: str = "wrong", **environ):
    return Client().post("/sign-in", {"username": name, "password": password}, **environ)


def wrong_sign_ins(times: int, name: str) -> list[int]:
    """Return the status of each of several attempts with a wrong password."""
    return [sign_in(name).status_code for _ in range(times)]


@pytest.mark.parametrize("name", ["ned", "ina", "nobody", "näme with spaces"])
def test_repeated_wrong_passwords_block_known_and_unknown_names(name):
    assert wrong_sign_ins(LIMIT, name) == [200] * LIMIT
    response = sign_in(name, PASSWORD)
    assert response.status_code == 429 and 0 < int(response["Retry-After"]) <= login_throttle.WINDOW_SECONDS
    assert response.context["form"].non_field_errors() == [
        "Too many wrong passwords for this name or from your address. "
        f"Wait {login_throttle.wait_in_words(int(response['Retry-After']))}, then sign in."
    ]
    assert sign_in("dee", PASSWORD).status_code == 302


def test_blocked_attempts_check_no_password(monkeypatch, django_assert_num_queries):
    checked_forms = []
    monkeypatch.setattr(
        "authzconsole.web.accounts.sign_in.AuthenticationForm.clean", lambda form: checked_forms.append(form)
    )
    for name in ("ned", "nobody"):
        login_throttle.count_failure(
            *[login_throttle.password_counters(RequestFactory().get("/"), name).pair] * LIMIT
        )
        # the first query asks whether the limits were cleared, the second stores the security event
        with django_assert_num_queries(2) as queries:
            assert sign_in(name).status_code == 429
        assert queries[1]["sql"].startswith('INSERT INTO "authzconsole_securityevent"')
    assert not checked_forms


def test_known_and_unknown_names_cost_the_same_hashing(monkeypatch):
    calls, encode, totals = [], MD5PasswordHasher.encode, []
    monkeypatch.setattr(MD5PasswordHasher, "encode", lambda *args: calls.append(args) or encode(*args))
    for name in ("ned", "ina", "nobody"):
        calls.clear()
        sign_in(name)
        totals.append(len(calls))
    assert totals == [1, 1, 1]


def test_a_successful_sign_in_resets_the_count(monkeypatch):
    assert wrong_sign_ins(LIMIT - 1, "ned") == [200] * (LIMIT - 1)
    assert sign_in("ned", PASSWORD).status_code == 302
    assert wrong_sign_ins(LIMIT, "ned") == [200] * LIMIT
    assert sign_in("ned").status_code == 429


def test_the_attack_wrong_passwords_from_elsewhere_do_not_lock_out_the_account():
    for attempt in range(login_throttle.MAX_PASSWORDS_PER_NAME + 1):
        sign_in("ned", REMOTE_ADDR=f"192.0.2.{attempt // LIMIT}")
    assert sign_in("ned", PASSWORD, REMOTE_ADDR="192.0.2.0").status_code == 429
    assert sign_in("ned", PASSWORD, REMOTE_ADDR="198.51.100.7").status_code == 302


def test_many_addresses_get_few_attempts_for_one_name(monkeypatch):
    monkeypatch.setattr(login_throttle, "MAX_PASSWORDS_PER_NAME", 20)
    for attacker in range(2):
        assert {sign_in("ned", REMOTE_ADDR=f"192.0.2.{attacker}").status_code for _ in range(LIMIT)} == {200}
    statuses = [sign_in("ned", REMOTE_ADDR="192.0.2.9").status_code for _ in range(4)]
    assert statuses == [200] * login_throttle.MAX_PASSWORDS_WHILE_ATTACKED + [429]
    assert sign_in("ned", PASSWORD, REMOTE_ADDR="192.0.2.9").status_code == 429
    assert sign_in("dee", PASSWORD, REMOTE_ADDR="192.0.2.9").status_code == 302
    assert sign_in("ned", PASSWORD, REMOTE_ADDR="198.51.100.7").status_code == 302


def clear_limits(*names: str) -> str:
    output = StringIO()
    call_command("clear_sign_in_limits", *names, stdout=output)
    return output.getvalue()


@pytest.mark.parametrize("has_redis", [True, False])
def test_a_command_lifts_the_limits_of_an_account(has_redis, settings, redis_server):
    settings.CACHES = caches_at(redis_server if has_redis else f"redis://127.0.0.1:{free_port()}/0")
    caches["shared" if has_redis else "default"].clear()
    wrong_sign_ins(LIMIT, "ned")
    wrong_sign_ins(LIMIT, "dee")
    assert clear_limits("ned") == "The sign-in limits of user:ned are cleared.\n"
    assert [sign_in(name, PASSWORD).status_code for name in ("ned", "dee")] == [302, 429]
    assert wrong_sign_ins(LIMIT + 1, "ned") == [200] * LIMIT + [429]
    clear_limits("ned")
    assert sign_in("ned", PASSWORD).status_code == 302
    line = JournalLine.objects.latest("revision")
    assert (line.action, line.principal, line.actor) == (
        "sign-in-limits-clear",
        "user:ned",
        "clear_sign_in_limits",
    )


def test_the_command_without_a_name_lifts_the_limits_of_all_names_and_addresses(monkeypatch):
    monkeypatch.setattr(login_throttle, "MAX_PASSWORDS_PER_ADDRESS", LIMIT)
    wrong_sign_ins(LIMIT, "ned")
    assert sign_in("dee", PASSWORD).status_code == 429
    clear_limits("ned")
    assert sign_in("ned", PASSWORD).status_code == 429
    clear_limits()
    assert [sign_in(name, PASSWORD).status_code for name in ("ned", "dee")] == [302, 302]
    with pytest.raises(CommandError, match="`nobody` is not an account"):
        clear_limits("nobody")


def test_an_address_that_tries_many_names_is_blocked(monkeypatch):
    monkeypatch.setattr(login_throttle, "MAX_PASSWORDS_PER_ADDRESS", 7)
    assert [sign_in(f"name{number}", REMOTE_ADDR="192.0.2.1").status_code for number in range(7)] == [200] * 7
    assert sign_in("ned", PASSWORD, REMOTE_ADDR="192.0.2.1").status_code == 429
    assert sign_in("ned", PASSWORD, REMOTE_ADDR="192.0.2.2").status_code == 302


def test_a_successful_sign_in_does_not_reset_the_count_of_the_address(monkeypatch):
    monkeypatch.setattr(login_throttle, "MAX_PASSWORDS_PER_ADDRESS", 4)
    statuses = [sign_in(*arguments).status_code for arguments in [("a",), ("dee", PASSWORD)] * 5]
    assert statuses == [200, 302, 200, 302, 200, 302, 200, 429, 429, 429]


def test_the_block_ends_and_is_not_extended_by_attempts(now):
    wrong_sign_ins(LIMIT, "ned")
    now.append(int(sign_in("ned")["Retry-After"]) - 1)
    assert [sign_in("ned")["Retry-After"] for _ in range(3)] == ["1"] * 3
    now.append(1)
    assert sign_in("ned", PASSWORD).status_code == 302


def test_a_new_password_set_by_an_administrator_lifts_the_block(cast):
    wrong_sign_ins(LIMIT, "dee")
    administrator = Client()
    administrator.force_login(cast["ada"])
    password = administrator.post("/accounts/password/user:dee", {"reason": "locked out"}).context["password"]
    assert sign_in("dee", password).status_code == 302


def open_session(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def change_password(client: Client, old: str, new: str = "quite another password", **environ):
    return client.post(
        "/password", {"old_password": old, "new_password1": new, "new_password2": new}, **environ
    )


def test_the_password_form_is_throttled_like_sign_in(cast, monkeypatch):
    client = open_session(cast["ned"])
    assert [change_password(client, "wrong").status_code for _ in range(LIMIT)] == [200] * LIMIT
    verified = []
    monkeypatch.setattr(MD5PasswordHasher, "verify", lambda *args: verified.append(args))
    response = change_password(client, PASSWORD)
    assert (
        response.status_code == 429
        and 0 < int(response["Retry-After"]) <= login_throttle.WINDOW_SECONDS
        and not verified
    )
    message = (
        "Too many wrong passwords for this name or from your address. "
        f"Wait {login_throttle.wait_in_words(int(response['Retry-After']))}, then change yours."
    )
    assert (
        response.context["form"].errors == {"old_password": [message]}
        and message in response.content.decode()
    )
    assert sign_in("ned", PASSWORD).status_code == 429
    monkeypatch.undo()
    assert cast["ned"].check_password(PASSWORD)


def test_the_old_password_is_counted_by_name_and_address(cast, monkeypatch):
    monkeypatch.setattr(login_throttle, "MAX_PASSWORDS_PER_ADDRESS", LIMIT + 2)
    ned, dee = open_session(cast["ned"]), open_session(cast["dee"])
    assert [change_password(ned, "wrong").status_code for _ in range(LIMIT - 1)] == [200] * (LIMIT - 1)
    assert "too short" in change_password(ned, PASSWORD, "short").content.decode()
    assert [change_password(ned, "wrong").status_code for _ in range(2)] == [200] * 2
    assert [change_password(dee, "wrong").status_code for _ in range(2)] == [200, 429]
    assert change_password(dee, PASSWORD, REMOTE_ADDR="192.0.2.2").status_code == 302


def test_the_new_password_field_does_not_reveal_the_old_password(cast):
    errors = [
        change_password(open_session(cast["ned"]), "wrong", new).context["form"].errors.as_json()
        for new in (PASSWORD, "other")
    ]
    assert all("old_password" in text and "is your current password" not in text for text in errors)


def test_a_block_is_logged_once_on_a_single_line(caplog):
    caplog.set_level(logging.WARNING, "authzconsole.common.login_throttle")
    wrong_sign_ins(LIMIT + 3, "x\nWARNING all is well")
    lines = [
        record.getMessage()
        for record in caplog.records
        if record.name == "authzconsole.common.login_throttle"
    ]
    assert len(lines) == 1 and "\n" not in lines[0]
    assert "WARNING all is well from 127.0.0.1': further attempts wait for" in lines[0]


def test_without_redis_each_process_counts_separately(settings, caplog):
    settings.CACHES = caches_at(f"redis://127.0.0.1:{free_port()}/0")
    assert sign_in("ned", PASSWORD).status_code == 302
    assert wrong_sign_ins(LIMIT + 1, "ned") == [200] * LIMIT + [429]
    assert sign_in("dee", PASSWORD).status_code == 302
    assert "Redis does not answer (ConnectionError): this process counts" in caplog.text


class FileCreator:
    """Unpickling an instance creates the file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_written_to_redis_is_not_executed(tmp_path, redis_server, caplog):
    counters = login_throttle.password_counters(RequestFactory().post("/sign-in"), "ned")
    with redis.Redis.from_url(redis_server) as attacker:
        for counter in (counters.pair, counters.name, counters.address):
            attacker.set(
                caches["shared"].make_key(counter.window()[0]),
                pickle.dumps(FileCreator(tmp_path / "executed")),
            )
    assert sign_in("ned", PASSWORD).status_code == 302
    assert not (tmp_path / "executed").exists()
    assert "this process counts failed attempts alone" in caplog.text


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
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", GUESSING, redis_server],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    statuses = "".join(process.communicate()[0] for process in processes).split()
    # each of the other two processes can have read the counter before the limit was reached
    assert (
        len(statuses) == 24
        and LIMIT <= statuses.count("200") <= LIMIT + 2
        and set(statuses) == {"200", "429"}
    )
    assert sign_in("nobody").status_code == 429


def test_the_attack_wrong_passwords_do_not_block_other_clients_of_a_server_that_listens_on_ipv6():
    attempts = [sign_in("ned", REMOTE_ADDR="::ffff:203.0.113.66").status_code for _ in range(LIMIT + 1)]
    assert attempts == [200] * LIMIT + [429]
    assert sign_in("ned", PASSWORD, REMOTE_ADDR="::ffff:198.51.100.7").status_code == 302
    assert sign_in("ned", PASSWORD, REMOTE_ADDR="203.0.113.66").status_code == 429


@pytest.mark.parametrize("address", ["203.0.113.9:{}", "[2001:db8::9]:{}", "x{}"])
def test_the_attack_changing_ports_behind_a_proxy_do_not_avoid_the_limit(settings, address):
    settings.REST_FRAMEWORK = settings.REST_FRAMEWORK | {"NUM_PROXIES": 1}
    attempts = [
        sign_in("ned", headers={"X-Forwarded-For": address.format(50_000 + number)})
        for number in range(LIMIT + 1)
    ]
    assert [response.status_code for response in attempts] == [200] * LIMIT + [429]


@pytest.mark.parametrize(
    ("path", "is_problem"), [("/api/v1/entities", True), ("/access/v1/evaluation", False)]
)
def test_unknown_tokens_block_an_address_but_not_valid_tokens(cast, monkeypatch, path, is_problem):
    monkeypatch.setattr(login_throttle, "MAX_TOKENS_PER_ADDRESS", 3)
    issued = create_token(author=SETUP, owner="ada", name="x", scopes=["read", "decide"], days=1)

    def call(secret):
        send = Client().get if is_problem else Client().post
        return send(path, content_type="application/json", headers={"Authorization": f"Bearer {secret}"})

    assert [call(f"azc_{number}").status_code for number in range(5)] == [401] * 3 + [429] * 2
    response = call("azc_x")
    sentence = response.json()["detail"] if is_problem else response.json()
    assert int(response["Retry-After"]) > 0 and sentence.startswith(
        "too many unknown tokens came from your address: wait"
    )
    assert call(issued.secret).status_code not in (401, 429)
    assert sign_in("ned", PASSWORD).status_code == 302
