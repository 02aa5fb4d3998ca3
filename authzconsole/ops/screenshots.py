"""Takes a picture of every page into docs/screens/, from a console with the demo tenant that is thrown away afterwards."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from . import ROOT, VENV_PYTHON, Refusal
from .address import Listening, free_port
from .processes import MakeAbove, command_run, signals_interrupt
from .run import Programs, environment_of_programs, wait_until_it_answers
from .setup import setup
from .suite import OF_A_REAL_CONSOLE

PICTURES = ROOT / "docs" / "screens"


def main() -> int:
    signals_interrupt()
    for name in OF_A_REAL_CONSOLE:
        os.environ.pop(name, None)
    try:
        setup("test")
        with tempfile.TemporaryDirectory(prefix="console-screens-") as state:
            return take(Path(state))
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def take(state: Path) -> int:
    port = free_port()
    where = Listening("127.0.0.1", port, f"http://127.0.0.1:{port}")
    environment = environment_of_programs(where, state)
    subprocess.run([VENV_PYTHON, "manage.py", "bootstrap"], cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    programs = Programs(environment)
    try:
        if not wait_until_it_answers(programs, where, MakeAbove()):
            return 1
        return command_run([VENV_PYTHON, "-m", "authzconsole.demo.screens", where.url, str(PICTURES)], cwd=ROOT, env=environment)
    finally:
        programs.stop()


if __name__ == "__main__":
    sys.exit(main())
