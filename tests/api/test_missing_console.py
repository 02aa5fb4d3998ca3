"""Commands refuse to run without a console. These tests use no database of the tests, so they run once."""

import os
import subprocess
import sys

import pytest
from django.conf import settings
from django.core.management import get_commands, load_command_class

from grants.management.console_command import ConsoleCommand

# `bootstrap` creates the console, and auditors verify evidence on machines without a console
WITHOUT_CONSOLE = {"bootstrap", "verify_evidence"}


def test_every_other_command_requires_an_existing_console():
    names = [
        name for name, app in get_commands().items() if app == "authzconsole" and name not in WITHOUT_CONSOLE
    ]
    assert len(names) > 6
    for name in names:
        assert isinstance(load_command_class("authzconsole", name), ConsoleCommand), name


@pytest.mark.parametrize("arguments", [("create_token", "admin", "--scope", "read"), ("decide",)])
@pytest.mark.parametrize("is_file_there", [False, True])
def test_a_command_without_a_console_fails_and_creates_no_database(tmp_path, arguments, is_file_there):
    file = tmp_path / "console.sqlite3"
    if is_file_there:
        file.touch()
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"} | {
        "STATE_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "authzconsole.settings",
    }
    process = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=settings.BASE_DIR,
        env=environment,
        input="{}\n",
        capture_output=True,
        text=True,
    )
    assert process.returncode == 1 and process.stdout == ""
    assert process.stderr.strip() == (
        f"CommandError: there is no console in {file}: are STATE_DIR and DATABASE_URL set as they were for `make run`? "
        f"`manage.py bootstrap` creates a new console"
    )
    assert file.exists() == is_file_there
