"""The project's `.venv`: pip installs uv, and uv installs exactly the packages of one lock file.

The lock files in requirements/ are hashed requirements and not a `uv.lock`, because a `uv.lock` records the
URLs of the index and of every file. Hashed requirements work with every mirror that UV_DEFAULT_INDEX names.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import ROOT, VENV, VENV_PYTHON, Refusal
from .machine import Tool
from .packages import install_packages

LOCKS = ROOT / "requirements"
# a step writes its stamp last, so that an interrupted step leaves no stamp
VENV_STAMP, PACKAGES_STAMP = VENV / "created", VENV / "installed"


def _digest(lock: str) -> str:
    return hashlib.sha256((LOCKS / lock).read_bytes()).hexdigest()


def _venv_state() -> str:
    """Return a string that identifies the location of .venv, its Python version and the version of uv.

    The location matters because scripts in .venv contain it.
    """
    return f"{VENV} {sys.version_info[:2]} {_digest('uv.txt')}"


def _packages_state(group: str) -> str:
    return f"{_venv_state()} {group} {_digest('build.txt')} {_digest(f'{group}.txt')}"


def _has_stamp(stamp: Path, *states: str) -> bool:
    if not stamp.is_file() or stamp.read_text() not in states:
        return False
    try:
        return subprocess.run([VENV_PYTHON, "-ISc", ""], capture_output=True).returncode == 0
    except OSError:
        # the Python that created .venv no longer exists
        return False


def is_complete(group: str) -> bool:
    """Return whether .venv has the packages of `group`, which is `run` or `dev`; `dev` includes `run`."""
    return _has_stamp(PACKAGES_STAMP, _packages_state(group), _packages_state("dev"))


@contextlib.contextmanager
def setup_lock(path: Path = ROOT / "var" / "setup.lock") -> Iterator[None]:
    """Hold the lock of this checkout, so that only one setup runs at a time. Wait for another setup."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(
                "Another setup of this checkout is running; waiting for it ...", file=sys.stderr, flush=True
            )
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _interpreter() -> str:
    """Return the path of the Python interpreter outside any active .venv, because .venv is about to be
    cleared.
    """
    return getattr(sys, "_base_executable", sys.executable)


def _ensure_venv_module() -> None:
    """Install the venv module of Python, which is a separate package on Debian."""
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return
    package = f"python3.{sys.version_info.minor}-venv"
    if not _interpreter().startswith("/usr/bin/"):
        raise Refusal(
            f"{_interpreter()} has no `venv` module (or no `ensurepip`), so .venv cannot be created. "
            "Name another Python: make PYTHON=python3.12 setup"
        )
    install_packages([Tool("Python's venv module", lambda: None, (package, "python3-venv"))])


def _run_quietly(
    command: list[str | Path], problem: str, environment: Mapping[str, str] = os.environ
) -> None:
    """Run a command; show its output, and raise Refusal with `problem`, only if it fails."""
    result = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if result.returncode != 0:
        print(result.stdout, end="", file=sys.stderr, flush=True)
        raise Refusal(
            f"{problem} The message is above. Once the cause is removed, run the same command again."
        )


def _create_venv() -> None:
    """Create an empty .venv that contains uv."""
    _ensure_venv_module()
    _run_quietly([_interpreter(), "-m", "venv", "--clear", VENV], f"{_interpreter()} could not create .venv.")
    # pip refuses to install into .venv if the user's pip configuration sets `user = true`
    environment = {**os.environ, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    _run_quietly(
        [VENV_PYTHON, "-m", "pip", "install", "--require-hashes", "-r", LOCKS / "uv.txt"],
        "pip could not install uv.",
        environment,
    )
    VENV_STAMP.write_text(_venv_state())


def _sync_packages(group: str) -> None:
    """Install the packages of `group` and remove all others.

    Build requirements of source packages are pinned too.
    """
    environment = {**os.environ}
    if index := os.environ.get("PIP_INDEX_URL"):
        # a mirror that is configured for pip only
        environment.setdefault("UV_DEFAULT_INDEX", index)
    # without --compile-bytecode every start compiles all modules where PYTHONDONTWRITEBYTECODE is set
    _run_quietly(
        [
            VENV / "bin" / "uv",
            "pip",
            "sync",
            "--python",
            VENV_PYTHON,
            "--compile-bytecode",
            "--require-hashes",
            "--require-build-hashes",
            "--build-constraints",
            LOCKS / "build.txt",
            LOCKS / f"{group}.txt",
        ],
        "uv could not install the locked packages.",
        environment,
    )


def ensure_environment(group: str) -> None:
    """Bring .venv up to date with the lock of `group`, which is `run` or `dev`."""
    if is_complete(group):
        return
    if VENV.is_symlink():
        # the link may lead to the environment of another checkout
        raise Refusal(
            f"{VENV} is a symbolic link to {VENV.readlink()}, which lacks packages for this checkout. Nothing was "
            f"changed there. Remove the link (rm {VENV}), and the same command creates a separate environment."
        )
    print(
        "Installing the Python packages into .venv (a minute or two, the first time) ...",
        file=sys.stderr,
        flush=True,
    )
    PACKAGES_STAMP.unlink(missing_ok=True)
    if not _has_stamp(VENV_STAMP, _venv_state()):
        _create_venv()
    _sync_packages(group)
    PACKAGES_STAMP.write_text(_packages_state(group))
