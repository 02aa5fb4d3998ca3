"""A run fails with a message and a remedy if the storage folder is full, read-only or not a folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from analytics.models import AnalysisRun
from analytics.runs.execution import failure_message
from authzconsole.ops import ROOT
from grants.jobs import run_job
from grants.models import JobState
from tests.support.random_tenants import random_tenant, store_tenant
from tests.support.workers import database_url

pytestmark = pytest.mark.django_db(transaction=True)

# real file systems in a private mount namespace
MOUNT_AND_RUN = (
    "mount -t tmpfs -o {options} tmpfs {folder} && exec {python} manage.py shell --verbosity 0 -c '{code}'"
)
CODE = "from grants.jobs import run_job; run_job({pk})"


def waiting_stranded_run():
    return AnalysisRun.objects.create(type="stranded", options={"generation": "final"})


def run_on_file_system(storage, options, *, mounted=None, code=CODE):
    """Execute a run with SNAPSHOT_URI or the folder `mounted` on a file system with these mount options, and
    return the run.
    """
    store_tenant(random_tenant(3))
    run, folder = waiting_stranded_run(), mounted or storage
    folder.mkdir(exist_ok=True)
    script = MOUNT_AND_RUN.format(
        options=options, folder=folder, python=sys.executable, code=code.format(pk=run.pk)
    )
    environment = os.environ | {
        "DATABASE_URL": database_url(),
        "SNAPSHOT_URI": str(storage),
        "SPARK_MASTER": "local[1]",
        "DJANGO_SETTINGS_MODULE": "tests.settings",
    }
    command = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-c"]
    if subprocess.run([*command, f"mount -t tmpfs tmpfs {folder}"], capture_output=True).returncode:
        pytest.skip("this machine does not allow users to mount file systems")
    completed = subprocess.run(
        [*command, script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert completed.returncode == 0, completed.stderr
    return AnalysisRun.objects.get(pk=run.pk)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("size=8k", "it is full: free some space, or point SNAPSHOT_URI at another place"),
        ("ro", "it is read-only, or point SNAPSHOT_URI at another place"),
    ],
)
def test_a_full_or_read_only_file_system_fails_the_run_with_a_message(tmp_path, options, message):
    run = run_on_file_system(tmp_path / "storage", options)
    assert run.state == JobState.FAILED
    assert (
        run.error
        == f"The folder of snapshots and results, {tmp_path / 'storage'}, cannot be written: {message}."
    )


QUERY = """
from django.conf import settings
import duckdb
from analytics.folders import scratch_folder
from analytics.models import AnalysisRun
from analytics.results.database import translate_read_errors
from grants.jobs import run_job
from analytics.storage import StorageError
run_job({pk})
try:
    with translate_read_errors(), scratch_folder(settings.TEMP_DIR) as folder, duckdb.connect(config=dict(
            memory_limit="8MB", temp_directory=folder, threads="1")) as database:
        database.execute("SELECT range, hash(range) AS h FROM range(2000000) ORDER BY h").fetchone()
except StorageError as error:
    AnalysisRun.objects.filter(pk={pk}).update(claim="query", process=str(error)[:120])
"""


def test_a_full_folder_for_temporary_files_is_named_by_runs_and_queries(settings, tmp_path):
    # the root, a folder and its lock
    run = run_on_file_system(tmp_path / "storage", "nr_inodes=3", mounted=settings.TEMP_DIR, code=QUERY)
    message = f"The folder for temporary files, {settings.TEMP_DIR}"
    assert (
        run.state == JobState.FAILED
        and run.error.startswith(message)
        and "cannot be written: it is full" in run.error
    )
    assert (run.claim, run.process[: len(message)]) == ("query", message)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (
            "java.io.IOException: No space left on device\n\tat org.apache.spark.storage.DiskBlockObjectWriter",
            "temporary files",
        ),
        (
            "java.io.IOException: No space left on device\n\tat org.apache.parquet.ParquetFileWriter",
            "snapshots and results",
        ),
        ("OSError: {storage}/results/x/part: No space left on device", "snapshots and results"),
        ("OSError: {scratch}/authzconsole-x/y: No space left on device", "temporary files"),
    ],
)
def test_the_message_of_a_full_disk_names_the_folder_of_the_error(settings, tmp_path, text, title):
    settings.SNAPSHOT_URI = str(tmp_path)
    message = failure_message(RuntimeError(text.format(storage=tmp_path, scratch=settings.TEMP_DIR)))
    assert (
        message.startswith(f"The folder {'for' if title == 'temporary files' else 'of'} {title}, ")
        and "it is full" in message
    )


def test_a_full_disk_of_the_database_is_named():
    message = failure_message(OperationalError("database or disk is full"))
    if connection.vendor == "sqlite":
        folder = Path(connection.settings_dict["NAME"]).parent
        assert message.startswith(f"The folder of the database, {folder}, cannot be written: it is full")
    text = 'could not extend file "base/1/2": No space left on device'
    if connection.vendor == "postgresql":
        assert (
            failure_message(OperationalError(text))
            == "The disk of the database server is full: free some space there."
        )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a-file", "there is a file where a folder is expected: remove it"),
        ("a-file/below", "there is a file where a folder is expected"),
        ("/proc/sys/nowhere", "it does not exist"),
    ],
)
def test_a_path_that_cannot_be_a_folder_fails_the_run_with_a_message(settings, tmp_path, path, message):
    (tmp_path / "a-file").write_text("")
    settings.SNAPSHOT_URI = str(tmp_path / path)
    run = waiting_stranded_run()
    run_job(run.pk)
    run.refresh_from_db()
    assert run.state == JobState.FAILED and message in run.error and settings.SNAPSHOT_URI in run.error


@pytest.mark.parametrize(
    ("java_message", "message"),
    [
        ("java.io.FileNotFoundException: {folder}/results/x (Permission denied)", "it is not writable"),
        ("java.nio.file.FileSystemException: {folder}/results/x: Read-only file system", "it is read-only"),
        ("java.io.IOException: No space left on device", "it is full"),
    ],
)
def test_java_errors_about_the_folder_give_the_same_message(settings, tmp_path, java_message, message):
    settings.SNAPSHOT_URI = str(tmp_path)
    assert message in failure_message(RuntimeError(java_message.format(folder=tmp_path)))
    assert "somewhere else" in failure_message(RuntimeError("somewhere else: Permission denied"))
