"""The project's own `.venv`, holding exactly what the lock files name."""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from . import ROOT, VENV, VENV_PYTHON, Refusal
from .machine import Tool
from .packages import packages_install

# what building the few source distributions takes comes first, so that building downloads nothing that is not pinned
LOCKS = (ROOT / "requirements-build.lock", ROOT / "requirements.lock")
STAMP = VENV / "installed"


def _fingerprint() -> str:
    """Changes with the locks, with the place (scripts of a .venv name it) and with the interpreter."""
    digest = hashlib.sha256(f"{VENV} {sys.version_info[:2]}".encode())
    for lock in LOCKS:
        digest.update(lock.read_bytes())
    return digest.hexdigest()


def is_complete() -> bool:
    """An interrupted installation has no stamp: it is written last."""
    if not STAMP.is_file() or STAMP.read_text() != _fingerprint():
        return False
    try:
        return subprocess.run([VENV_PYTHON, "-ISc", ""], capture_output=True).returncode == 0
    except OSError:
        # the Python that it was made from is gone
        return False


@contextlib.contextmanager
def one_at_a_time(path: Path = ROOT / "var" / "setup.lock") -> Iterator[None]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another setup of this checkout is at work; waiting for it ...", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _interpreter() -> str:
    """Never the one of an activated .venv, which is about to be cleared."""
    return getattr(sys, "_base_executable", sys.executable)


def _venv_module_ensure() -> None:
    """Debian keeps part of Python's own venv module in a package of its own."""
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return
    package = f"python3.{sys.version_info.minor}-venv"
    if not _interpreter().startswith("/usr/bin/"):
        raise Refusal(f"{_interpreter()} has no `venv` module (or no `ensurepip`), so .venv cannot be made. "
                      "Name another Python: make PYTHON=python3.12 setup")
    packages_install([Tool("Python's venv module", lambda: None, (package, "python3-venv"))])


def _pip_install(lock: Path, *options: str) -> bool:
    # a user's own `user = true` would refuse to install into .venv; older pips build the old way unless told otherwise
    environment = {**os.environ, "PIP_USER": "0", "PIP_USE_PEP517": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = [VENV_PYTHON, "-m", "pip", "install", "--quiet", "--require-hashes", *options, "-r", lock]
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode == 0


def environment_ensure() -> None:
    if is_complete():
        return
    if VENV.is_symlink():
        # making it anew would empty what the link leads to, which may be another checkout's
        raise Refusal(f"{VENV} is a symbolic link to {VENV.readlink()}, which lacks what this checkout needs. Nothing was "
                      f"changed there. Remove the link (rm {VENV}), and the same command makes an environment of its own.")
    _venv_module_ensure()
    print("Installing the Python packages into .venv (a minute or two, the first time) ...", file=sys.stderr, flush=True)
    STAMP.unlink(missing_ok=True)
    # from nothing: what a previous lock left behind would hide a missing dependency
    if subprocess.run([_interpreter(), "-m", "venv", "--clear", VENV], stdout=sys.stderr).returncode != 0:
        raise Refusal(f"{_interpreter()} could not make .venv; its message is above.")
    if not (_pip_install(LOCKS[0]) and _pip_install(LOCKS[1], "--no-build-isolation")):
        raise Refusal("pip could not install the locked versions; its message is above. "
                      "Once the cause is gone, the same command starts afresh.")
    STAMP.write_text(_fingerprint())
