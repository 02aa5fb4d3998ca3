"""Test starting and stopping the console with `make run`."""

import contextlib
import errno
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from authzconsole.ops import ROOT, Refusal
from authzconsole.ops.address import ListenAddress, check_port, free_port, health_status, listen_address
from authzconsole.ops.processes import session_members
from authzconsole.ops.run import console_lock


def test_port_host_and_public_url_determine_the_listen_address():
    assert listen_address({}) == ListenAddress("127.0.0.1", 8000, "http://127.0.0.1:8000")
    assert listen_address({"PORT": "8123"}).url == "http://127.0.0.1:8123"
    assert (
        listen_address({"PORT": "8123", "PUBLIC_URL": "https://console.example/"}).url
        == "https://console.example"
    )
    assert listen_address({"HOST": "::1"}).bind == "[::1]:8000"
    assert listen_address({"HOST": "0.0.0.0"}).reachable_host == "127.0.0.1"


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1", "80.0", "٨٠"])
def test_an_invalid_port_is_refused(port):
    with pytest.raises(Refusal, match="must be a number from 1 to 65535"):
        listen_address({"PORT": port})


def test_a_port_in_use_is_refused_and_another_port_is_suggested():
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        port = occupied.getsockname()[1]
        with pytest.raises(
            Refusal, match=rf"Port {port} of 127\.0\.0\.1 is in use by another program.*PORT=\d+ make run"
        ):
            check_port(listen_address({"PORT": str(port)}))
    check_port(listen_address({"PORT": str(port)}))


def test_a_host_of_another_machine_is_refused():
    with pytest.raises(
        Refusal, match=r"Cannot listen on 192\.0\.2\.1:8000.*HOST must be an address of this machine"
    ):
        check_port(listen_address({"HOST": "192.0.2.1"}))


def test_a_second_console_of_a_checkout_is_refused_and_the_first_one_is_named(tmp_path):
    lock, address = tmp_path / "run" / "console.lock", listen_address({"PORT": "8123"})
    with console_lock(lock, address):
        with pytest.raises(
            Refusal, match=rf"is already running: http://127\.0\.0\.1:8123, process {os.getpid()}\."
        ):
            with console_lock(lock, listen_address({})):
                pass
    with console_lock(lock, address), lock.open() as file, pytest.raises(OSError) as occupied:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert occupied.value.errno == errno.EWOULDBLOCK


class Console:
    """Run `make run` with a separate state folder and port."""

    def __init__(self, folder, **environment):
        self.port, self.output = free_port(), folder / "output"
        variables = {
            "PORT": str(self.port),
            "STATE_DIR": str(folder / "state"),
            "FIRST_ANALYSES": "off",
            "SPARK_STARTS_EARLY": "off",
            **environment,
        }
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "PUBLIC_URL")
        }
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ops.run"],
                cwd=ROOT / "authzconsole",
                env=inherited | variables,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_for_output(self, text):
        deadline = time.monotonic() + 180
        while text not in self.output.read_text():
            assert self.process.poll() is None and time.monotonic() < deadline, self.output.read_text()
            time.sleep(0.1)

    def supervisor(self):
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True
        )
        return int(children.stdout)


@contextlib.contextmanager
def running_console(folder):
    """Start a console in this folder, wait until it answers, and yield it."""
    console = Console(folder)
    try:
        console.wait_for_output(f"The console is at http://127.0.0.1:{console.port}")
        yield console
    finally:
        if console.process.poll() is None:
            console.process.send_signal(signal.SIGTERM)
            console.process.wait()


def check_answer_and_stop(console, folder, signum):
    """Check that the console answers, end it with the signal, and check that nothing is left.

    Return its exit status.
    """
    with pytest.raises(urllib.error.HTTPError) as answer:
        urllib.request.urlopen(f"http://127.0.0.1:{console.port}/no-such-page", timeout=10)
    with answer.value as refused:
        assert refused.code < 500
    session = console.supervisor()
    assert len(list(session_members(session))) >= 8
    console.process.send_signal(signum)
    status = console.process.wait(60)
    deadline = time.monotonic() + 30
    while list(session_members(session)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(session_members(session)) == []
    check_port(listen_address({"PORT": str(console.port)}))
    assert not (folder / "state" / "run" / "supervisord.pid").exists()
    return status


def kill_web_server(console):
    """Kill the web server and wait until the console reports this and answers again."""
    web = subprocess.run(
        ["pgrep", "--session", str(console.supervisor()), "--oldest", "--full", "granian"],
        capture_output=True,
        text=True,
    ).stdout
    os.kill(int(web), signal.SIGKILL)
    console.wait_for_output("web stopped (terminated by SIGKILL) and is restarted")
    address, deadline = listen_address({"PORT": str(console.port)}), time.monotonic() + 30
    while health_status(address) is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.worker
def test_the_console_prints_a_password_once_restarts_programs_and_leaves_no_process_running(tmp_path):
    """All starts share one state folder, because only the first one prepares the database, which takes most
    of the time.
    """
    with running_console(tmp_path) as console:
        assert re.search(r"Sign in as admin with the password \S{20,}\n", console.output.read_text())
        assert check_answer_and_stop(console, tmp_path, signal.SIGINT) == 0
    with running_console(tmp_path) as console:
        assert "password" not in console.output.read_text()
        kill_web_server(console)
        assert check_answer_and_stop(console, tmp_path, signal.SIGTERM) == 0
    with running_console(tmp_path) as console:
        check_answer_and_stop(console, tmp_path, signal.SIGKILL)
