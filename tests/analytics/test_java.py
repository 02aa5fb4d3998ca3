"""Checking the version of Java before a run."""

import os

import pytest

from analytics.java import java_problem


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Return a function that replaces the Java of this process by a script, without changing its modification
    time.
    """
    path = tmp_path / "bin" / "java"
    path.parent.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    def replace(script):
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        os.utime(path, (1_700_000_000, 1_700_000_000))

    return replace


REPORT_VERSION = "echo 'openjdk version \"17.0.15\"' >&2"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("kill -9 $$", ""),
        ("echo 'cannot write' >&2; exit 1", "does not report its version"),
    ],
)
def test_a_failed_check_of_java_does_not_fail_later_runs(java, script, problem):
    """The memory or the disk was full for a moment. A Java that was killed may start Spark."""
    java(script)
    assert problem in java_problem() and bool(problem) == bool(java_problem())
    java(REPORT_VERSION)
    assert java_problem() == ""


def test_an_old_java_is_named(java):
    java("echo 'java version \"1.8.0_402\"' >&2")
    assert "has version 8, and Spark needs Java 17 or newer" in java_problem()
