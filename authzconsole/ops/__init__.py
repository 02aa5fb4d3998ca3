"""Sets a machine up and starts the console on it. Standard library only: most of it runs before `.venv` exists."""

import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 -- an older interpreter gets this sentence instead of a syntax error
    sys.exit(f"The console needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}. "
             "Name another one: make PYTHON=python3.12 run")

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"


class Refusal(Exception):
    """What stands in the way and what to do about it, in the user's words."""
