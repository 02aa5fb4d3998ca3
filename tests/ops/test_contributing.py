"""The contributor guide names files and tests that exist."""

import re
from pathlib import Path

from django.conf import settings

ROOT = Path(settings.BASE_DIR)


def test_every_test_in_the_guide_exists():
    test_names = set(re.findall(r"\btest_\w+(?=[`,)])(?!\.py)", (ROOT / "CONTRIBUTING.md").read_text()))
    source = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    assert test_names and {name for name in test_names if f"def {name}(" not in source} == set()
