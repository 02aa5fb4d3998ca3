"""Run benchmarks/soak: a temporary console under load while its parts are killed, for SOAK_MINUTES (30)."""

import os
import sys

from . import ROOT, VENV_PYTHON
from .processes import exit_status, run_command
from .setup import setup, spark_environment
from .suite import remove_console_settings


def run_soak() -> int:
    remove_console_settings()
    setup("test")
    command = [VENV_PYTHON, "-m", "benchmarks.soak", "--minutes", os.environ.get("SOAK_MINUTES") or "30"]
    return run_command(command, cwd=ROOT, env={**os.environ, **spark_environment()}, patience_seconds=60)


if __name__ == "__main__":
    sys.exit(exit_status(run_soak))
