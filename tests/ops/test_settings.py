"""Invalid environment variables stop the start with a message, and secrets are stored privately."""

import os
import re
import stat
import subprocess
import sys

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from authzconsole.settings import analyses


def load_settings(tmp_path, **environment):
    """Read the settings in a new process."""
    program = "import django; django.setup(); from django.conf import settings; print(settings.SECRET_KEY)"
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DATABASE_URL", "REDIS_URL", "SECRET_KEY")
    }
    variables |= {
        "DJANGO_SETTINGS_MODULE": "authzconsole.settings",
        "STATE_DIR": str(tmp_path / "state"),
    } | environment
    return subprocess.run(
        [sys.executable, "-c", program], cwd=settings.BASE_DIR, env=variables, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("DEFAULT_GENERATION", "newest", "DEFAULT_GENERATION: `newest` is not a generation of rules"),
        ("REDIS_URL", "localhost:6379", "REDIS_URL must be written redis://"),
        ("LOG_FORMAT", "xml", "LOG_FORMAT is 'xml'; it must be one of: text, json"),
        ("RUN_TIMEOUT_SECONDS", "0", "RUN_TIMEOUT_SECONDS is 0, but must be at least 1"),
        ("RATE_LIMIT_PER_TOKEN", "many", "RATE_LIMIT_PER_TOKEN is 'many'; write it as 600/min"),
        ("MFA_REQUIRED_ROLES", "admin", "MFA_REQUIRED_ROLES: `admin` is not a console role"),
        ("OIDC_PROVIDERS", "corp", "OIDC_PROVIDERS is not valid JSON"),
        ("KINDS_FILE", "/nowhere/kinds.toml", "the kinds in /nowhere/kinds.toml cannot be read"),
    ],
)
def test_an_invalid_value_stops_the_start_with_a_message(tmp_path, name, value, sentence):
    process = load_settings(tmp_path, **{name: value})
    assert process.returncode != 0 and sentence in process.stderr


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("spark.executor.memory=4g", "SPARK_CONF is not valid JSON"),
        ('["spark.executor.memory"]', "SPARK_CONF must be one JSON object"),
        ('{"executor.memory": "4g"}', "but `executor.memory` is not"),
        ('{"spark.executor.memory": null}', "but `spark.executor.memory` is not"),
        (
            '{"spark.master": "yarn"}',
            "spark.master has its own environment variable: set SPARK_MASTER",
        ),
    ],
)
def test_invalid_options_of_spark_are_refused(monkeypatch, value, sentence):
    monkeypatch.setenv("SPARK_CONF", value)
    with pytest.raises(ImproperlyConfigured, match=re.escape(sentence)):
        analyses._spark_conf()


def test_the_secret_key_is_created_once_and_readable_by_its_owner_only(tmp_path):
    first, second = load_settings(tmp_path), load_settings(tmp_path)
    assert first.stdout == second.stdout != "\n"
    folder = tmp_path / "state"
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        "secret_key": 0o600,
        "journal_keys": 0o600,
        "tmp": 0o700,
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_empty_secret_key_is_refused_with_a_remedy(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "secret_key").touch()
    process = load_settings(tmp_path)
    assert process.returncode != 0 and "is empty: remove it" in process.stderr


def test_commands_create_private_files(tmp_path):
    """The umask of the Celery processes is tested with a run (tests/analytics/runs/test_worker.py)."""
    program = "import os; print(oct(os.umask(0)))"
    process = subprocess.run(
        [sys.executable, "manage.py", "shell", "--verbosity", "0", "-c", program],
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        umask=0o022,
    )
    assert process.stdout == "0o77\n", process.stderr


def test_the_lock_of_the_console_creates_a_private_state_folder(tmp_path):
    program = (
        "import sys; from pathlib import Path; from authzconsole.ops.address import ListenAddress;"
        "from authzconsole.ops.run import console_lock\n"
        "with console_lock(Path(sys.argv[1]), ListenAddress('127.0.0.1', 1, 'http://x')): pass"
    )
    path = tmp_path / "state" / "run" / "console.lock"
    subprocess.run([sys.executable, "-c", program, path], cwd=settings.BASE_DIR, check=True, umask=0o022)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)] == [
        0o700,
        0o700,
    ]
