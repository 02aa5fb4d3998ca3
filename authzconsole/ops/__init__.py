"""Set up a machine and start the console.

This package uses only the standard library, because most of it runs before `.venv` exists.
"""

import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 -- an older interpreter gets this sentence instead of a syntax error
    sys.exit(
        f"The console needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}. "
        "Name another one: make PYTHON=python3.12 run"
    )

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"


class Refusal(Exception):
    """A step that cannot continue. The message is for the user: it describes the problem and its solution."""
