"""A sample of the soak test: `make soak` runs it for 30 minutes."""

import random

import pytest

from authzconsole.ops import machine
from benchmarks.soak.__main__ import soak
from benchmarks.soak.console import running_console

SECONDS = 12
SETTLE_SECONDS = 180

pytestmark = [pytest.mark.worker, pytest.mark.slow]


@pytest.mark.skipif(machine.postgresql_folder() is None, reason="PostgreSQL is not installed")
def test_faults_of_all_parts_lose_nothing(monkeypatch, capsys):
    for name in (
        "DATABASE_URL",
        "REDIS_URL",
        "STATE_DIR",
        "CONSOLE_TEST_STATE",
        "SECRET_KEY",
        "JOURNAL_KEYS",
    ):
        monkeypatch.delenv(name, raising=False)
    with running_console() as console:
        violations = soak(console, SECONDS, random.Random(13), SETTLE_SECONDS)
    assert violations == []
    assert "faults" in capsys.readouterr().out
