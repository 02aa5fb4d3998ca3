import os
import signal
import subprocess
import sys
import time

import pytest

from authzconsole.ops.processes import end_session, run_command, session_members

RUN = (
    "from authzconsole.ops.processes import *\nimport sys\ninterrupt_on_signals()\nrun_command(sys.argv[1:])"
)

# a machine under load may interrupt the parent when its child already runs, but Popen() has not returned
SLOW_START = (
    "import subprocess, time\nstart = subprocess.Popen.__init__\n"
    "def start_slowly(*arguments, **options): start(*arguments, **options); time.sleep(0.4)\n"
    "subprocess.Popen.__init__ = start_slowly\n"
)


def has_ended(pid):
    deadline = time.monotonic() + 10
    while list(session_members(pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not list(session_members(pid))


def test_remaining_processes_of_a_session_are_killed_even_if_they_ignore_signals():
    stubborn = "trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) & echo here; wait"
    with subprocess.Popen(["sh", "-c", stubborn], start_new_session=True, stdout=subprocess.PIPE) as first:
        first.stdout.readline()
        assert len(list(session_members(first.pid))) >= 2
        end_session(first.pid, patience_seconds=0.3)
        assert has_ended(first.pid)


@pytest.mark.parametrize("signum", [signal.SIGQUIT, signal.SIGTERM])
def test_a_child_dies_with_its_parent_even_if_a_shell_ignored_the_signal(signum):
    parent = (
        "import subprocess, time\nfrom authzconsole.ops.processes import die_with_parent\n"
        "child = subprocess.Popen(['sleep', '60'], start_new_session=True, "
        f"preexec_fn=die_with_parent({int(signum)}))\nprint(child.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signum, signal.SIG_IGN),
    ) as running:
        child = int(running.stdout.readline())
        running.kill()
    try:
        assert has_ended(child)
    finally:
        end_session(child)


def test_a_command_leaves_no_process_behind(tmp_path):
    assert run_command(["sh", "-c", f"sleep 60 & echo $$ > {tmp_path}/session; exit 4"]) == 4
    assert has_ended(int((tmp_path / "session").read_text()))


@pytest.mark.parametrize("parent", [RUN, SLOW_START + RUN], ids=["waits", "starts"])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_command_cleans_up_before_it_exits_after_any_number_of_signals(
    tmp_path, signum, times, parent
):
    cleaning = (
        "import pathlib, time\ntry: print('here', flush=True); time.sleep(60)\n"
        f"finally: time.sleep(0.5); pathlib.Path(r'{tmp_path}/clean').touch()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent, sys.executable, "-c", cleaning],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as running:
        running.stdout.readline()
        for _ in range(times):
            os.kill(running.pid, signum)
            time.sleep(0.1)
        assert running.wait(20) != 0
    assert (tmp_path / "clean").exists()
