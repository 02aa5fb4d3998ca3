"""The contributor guide names files and tests that exist."""

import re
from pathlib import Path

from django.conf import settings

ROOT = Path(settings.BASE_DIR)


def test_every_test_in_the_guide_exists():
    named = set(re.findall(r"\btest_\w+(?=[`,)])(?!\.py)", (ROOT / "CONTRIBUTING.md").read_text()))
    source = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    assert named and {name for name in named if f"def {name}(" not in source} == set()
