"""deploy/install.sh installs a console that runs with the production packages only."""

import os
import re
import stat
import subprocess

import pytest

from tests.deploy.conftest import DEPLOY, KEY, ROOT, clean_environment

pytestmark = pytest.mark.slow


def test_the_health_check_of_the_container_accepts_a_running_console(installed_console):
    done = installed_console.run("healthcheck")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_health_check_of_the_container_refuses_a_console_that_does_not_answer(installation):
    environment = installation.environment | {"CONSOLE_ENVIRONMENT": "/dev/null", "PORT": "9"}
    done = subprocess.run(
        [installation.prefix / "bin" / "authzconsole", "healthcheck"], env=environment, capture_output=True
    )
    assert done.returncode == 1


def test_an_installation_contains_no_development_packages_and_no_installer(installation):
    program = "from importlib.util import find_spec as f; print([n for n in ('pytest', 'playwright', 'pip', 'uv') if f(n)])"
    done = subprocess.run(
        [installation.prefix / "venv" / "bin" / "python", "-c", program], capture_output=True, text=True
    )
    assert done.stdout == "[]\n"
    assert not (installation.prefix / "app" / "tests").exists()


@pytest.mark.skipif(
    "CONSOLE_FULL_INSTALL" not in os.environ, reason="only an installation from the index has it"
)
def test_an_installation_contains_the_documentation(installation):
    assert "Authorization console" in (installation.prefix / "docs" / "index.html").read_text()


def test_another_account_can_read_and_run_an_installation(installation):
    for path in installation.prefix.rglob("*"):
        needed = 0o005 if path.is_dir() or stat.S_IMODE(path.stat().st_mode) & stat.S_IXUSR else 0o004
        assert path.stat().st_mode & needed == needed, path


def test_the_console_writes_nothing_into_its_installation(installed_console):
    state = installed_console.prefix.parent / "state"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert (
        not (state / "static").exists()
        and not (state / "secret_key").exists()
        and (state / "console.sqlite3").exists()
    )
    started = (state / "console.sqlite3").stat().st_ctime
    newer = [
        path
        for path in installed_console.prefix.rglob("*")
        if path.is_file() and path.stat().st_mtime > started + 5
    ]
    assert newer == []


def test_production_settings_are_the_default_of_an_installation(installation):
    state = str(installation.prefix.parent / "other")
    environment = clean_environment() | {"CONSOLE_ENVIRONMENT": "/dev/null", "STATE_DIR": state}
    done = subprocess.run(
        [installation.prefix / "bin" / "authzconsole", "manage", "check"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (
        done.returncode != 0 and "- SECRET_KEY is missing" in done.stderr and "Traceback" not in done.stderr
    )


def test_keys_are_extracted_on_a_machine_that_lost_them(installation, tmp_path):
    """The settings name the files of the keys, which do not exist yet, so the command of docs/guides/backup.md does
    not read them.
    """
    passphrase, backup = tmp_path / "passphrase", tmp_path / "console.backup"
    passphrase.write_text("correct horse battery staple")
    written = installation.run("manage", "backup", str(backup), "--passphrase-file", str(passphrase))
    assert written.returncode == 0, written.stderr
    text = (ROOT / "docs" / "guides" / "backup.md").read_text()
    line = re.search(r"# (CONSOLE_ENVIRONMENT=.*?--extract-keys \S+)", text, re.DOTALL)[1].replace(
        "\\\n", " "
    )
    for named, path in (
        ("/srv/backups/2026-11-23.backup", backup),
        ("/root/passphrase", passphrase),
        ("/root/keys", tmp_path / "keys"),
        ("/opt/authzconsole", installation.prefix),
    ):
        assert named in line
        line = line.replace(named, str(path))
    done = subprocess.run(["sh", "-c", line], env=clean_environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        (tmp_path / "keys" / "secret_key").read_text()
        == KEY
        == (tmp_path / "keys" / "journal_keys").read_text()
    )


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        ([], {}, "usage:"),
        (["relative/folder"], {}, "usage:"),
        ([str(ROOT)], {}, "exists and is not empty"),
        (["/tmp/console-never-installed"], {"EXTRAS": "unknown"}, "extra-unknown.txt"),
    ],
)
def test_an_invalid_installation_is_refused(arguments, environment, message):
    done = subprocess.run(
        [DEPLOY / "install.sh", *arguments],
        env=clean_environment() | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and message in done.stderr


def test_the_programs_have_the_options_of_make_run():
    installed = (DEPLOY / "console.sh").read_text().replace("\\\n", " ")
    local = (ROOT / "authzconsole" / "ops" / "supervisord.conf").read_text().replace("%%", "%")
    for program in ("web", "worker", "light", "beat"):
        command = re.search(rf"\[program:{program}\]\ncommand=(.*)", local)[1]
        expected = (
            command.split('" ', 1)[1]
            .replace('"%(ENV_CONSOLE_HOST)s"', "HOST")
            .replace("%(ENV_CONSOLE_PORT)s", "PORT")
        )
        line = re.search(rf'^{program}\)\s+exec "\$python" (.*)', installed, re.MULTILINE)[1]
        actual = line.replace('"${HOST:-127.0.0.1}"', "HOST").replace('"${PORT:-8000}"', "PORT")
        assert actual.split() == expected.split(), program
