"""What Spark writes beside its results does not pile up."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from analytics.spark.scratch import create_scratch_folder, remove_scratch_folder

MAKE = ("import sys; from analytics.spark.scratch import create_scratch_folder; "
        "print(create_scratch_folder(), flush=True); sys.stdin.read()")


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    tempfile.tempdir = None


@pytest.fixture
def another():
    process = subprocess.Popen([sys.executable, "-c", MAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def test_a_folder_is_gone_with_its_session():
    folder = create_scratch_folder()
    remove_scratch_folder(folder)
    assert not Path(folder).exists()


def test_the_folder_of_a_session_that_was_killed_goes_with_the_next_one(another):
    process, left = another
    process.kill()
    process.wait()
    remove_scratch_folder(create_scratch_folder())
    assert not left.exists()


def test_the_folder_of_a_session_that_lives_stays(another):
    _, of_another = another
    remove_scratch_folder(create_scratch_folder())
    assert of_another.exists()
