"""Store a screenshot of every page in var/screens/.

The screenshots show the demo tenant in a temporary console. Copy those that a document shows to docs/screens/.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from . import ROOT, VENV_PYTHON
from .address import ListenAddress, free_port
from .processes import ParentMake, exit_status, run_command
from .run import Programs, environment_of_programs, wait_until_ready
from .setup import setup
from .suite import remove_console_settings

PICTURES = ROOT / "var" / "screens"


def run() -> int:
    remove_console_settings()
    setup("test")
    with tempfile.TemporaryDirectory(prefix="console-screens-") as state_folder:
        return take_screenshots(Path(state_folder))


def take_screenshots(state_folder: Path) -> int:
    port = free_port()
    address = ListenAddress("127.0.0.1", port, f"http://127.0.0.1:{port}")
    # the examples have reports of their own
    environment = environment_of_programs(address, state_folder) | {
        "FIRST_ANALYSES": "off",
        "SPARK_STARTS_EARLY": "off",
    }
    subprocess.run(
        [VENV_PYTHON, "manage.py", "bootstrap"],
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    programs = Programs(environment)
    try:
        if not wait_until_ready(programs, address, ParentMake()):
            return 1
        return run_command(
            [VENV_PYTHON, "-m", "authzconsole.demo.screens", address.url, str(PICTURES)],
            cwd=ROOT,
            env=environment,
        )
    finally:
        programs.stop()


if __name__ == "__main__":
    sys.exit(exit_status(run))
