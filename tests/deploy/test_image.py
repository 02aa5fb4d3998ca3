"""An image that was built from deploy/Containerfile.

`CONSOLE_IMAGE=authzconsole:1.1.0 make image-check` tests it.
"""

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

IMAGE = os.environ.get("CONSOLE_IMAGE", "")
ENGINE = next(filter(shutil.which, ("podman", "docker")), "")
pytestmark = pytest.mark.skipif(
    not (IMAGE and ENGINE), reason="CONSOLE_IMAGE names no image, or there is no engine"
)
# as in deploy/compose.yaml; Docker mounts a tmpfs with these options. Not every engine has a timer for health
# checks.
HARDENED = (
    "--read-only",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--tmpfs=/tmp:mode=1777,noexec,nosuid,nodev",
    "--network=none",
    "--no-healthcheck",
)
# the test needs no other server, so the database is a file, and the analysis runs in the foreground
SETTINGS = {
    "PUBLIC_URL": "https://console.example.com",
    "SQLITE_IN_PRODUCTION": "true",
    "SECRET_KEY": secrets.token_urlsafe(60),
    "JOURNAL_KEYS": secrets.token_urlsafe(60),
    "REDIS_URL": "redis://127.0.0.1:6379/0",
}
STATE = "/var/lib/authzconsole"
TENANT = """{"type":"entity","id":"dataset:sales.orders"}
{"type":"user","name":"alice"}
{"type":"grant","principal":"user:alice","entity":"dataset:sales.orders","privileges":["READ"]}
"""
Console = Callable[..., subprocess.CompletedProcess]


def engine(*arguments: str, check: bool = True, text: str = "") -> subprocess.CompletedProcess:
    done = subprocess.run([ENGINE, *arguments], capture_output=True, text=True, input=text)
    assert not check or done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done


def run(*arguments: str, entrypoint: str = "") -> subprocess.CompletedProcess:
    changed = (f"--entrypoint={entrypoint}",) if entrypoint else ()
    return engine("run", "--rm", *HARDENED, *changed, IMAGE, *arguments, check=False)


def in_shell(script: str) -> str:
    """Return what a script prints in the container."""
    done = run("-c", script, entrypoint="/bin/sh")
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def volume() -> Iterator[str]:
    name = f"authzconsole-test-{secrets.token_hex(4)}"
    engine("volume", "create", name)
    try:
        yield name
    finally:
        engine("volume", "rm", "--force", name)


def options_of(state: str) -> list[str]:
    return [
        *HARDENED,
        f"--volume={state}:{STATE}",
        *(f"--env={name}={value}" for name, value in SETTINGS.items()),
    ]


def manage(state: str, *command: str, options: tuple[str, ...] = (), text: str = "") -> str:
    """Run a management command on the state of a volume, and return what it prints."""
    return engine(
        "run", "--rm", "--interactive", *options_of(state), *options, IMAGE, "manage", *command, text=text
    ).stdout


def test_the_programs_run_without_root_and_write_to_their_state_only():
    script = f"id -u; touch {STATE}/a && echo written; touch /opt/authzconsole/a 2>/dev/null || echo refused"
    assert in_shell(script).split() == ["10001", "written", "refused"]


def test_the_image_has_java_and_the_database_client_and_no_installer_and_no_compiler():
    assert "17." in in_shell("java -version 2>&1") and " 15." in in_shell("pg_dump --version")
    assert in_shell("for name in pip gcc cc uv; do command -v $name; done; true") == ""
    found = "from importlib.util import find_spec as f; print([n for n in ('pip', 'pytest', 'setuptools') if f(n)])"
    for python in ("python3", "/opt/authzconsole/venv/bin/python"):
        assert in_shell(f'{python} -c "{found}"') == "[]\n"


def test_an_image_without_settings_names_what_is_missing():
    done = run("manage", "check")
    assert (
        done.returncode != 0 and "- SECRET_KEY is missing" in done.stderr and "Traceback" not in done.stderr
    )
    assert run("unknown").returncode == 2


def test_a_console_is_set_up_analyzed_served_and_restored_in_the_image():
    with volume() as state, volume() as restored:
        manage(state, "migrate", "--noinput")
        manage(state, "check", "--deploy", "--fail-level", "WARNING")
        assert re.search(r"[Pp]assword", manage(state, "bootstrap"))
        manage(state, "import_tenant", "-", text=TENANT)
        # Java and its workers write to the state folder only
        assert "alice" in manage(state, "analyze", "visibility")
        wait_for_web_server(state)
        manage(state, "backup", f"{STATE}/night.backup", "--without-keys")
        manage(restored, "restore", "/from/night.backup", options=(f"--volume={state}:/from:ro",))
        manage(restored, "verify_journal")
        assert manage(restored, "export_tenant") == manage(state, "export_tenant")


def wait_for_web_server(state: str) -> None:
    """Start the web server, and wait until it is healthy."""
    name = f"{state}-web"
    engine("run", "--detach", "--name", name, *options_of(state), IMAGE)
    try:
        for _ in range(60):
            done = engine("exec", name, "/opt/authzconsole/bin/authzconsole", "healthcheck", check=False)
            if done.returncode == 0:
                break
            time.sleep(1)
        assert done.returncode == 0, (done.stderr, engine("logs", name).stderr)
    finally:
        engine("rm", "--force", "--volumes", name)
