"""Run benchmarks/bench_*.py, one after the other."""

import os
import sys

from . import ROOT, VENV_PYTHON
from .processes import exit_status, run_command
from .setup import setup, spark_environment


def run_benchmarks() -> int:
    benchmarks = sorted((ROOT / "benchmarks").glob("bench_*.py"))
    if not benchmarks:
        print("There is no benchmark: benchmarks/ contains no bench_*.py.")
        return 0
    setup("test")
    return max(_run(f"benchmarks.{path.stem}") for path in benchmarks)


def _run(module: str) -> int:
    print(f"== {module}", flush=True)
    return run_command([VENV_PYTHON, "-m", module], cwd=ROOT, env={**os.environ, **spark_environment()})


if __name__ == "__main__":
    sys.exit(exit_status(run_benchmarks))
