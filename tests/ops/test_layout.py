"""The layout of the repository: file sizes, folder sizes, and a docstring in every package."""

import ast
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
MAX_LINES = 400
MAX_FILES = 16
SOURCE_SUFFIXES = (".py", ".js", ".css", ".html")
AREAS = {"entities", "explorer", "ask", "people", "plans", "policies", "reports", "requests", "journal", "accounts", "overview",
         "effects", "reviews", "shared"}


def source_files() -> list[Path]:
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [Path(line) for line in listed.stdout.splitlines() if line.endswith(SOURCE_SUFFIXES)]
    return [path for path in paths if (ROOT / path).is_file()]


def test_no_source_file_has_more_than_400_lines():
    lines = {str(path): len((ROOT / path).read_text().splitlines()) for path in source_files()}
    assert {path: count for path, count in lines.items() if count > MAX_LINES} == {}


def test_no_folder_has_more_than_16_source_files():
    # migrations only accumulate
    counts = Counter(str(path.parent) for path in source_files()
                     if path.name != "__init__.py" and path.parent.name != "migrations")
    assert {folder: count for folder, count in counts.items() if count > MAX_FILES} == {}


def test_every_package_has_a_docstring():
    packages = [path for path in source_files() if path.name == "__init__.py" and path.parts[0] != "tests"
                and "migrations" not in path.parts]
    missing = [str(path) for path in packages if not ast.get_docstring(ast.parse((ROOT / path).read_text()))]
    assert missing == []


@pytest.mark.parametrize("folder", ["authzconsole/web", "templates", "tests/web"])
def test_pages_templates_and_tests_have_the_same_areas(folder):
    folders = {path.name for path in (ROOT / folder).iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert folders - {"rest"} == AREAS
