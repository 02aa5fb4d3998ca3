"""Run benchmarks/soak: a temporary console under load while its parts are killed, for SOAK_MINUTES (30)."""

import os
import sys

from . import ROOT, VENV_PYTHON, Refusal
from .processes import interrupt_on_signals, run_command
from .setup import setup, spark_environment
from .suite import CONSOLE_SETTINGS


def main() -> int:
    interrupt_on_signals()
    try:
        setup("test")
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    environment = {name: value for name, value in os.environ.items() if name not in CONSOLE_SETTINGS}
    command = [VENV_PYTHON, "-m", "benchmarks.soak", "--minutes", os.environ.get("SOAK_MINUTES") or "30"]
    try:
        return run_command(command, cwd=ROOT, env={**environment, **spark_environment()}, patience_seconds=60)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
