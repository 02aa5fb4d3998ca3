"""Run benchmarks/bench_*.py, one after the other."""

import os
import sys

from . import ROOT, VENV_PYTHON, Refusal
from .processes import interrupt_on_signals, run_command
from .setup import setup, spark_environment


def main() -> int:
    interrupt_on_signals()
    benchmarks = sorted((ROOT / "benchmarks").glob("bench_*.py"))
    if not benchmarks:
        print("There is no benchmark: benchmarks/ contains no bench_*.py.")
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
    return run_command([VENV_PYTHON, "-m", module], cwd=ROOT, env={**os.environ, **spark_environment()})


if __name__ == "__main__":
    sys.exit(main())
