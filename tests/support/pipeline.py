"""An environment with the wheel of the pipeline and exactly the packages that it declares, so without Django."""

import os
import re
import sysconfig
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from authzconsole.ops.wheel import build_wheel


class PipelineEnvironment:
    """A virtual environment. python: its interpreter. job: the file for spark-submit. submit: the program spark-submit."""

    def __init__(self, folder: Path):
        wheel = build_wheel(folder)
        venv.create(folder / "venv", symlinks=True, with_pip=False)
        self.python = folder / "venv" / "bin" / "python"
        packages = next((folder / "venv" / "lib").iterdir()) / "site-packages"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
            metadata = archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA")))
        self.module_names = [
            path.relative_to(packages).as_posix() for path in packages.rglob("*.py") if not path.is_symlink()
        ]
        requirements = re.findall(r"^Requires-Dist: (.+)$", metadata.decode(), re.MULTILINE)
        installed = Path(sysconfig.get_path("purelib"))
        for name in required_distributions(requirements):
            files = distribution(name).files or ()
            for part in sorted({file.parts[0] for file in files} - {"..", "__pycache__"}):
                (packages / part).symlink_to(installed / part)
        self.job = packages / "analytics" / "job.py"
        self.submit = packages / "pyspark" / "bin" / "spark-submit"

    def variables(self, **others: str) -> dict[str, str]:
        """Return the environment of a process: without the variables of the console."""
        known = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "HOME") if name in os.environ}
        return (
            known
            | {"SPARK_LOCAL_IP": "127.0.0.1", "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
            | {"PYSPARK_PYTHON": str(self.python), "PYSPARK_DRIVER_PYTHON": str(self.python)}
            | others
        )


def required_distributions(requirements: list[str]) -> set[str]:
    """Return the names of the packages that these requirements need, directly or indirectly."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        if requirement.name in found or (
            requirement.marker and not requirement.marker.evaluate({"extra": ""})
        ):
            continue
        found.add(requirement.name)
        waiting += map(Requirement, distribution(requirement.name).requires or ())
    return found
