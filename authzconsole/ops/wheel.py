"""Build the wheel of the pipeline, which runs analyses without the console: `make wheel`.

The wheel contains `analytics.job`, `analytics.check` and the modules that they need. Its version and the versions of its
dependencies are those of the console.
"""

import argparse
import ast
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from . import ROOT, VENV, Refusal
from .processes import exit_status

ENTRY_POINTS = ("analytics.job", "analytics.check")
# the registry of analyses names the functions of this package, instead of importing them
PACKAGES = ("analytics/spark",)
TOP_LEVEL = ("analytics", "entities", "grants")
DEPENDENCIES = frozenset({"duckdb", "numpy", "pandas", "pyarrow", "pyspark", "scipy"})
PROJECT = """[project]
name = "authzconsole-pipeline"
version = "{version}"
description = "The analyses of the authorization console as Spark jobs, without Django"
requires-python = "{requires_python}"
license = "Apache-2.0"
license-files = ["LICENSE"]
dependencies = {dependencies}

[build-system]
requires = ["uv_build"]
build-backend = "uv_build"

[tool.uv.build-backend]
module-name = ["analytics", "entities", "grants"]
module-root = ""
"""


def build_wheel(folder: Path) -> Path:
    """Build the wheel in `folder` and return its path. Needs no network. Raise Refusal if uv reports an error."""
    with tempfile.TemporaryDirectory() as name:
        source = Path(name)
        for path in ("LICENSE", *sorted(module_files())):
            target = source / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, target)
        (source / "pyproject.toml").write_text(_project())
        command = [
            VENV / "bin" / "uv",
            "build",
            "--wheel",
            "--quiet",
            "--offline",
            "--out-dir",
            folder,
            source,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Refusal(f"The wheel could not be built: {done.stderr.strip()}")
    return max(folder.glob("authzconsole_pipeline-*.whl"), key=lambda path: path.stat().st_mtime)


def _project() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dependencies = [text for text in project["dependencies"] if re.split(r"\W", text)[0] in DEPENDENCIES]
    return PROJECT.format(
        version=project["version"], requires_python=project["requires-python"], dependencies=dependencies
    )


def module_files() -> set[str]:
    """Return the paths of the files of the wheel: the modules that the entry points import, directly or indirectly."""
    found: set[str] = set()
    waiting = [f"{name.replace('.', '/')}.py" for name in ENTRY_POINTS]
    for package in PACKAGES:
        paths = [
            path for path in (ROOT / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts
        ]
        waiting += [str(path.relative_to(ROOT)) for path in paths]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        if path.endswith(".py"):
            parents = Path(path).parents
            waiting += [str(parent / "__init__.py") for parent in parents if parent != Path(".")]
            waiting += _imported_files(ast.parse((ROOT / path).read_text()))
    return found


def _imported_files(module: ast.Module) -> Iterator[str]:
    """Yield the paths of the modules of this repository that a module imports."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            if name.partition(".")[0] in TOP_LEVEL:
                base = name.replace(".", "/")
                yield from (path for path in (f"{base}.py", f"{base}/__init__.py") if (ROOT / path).exists())


def main() -> None:
    """Build the wheel in var/dist/, or in the folder that is given, and print its path."""
    parser = argparse.ArgumentParser(description="Build the wheel of the pipeline.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "var" / "dist")
    print(build_wheel(parser.parse_args().folder.resolve()))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
