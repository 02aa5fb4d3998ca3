"""Writes the lock files from pyproject.toml; its arguments are passed on to `uv pip compile`."""

import os
import subprocess
import sys
import venv
from pathlib import Path

from . import ROOT

# apart from .venv, which holds what the locks name and nothing else
LOCKING_VENV = ROOT / "var" / "locking"
COMMON = ("--universal", "--python-version", "3.11", "--generate-hashes", "--quiet", "--custom-compile-command", "make lock")
LOCKS = {
    "requirements-build.lock": ("--group", "pyproject.toml:build"),
    "requirements.lock": ("--group", "dev", "pyproject.toml"),
}


def _uv() -> Path:
    uv = LOCKING_VENV / "bin" / "uv"
    if not uv.exists():
        venv.create(LOCKING_VENV, clear=True, with_pip=True)
        subprocess.run([LOCKING_VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "uv"], check=True)
    return uv


def main() -> int:
    uv = _uv()
    for name, sources in LOCKS.items():
        command = [uv, "pip", "compile", *COMMON, *sources, "-o", name, *sys.argv[1:]]
        if subprocess.run(command, cwd=ROOT, env={**os.environ, "VIRTUAL_ENV": str(LOCKING_VENV)},
                          stdout=subprocess.DEVNULL).returncode != 0:
            return 1
    print(f"Written: {', '.join(LOCKS)}. `make setup` installs what changed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
