"""The layout of the repository: a docstring in every package, and the same areas of pages everywhere."""

import ast
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
AREAS = {
    "entities",
    "explorer",
    "findings",
    "ask",
    "people",
    "plans",
    "policies",
    "connections",
    "reports",
    "requests",
    "journal",
    "accounts",
    "overview",
    "effects",
    "reviews",
    "shared",
}


def test_every_package_has_a_docstring():
    command = ["git", "ls-files", "-co", "--exclude-standard", "*/__init__.py"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    packages = [Path(name) for name in listed if not name.startswith("tests/") and "/migrations/" not in name]
    texts = {path: (ROOT / path).read_text() for path in packages if (ROOT / path).is_file()}
    assert [str(path) for path, text in texts.items() if not ast.get_docstring(ast.parse(text))] == []


@pytest.mark.parametrize("folder", ["authzconsole/web", "templates", "tests/web"])
def test_pages_templates_and_tests_have_the_same_areas(folder):
    folders = {
        path.name for path in (ROOT / folder).iterdir() if path.is_dir() and not path.name.startswith("__")
    }
    assert folders - {"rest"} == AREAS
