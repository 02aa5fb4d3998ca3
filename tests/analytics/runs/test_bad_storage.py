"""A folder of snapshots and results that is full, read-only or no folder: a run fails with a sentence that says what to do."""

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

# real file systems of their own, seen by nobody else
MOUNTED = "mount -t tmpfs -o {options} tmpfs {place} && exec {python} manage.py shell --verbosity 0 -c '{code}'"
CODE = "from analytics.runs.execution import execute_run; execute_run(run_id={pk})"


def waiting():
    return AnalysisRun.objects.create(analysis="stranded", options={"generation": "final"})


def executed_on(place, options):
    """The run after its execution with SNAPSHOT_URI on a file system that is mounted so."""
    store_tenant(random_tenant(3))
    run = waiting()
    place.mkdir()
    script = MOUNTED.format(options=options, place=place, python=sys.executable, code=CODE.format(pk=run.pk))
    environment = os.environ | {"DATABASE_URL": database_url(), "SNAPSHOT_URI": str(place), "SPARK_MASTER": "local[1]",
                                "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-c"]
    if subprocess.run([*command, f"mount -t tmpfs tmpfs {place}"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a file system of their own")
    done = subprocess.run([*command, script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return AnalysisRun.objects.get(pk=run.pk)


@pytest.mark.parametrize(("options", "says"), [
    ("size=8k", "it is full: free some space, or point SNAPSHOT_URI at another place"),
    ("ro", "it is read-only, or point SNAPSHOT_URI at another place"),
])
def test_a_file_system_that_takes_nothing_more_fails_the_run_with_a_sentence(tmp_path, options, says):
    run = executed_on(tmp_path / "place", options)
    assert run.state == RunState.FAILED
    assert run.error == f"The folder of snapshots and results, {tmp_path / 'place'}, cannot be written: {says}."


@pytest.mark.parametrize(("place", "says"), [
    ("a-file", "a file stands where a folder should be: remove it"), ("a-file/below", "a file stands where a folder should be"),
    ("/proc/sys/nowhere", "there is no such place"),
])
def test_a_place_where_no_folder_can_be_fails_the_run_with_a_sentence(settings, tmp_path, place, says):
    (tmp_path / "a-file").write_text("")
    settings.SNAPSHOT_URI = str(tmp_path / place)
    run = waiting()
    execute_run(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == RunState.FAILED and says in run.error and settings.SNAPSHOT_URI in run.error


@pytest.mark.parametrize(("said", "says"), [
    ("java.io.FileNotFoundException: {place}/results/x (Permission denied)", "it may not be written"),
    ("java.nio.file.FileSystemException: {place}/results/x: Read-only file system", "it is read-only"),
    ("java.io.IOException: No space left on device", "it is full"),
])
def test_what_java_says_about_the_folder_is_the_same_sentence(settings, tmp_path, said, says):
    settings.SNAPSHOT_URI = str(tmp_path)
    assert says in failure_message(RuntimeError(said.format(place=tmp_path)))
    assert "somewhere else" in failure_message(RuntimeError("somewhere else: Permission denied"))
