"""Claiming and executing runs, and the error messages of runs that fail. Spark is replaced."""

import pytest

from grants.jobs import run_job
from grants.jobs.lifecycle import claim_job
from grants.jobs.processes import this_process
from grants.models import JobState
from tests.support.runs import create_waiting_run, reload_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("storage_folder")]


def test_a_done_run_has_its_figures_and_its_result_folder(replace_computation):
    replace_computation()
    run = create_waiting_run()
    run_job(run.pk)
    run = reload_run(run)
    assert (run.state, run.revision, run.summary, run.attempt) == (JobState.DONE, 7, {"pairs": 1}, 1)
    assert run.result_path.endswith(f"/run-{run.pk}-1") and run.finished_at is not None


@pytest.mark.parametrize("state", set(JobState) - {JobState.WAITING})
def test_only_a_waiting_run_is_executed(replace_computation, state):
    computed_folders = replace_computation()
    run_job(create_waiting_run(state=state).pk)
    run_job(12_345)
    assert computed_folders == []


def test_only_the_first_of_two_claims_succeeds_and_names_its_process():
    run = create_waiting_run()
    first, second = claim_job(run.pk), claim_job(run.pk)
    assert second is None and first.process == this_process() != ""


def test_the_error_of_a_failed_run_is_one_sentence_without_a_traceback(replace_computation):
    def fail(progress):
        raise ValueError("the thing broke\n\tat Some.java:12\n\tat Other.java:13")

    replace_computation(fail)
    run = create_waiting_run()
    run_job(run.pk)
    run = reload_run(run)
    assert run.state == JobState.FAILED
    assert run.error == "ValueError: the thing broke (see the worker's log for details)"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), "is full: free some space, or point SNAPSHOT_URI"),
        (OSError(30, "Read-only file system"), "is read-only, or point SNAPSHOT_URI"),
        (
            RuntimeError("java.lang.OutOfMemoryError: Java heap space"),
            "ran out of memory with SPARK_DRIVER_MEMORY",
        ),
        (RuntimeError("java.io.IOException: No space left on device"), "is full: free some space"),
    ],
)
def test_the_message_of_a_common_failure_says_what_to_do(replace_computation, error, message):
    def fail(progress):
        raise error

    replace_computation(fail)
    run = create_waiting_run()
    run_job(run.pk)
    assert message in reload_run(run).error


def test_without_java_the_run_fails_and_the_message_names_the_package(monkeypatch, storage_folder):
    monkeypatch.setenv("PATH", str(storage_folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    run = create_waiting_run()
    run_job(run.pk)
    assert reload_run(run).state == JobState.FAILED
    assert "Java is missing" in reload_run(run).error and "openjdk-17-jre-headless" in reload_run(run).error


def test_files_of_a_run_that_did_not_finish_are_deleted(replace_computation, storage_folder):
    def write_and_fail(progress):
        (storage_folder / computed_folders[-1]).mkdir(parents=True)
        (storage_folder / computed_folders[-1] / "half").write_text("")
        raise ValueError

    computed_folders = replace_computation(write_and_fail)
    run_job(create_waiting_run().pk)
    assert computed_folders and not (storage_folder / computed_folders[-1]).exists()
