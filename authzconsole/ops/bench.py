"""Runs benchmarks/bench_*.py, one after the other."""

import os
import sys

from . import ROOT, VENV_PYTHON, Refusal
from .processes import command_run, signals_interrupt
from .setup import setup, spark_environment


def main() -> int:
    signals_interrupt()
    benchmarks = sorted((ROOT / "benchmarks").glob("bench_*.py"))
    if not benchmarks:
        print("There is no benchmark: benchmarks/ holds no bench_*.py.")
        return 0
    try:
        setup("test")
        return max(_run(f"benchmarks.{path.stem}") for path in benchmarks)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _run(module: str) -> int:
    print(f"== {module}", flush=True)
    return command_run([VENV_PYTHON, "-m", module], cwd=ROOT, env={**os.environ, **spark_environment()})


if __name__ == "__main__":
    sys.exit(main())
