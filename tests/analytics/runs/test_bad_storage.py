"""A run fails with a message and a remedy if the storage folder is full, read-only or not a folder."""

import os
import subprocess
import sys

import pytest

from analytics.models import AnalysisRun, RunState
from analytics.runs.execution import execute_run
from analytics.runs.failure import failure_message
from authzconsole.ops import ROOT
from tests.support.random_tenants import random_tenant, store_tenant
from tests.support.workers import database_url

pytestmark = pytest.mark.django_db(transaction=True)

# real file systems in a private mount namespace
MOUNT_AND_RUN = "mount -t tmpfs -o {options} tmpfs {folder} && exec {python} manage.py shell --verbosity 0 -c '{code}'"
CODE = "from analytics.runs.execution import execute_run; execute_run(run_id={pk})"


def waiting_stranded_run():
    return AnalysisRun.objects.create(analysis="stranded", options={"generation": "final"})


def run_on_file_system(folder, options):
    """Execute a run with SNAPSHOT_URI on a file system with these mount options, and return the run."""
    store_tenant(random_tenant(3))
    run = waiting_stranded_run()
    folder.mkdir()
    script = MOUNT_AND_RUN.format(options=options, folder=folder, python=sys.executable, code=CODE.format(pk=run.pk))
    environment = os.environ | {"DATABASE_URL": database_url(), "SNAPSHOT_URI": str(folder), "SPARK_MASTER": "local[1]",
                                "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-c"]
    if subprocess.run([*command, f"mount -t tmpfs tmpfs {folder}"], capture_output=True).returncode:
        pytest.skip("this machine does not allow users to mount file systems")
    completed = subprocess.run([*command, script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert completed.returncode == 0, completed.stderr
    return AnalysisRun.objects.get(pk=run.pk)


@pytest.mark.parametrize(("options", "message"), [
    ("size=8k", "it is full: free some space, or point SNAPSHOT_URI at another place"),
    ("ro", "it is read-only, or point SNAPSHOT_URI at another place"),
])
def test_a_full_or_read_only_file_system_fails_the_run_with_a_message(tmp_path, options, message):
    run = run_on_file_system(tmp_path / "storage", options)
    assert run.state == RunState.FAILED
    assert run.error == f"The folder of snapshots and results, {tmp_path / 'storage'}, cannot be written: {message}."


@pytest.mark.parametrize(("path", "message"), [
    ("a-file", "there is a file where a folder is expected: remove it"),
    ("a-file/below", "there is a file where a folder is expected"),
    ("/proc/sys/nowhere", "it does not exist"),
])
def test_a_path_that_cannot_be_a_folder_fails_the_run_with_a_message(settings, tmp_path, path, message):
    (tmp_path / "a-file").write_text("")
    settings.SNAPSHOT_URI = str(tmp_path / path)
    run = waiting_stranded_run()
    execute_run(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == RunState.FAILED and message in run.error and settings.SNAPSHOT_URI in run.error


@pytest.mark.parametrize(("java_message", "message"), [
    ("java.io.FileNotFoundException: {folder}/results/x (Permission denied)", "it is not writable"),
    ("java.nio.file.FileSystemException: {folder}/results/x: Read-only file system", "it is read-only"),
    ("java.io.IOException: No space left on device", "it is full"),
])
def test_java_errors_about_the_folder_give_the_same_message(settings, tmp_path, java_message, message):
    settings.SNAPSHOT_URI = str(tmp_path)
    assert message in failure_message(RuntimeError(java_message.format(folder=tmp_path)))
    assert "somewhere else" in failure_message(RuntimeError("somewhere else: Permission denied"))
