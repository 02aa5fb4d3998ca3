import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from authzconsole.ops import machine

COMMAND = [sys.executable, "-m", "authzconsole.ops.postgres", "--"]
PRINT_FOLDER = (
    "import os, psycopg\n"
    "with psycopg.connect(os.environ['DATABASE_URL']) as c:\n"
    "    print(c.execute('show unix_socket_directories').fetchone()[0])"
)

pytestmark = pytest.mark.skipif(machine.postgresql_folder() is None, reason="PostgreSQL is not installed")


def test_a_command_gets_a_server_that_is_removed_afterwards():
    completed = subprocess.run([*COMMAND, sys.executable, "-c", PRINT_FOLDER], capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    assert "console-pg-" in completed.stdout
    assert not Path(completed.stdout.strip()).exists()


def test_the_exit_status_of_the_command_is_returned():
    assert subprocess.run([*COMMAND, "sh", "-c", "exit 3"]).returncode == 3


def test_a_terminated_command_leaves_neither_server_nor_folder():
    script = f"{PRINT_FOLDER.replace('0])', '0], flush=True)')}\nimport time; time.sleep(60)"
    with subprocess.Popen(
        [*COMMAND, sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        folder = Path(running.stdout.readline().strip())
        assert folder.is_dir()
        server = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        os.killpg(running.pid, signal.SIGTERM)
        assert running.wait(20) == 130
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


def test_a_killed_wrapper_stops_its_server():
    with subprocess.Popen([*COMMAND, "sleep", "60"], start_new_session=True) as running:
        deadline = time.monotonic() + 20
        while not (server := _postmaster_of(running.pid)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        folder = _folder_of(server)
        os.killpg(running.pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while _is_running(server) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _is_running(server)
    # the killed command could not remove the folder; check the name first, so that no other folder is deleted
    assert folder.name.startswith("console-pg-")
    shutil.rmtree(folder)


def _folder_of(server):
    """Return the folder from the arguments of the server, because its working folder changes while it starts."""
    arguments = Path(f"/proc/{server}/cmdline").read_text().split("\0")
    return Path(arguments[arguments.index("-D") + 1]).parent


def _postmaster_of(parent):
    output = subprocess.run(
        ["ps", "--ppid", str(parent), "-o", "pid=,comm="], capture_output=True, text=True
    ).stdout
    return next((int(line.split()[0]) for line in output.splitlines() if line.endswith("postgres")), None)


def _is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
