"""The folders of temporary files of Spark sessions and queries are removed."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from analytics.folders import ScratchError, create_scratch_folder, remove_scratch_folder, scratch_folder

CREATE_FOLDER = (
    "import sys; from analytics.folders import create_scratch_folder; "
    "print(create_scratch_folder(), flush=True); sys.stdin.read()"
)


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    tempfile.tempdir = None


@pytest.fixture
def other_session():
    """Return (a process with a scratch folder, the folder)."""
    process = subprocess.Popen(
        [sys.executable, "-c", CREATE_FOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def test_the_folder_of_a_killed_session_is_removed_by_the_next_session(other_session):
    process, folder = other_session
    process.kill()
    process.wait()
    remove_scratch_folder(create_scratch_folder())
    assert not folder.exists()


def test_the_folder_of_a_running_session_is_kept(other_session):
    _, folder = other_session
    remove_scratch_folder(create_scratch_folder())
    assert folder.exists()


def test_a_folder_whose_process_was_killed_before_it_had_a_lock_is_removed_after_an_hour(tmp_path):
    recent, old = tmp_path / "authzconsole-recent", tmp_path / "authzconsole-old"
    recent.mkdir()
    old.mkdir()
    os.utime(old, (time.time() - 4_000,) * 2)
    remove_scratch_folder(create_scratch_folder(tmp_path))
    assert recent.exists() and not old.exists()


def test_the_temporary_files_of_a_killed_worker_are_removed(tmp_path):
    """Celery and PySpark create folders with tempfile, which would remain."""
    start = (
        "import os, tempfile, django; django.setup(); from authzconsole.celery import app; "
        "from celery.signals import worker_init; worker_init.send(sender=None); "
        "print(tempfile.mkdtemp(), flush=True); os.kill(os.getpid(), 9)"
    )
    environment = os.environ | {"STATE_DIR": str(tmp_path), "CONSOLE_TEST_STATE": str(tmp_path)}
    worker = subprocess.run([sys.executable, "-c", start], env=environment, capture_output=True, text=True)
    folder = Path(worker.stdout.strip())
    assert folder.is_dir() and folder.parent.parent == tmp_path / "tmp", worker.stderr
    remove_scratch_folder(create_scratch_folder(tmp_path / "tmp"))
    assert not folder.exists()


def test_a_folder_in_the_state_directory_ends_with_its_block_and_has_a_private_mode(tmp_path):
    with scratch_folder(tmp_path / ".") as folder:
        assert Path(folder).parent == tmp_path and Path(folder).stat().st_mode & 0o077 == 0
    assert not Path(folder).exists()


def test_an_unusable_parent_is_named_with_a_remedy(tmp_path):
    with pytest.raises(ScratchError) as error:
        create_scratch_folder(tmp_path / "missing")
    assert str(error.value) == (
        f"The folder for temporary files, {tmp_path / 'missing'}, cannot be written: it does not exist: "
        "create it, or point STATE_DIR at another place."
    )
