"""With PRODUCTION, the console refuses to start in an unsafe state and names every problem."""

import json
import os
import subprocess
import sys

import pytest
from django.conf import settings

from authzconsole.settings.environment import FileVariables
from authzconsole.settings.production import unsafe_settings
from authzconsole.settings.servers import with_password

KEY = "k3y-" * 4 + "abcdefghijklmnopqrstuvwxyz0123456789"
SAFE = {
    "PRODUCTION": "true",
    "PUBLIC_URL": "https://console.example",
    "SQLITE_IN_PRODUCTION": "true",
    "SECRET_KEY": KEY,
    "JOURNAL_KEYS": KEY,
}
SQLITE = {"ENGINE": "django.db.backends.sqlite3"}
CLUSTER = {"spark_master": "spark://master.example:7077"}
SECRET = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "secret@spark",
    "spark.network.crypto.enabled": "true",
}
POSTGRES = {
    "ENGINE": "django.db.backends.postgresql",
    "HOST": "db.example",
    "OPTIONS": {"sslmode": "verify-full"},
}


@pytest.fixture
def safe(tmp_path):
    tmp_path.chmod(0o700)
    return {
        "debug": False,
        "secret_key": KEY,
        "journal_keys": [KEY],
        "database": POSTGRES,
        "sqlite_is_permitted": False,
        "public_url": "https://console.example",
        "allowed_hosts": ["console.example"],
        "redis_url": "rediss://:secret@redis.example:6379/0",
        "trusted_proxies": ["127.0.0.0/8", "::1/128"],
        "state_folder": tmp_path,
        "spark_master": "local[*]",
        "spark_conf": {},
    }


def test_safe_settings_have_no_problem(safe):
    assert unsafe_settings(**safe) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"debug": True}, "DEBUG is on"),
        ({"secret_key": ""}, "SECRET_KEY is missing"),
        ({"secret_key": "short"}, "SECRET_KEY can be guessed"),
        ({"secret_key": "a" * 60}, "SECRET_KEY can be guessed"),
        ({"journal_keys": []}, "JOURNAL_KEYS is missing"),
        ({"database": SQLITE}, "DATABASE_URL is SQLite"),
        ({"database": POSTGRES | {"OPTIONS": {}}}, "DATABASE_URL does not verify the server db.example"),
        (
            {"database": POSTGRES | {"OPTIONS": {"sslmode": "require"}}},
            "DATABASE_URL does not verify the server db.example",
        ),
        ({"public_url": "http://console.example"}, "PUBLIC_URL is http://console.example"),
        ({"allowed_hosts": ["*"]}, "ALLOWED_HOSTS contains *"),
        ({"allowed_hosts": ["console.example", "localhost"]}, "ALLOWED_HOSTS contains localhost"),
        ({"allowed_hosts": ["[::1]"]}, "ALLOWED_HOSTS contains [::1]"),
        ({"redis_url": "rediss://redis.example:6379/0"}, "REDIS_URL has no password"),
        ({"redis_url": "redis://:secret@redis.example:6379/0"}, "REDIS_URL does not encrypt the connection"),
        (
            {"redis_url": "rediss://:secret@redis.example:6379/0?ssl_cert_reqs=none"},
            "REDIS_URL does not verify the server",
        ),
        (
            {"redis_url": "rediss://:secret@redis.example:6379/0?ssl_check_hostname=false"},
            "REDIS_URL does not verify the server",
        ),
        ({"trusted_proxies": ["0.0.0.0/0"]}, "TRUSTED_PROXIES contains 0.0.0.0/0"),
        ({"trusted_proxies": ["::/0"]}, "TRUSTED_PROXIES contains ::/0"),
        ({"trusted_proxies": ["proxy.example"]}, "TRUSTED_PROXIES is invalid"),
        (
            CLUSTER,
            "SPARK_CONF does not protect the connections of spark://master.example:7077 (spark.authenticate, "
            "spark.network.crypto.enabled, spark.authenticate.secret)",
        ),
        (
            CLUSTER | {"spark_conf": {**SECRET, "spark.authenticate.secret": ""}},
            "SPARK_CONF does not protect",
        ),
        (
            CLUSTER | {"spark_conf": {**SECRET, "spark.network.crypto.enabled": "false"}},
            "SPARK_CONF does not protect",
        ),
        (
            {"spark_master": "yarn", "spark_conf": {"spark.authenticate": "false"}},
            "SPARK_CONF does not protect",
        ),
    ],
)
def test_an_unsafe_setting_is_a_problem(safe, changes, problem):
    problems = unsafe_settings(**safe | changes)
    assert len(problems) == 1 and problems[0].startswith(problem)
    assert ": " in problems[0] and "secret@" not in problems[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"database": SQLITE, "sqlite_is_permitted": True},
        {"database": POSTGRES | {"HOST": "", "OPTIONS": {"host": "/run/postgresql"}}},
        {"database": POSTGRES | {"HOST": "127.0.0.1", "OPTIONS": {}}},
        {"redis_url": "redis://127.0.0.1:6379/0"},
        {"redis_url": "rediss://:secret@redis.example:6379/0?ssl_cert_reqs=required&ssl_ca_certs=/ca.crt"},
        {"trusted_proxies": ["172.30.13.0/28"]},
        CLUSTER | {"spark_conf": SECRET},
        {"spark_master": "yarn"},
    ],
)
def test_protected_and_local_connections_are_no_problem(safe, changes):
    assert unsafe_settings(**safe | changes) == []


def test_a_state_folder_that_others_can_read_is_a_problem(safe):
    safe["state_folder"].chmod(0o755)
    [problem] = unsafe_settings(**safe)
    assert "has the mode 0755" in problem and f"chmod 0700 {safe['state_folder']}" in problem


def run_console(tmp_path, *arguments, **variables):
    inherited = {
        name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "JAVA_HOME")
    }
    defaults = {"DJANGO_SETTINGS_MODULE": "authzconsole.settings", "STATE_DIR": str(tmp_path / "state")}
    environment = inherited | defaults | variables
    return subprocess.run(
        [sys.executable, *arguments], cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True
    )


def test_an_unsafe_start_names_all_problems_at_once_without_a_traceback(tmp_path):
    done = run_console(
        tmp_path,
        "manage.py",
        "migrate",
        PRODUCTION="true",
        DEBUG="true",
        REDIS_URL="redis://:opensesame@r:6379/0",
    )
    assert done.returncode != 0
    for problem in (
        "DEBUG is on",
        "SECRET_KEY is missing",
        "JOURNAL_KEYS is missing",
        "DATABASE_URL is SQLite",
        "PUBLIC_URL is",
        "ALLOWED_HOSTS contains localhost",
        "REDIS_URL does not encrypt",
    ):
        assert f"- {problem}" in done.stderr
    assert "Traceback" not in done.stderr and "opensesame" not in done.stderr
    # no key is generated, and no database is created
    assert {path.name for path in (tmp_path / "state").iterdir()} <= {"tmp"}


def test_the_web_server_does_not_start_in_an_unsafe_state(tmp_path):
    done = run_console(tmp_path, "-c", "import authzconsole.server_worker", PRODUCTION="true")
    assert done.returncode != 0 and "SECRET_KEY is missing" in done.stderr


def test_the_deployment_check_has_no_findings_in_production(tmp_path):
    done = run_console(tmp_path, "manage.py", "check", "--deploy", "--fail-level", "WARNING", **SAFE)
    assert done.returncode == 0, done.stderr
    # only the check of guardian about a feature that decisions do not use
    assert "no issues (1 silenced)" in done.stdout + done.stderr


def https_settings(tmp_path, **variables):
    names = (
        "ALLOWED_HOSTS",
        "SESSION_COOKIE_NAME",
        "SESSION_COOKIE_SECURE",
        "CSRF_COOKIE_NAME",
        "CSRF_COOKIE_SECURE",
        "MESSAGE_STORAGE",
        "SECRET_KEY_FALLBACKS",
        "SECURE_SSL_REDIRECT",
        "SECURE_HSTS_SECONDS",
    )
    program = f"import json; from django.conf import settings; print(json.dumps([getattr(settings, n) for n in {names}]))"
    done = run_console(tmp_path, "-c", program, **variables)
    assert done.returncode == 0, done.stderr
    return dict(zip(names, json.loads(done.stdout), strict=True))


def test_over_https_cookies_belong_to_one_host_and_localhost_is_not_served(tmp_path):
    values = https_settings(
        tmp_path, PUBLIC_URL="https://console.example", SECRET_KEY_FALLBACKS="former1,former2"
    )
    assert values == {
        "ALLOWED_HOSTS": ["console.example"],
        "SESSION_COOKIE_NAME": "__Host-sessionid",
        "SESSION_COOKIE_SECURE": True,
        "CSRF_COOKIE_NAME": "__Host-csrftoken",
        "CSRF_COOKIE_SECURE": True,
        "SECURE_SSL_REDIRECT": True,
        "MESSAGE_STORAGE": "authzconsole.common.messages.HostMessageStorage",
        "SECRET_KEY_FALLBACKS": ["former1", "former2"],
        "SECURE_HSTS_SECONDS": 31_536_000,
    }


def test_over_http_cookies_keep_their_names():
    assert (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME) == ("sessionid", "csrftoken")
    assert not settings.SESSION_COOKIE_SECURE and not settings.SECURE_SSL_REDIRECT
    assert {"127.0.0.1", "localhost"} <= set(settings.ALLOWED_HOSTS)


def test_secrets_are_read_from_files(tmp_path):
    for name, text in (("key", f"{KEY}\n"), ("journal", f"{KEY},{KEY[::-1]}\n"), ("redis", "p@ss/word\n")):
        (tmp_path / name).write_text(text)
    program = (
        "from django.conf import settings as s; "
        "print(s.SECRET_KEY, s.JOURNAL_KEYS, s.REDIS_URL, s.DATABASES['default']['PASSWORD'])"
    )
    done = run_console(
        tmp_path,
        "-c",
        program,
        SECRET_KEY_FILE=str(tmp_path / "key"),
        JOURNAL_KEYS_FILE=str(tmp_path / "journal"),
        REDIS_URL="rediss://redis:6379/0",
        REDIS_PASSWORD_FILE=str(tmp_path / "redis"),
        DATABASE_URL="postgres://console@db/console",
        DATABASE_PASSWORD_FILE=str(tmp_path / "redis"),
    )
    assert done.stdout.strip() == (
        f"{KEY} {[KEY, KEY[::-1]]} rediss://:p%40ss%2Fword@redis:6379/0 p@ss/word"
    ), done.stderr


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"SECRET_KEY_FILE": "/nowhere/key"},
            "SECRET_KEY_FILE: /nowhere/key cannot be read (No such file or directory)",
        ),
        ({"SECRET_KEY_FILE": "/dev/null"}, "SECRET_KEY_FILE: /dev/null is empty"),
        ({"SECRET_KEY_FILE": "/dev/null", "SECRET_KEY": KEY}, "SECRET_KEY and SECRET_KEY_FILE are both set"),
    ],
)
def test_an_unusable_secret_file_is_an_error(variables, message):
    with pytest.raises(Exception, match="SECRET_KEY") as error:
        FileVariables(variables)["SECRET_KEY"]
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://host:6379/0", "redis://:new@host:6379/0"),
        ("rediss://user:old@host:6379/0?a=b", "rediss://user:new@host:6379/0?a=b"),
        ("redis://user@[::1]:6379/0", "redis://user:new@[::1]:6379/0"),
    ],
)
def test_the_password_of_redis_is_put_into_its_url(url, expected):
    assert with_password(url, "new") == expected
