"""A type of job is a function with a registration: its result, its failures, its attempts and its repetition."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from grants.jobs import (
    JobFailed,
    JobInterrupted,
    JobLost,
    JobResult,
    cancel_job,
    job_type,
    request_job,
    run_job,
    sweep_jobs,
)
from grants.jobs.lifecycle import restart_job
from grants.jobs.types import JOB_TYPES
from grants.models import Job, JobState

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    """Return the numbers of the jobs that were sent to the worker, with their queues."""
    sent = []
    monkeypatch.setattr(
        "grants.jobs.lifecycle.send_task",
        lambda task, number, *, label, queue, time_limit: sent.append((number, queue)) or True,
    )
    return sent


@pytest.fixture
def register(monkeypatch):
    """Return a function that registers a type with the name `test` for the time of a test."""

    def register(run, **options):
        monkeypatch.setattr("grants.jobs.types.JOB_TYPES", JOB_TYPES.copy())
        monkeypatch.setitem(JOB_TYPES, "test", None)
        job_type("test", **options)(run)

    return register


def requested(**fields):
    return request_job(Job(type="test", **fields))


def execute(job):
    run_job(job.pk)
    job.refresh_from_db()
    return job


def test_a_job_stores_the_result_of_its_function(register):
    def work(context):
        context.show_progress(3, 4)
        context.begin_stage("counting")
        return JobResult({"users": len(context.job.options["names"])}, revision=7)

    register(work)
    job = execute(requested(options={"names": ["a", "b"]}))
    assert (job.state, job.summary, job.revision, job.stage) == (JobState.DONE, {"users": 2}, 7, "counting")
    # a job that is done has done all of its steps
    assert (job.steps_done, job.steps_total, job.claim) == (4, 4, "")


def test_a_job_is_sent_to_the_queue_of_its_type(register, sent, django_capture_on_commit_callbacks):
    register(lambda context: None, queue=settings.LIGHT_QUEUE)
    with django_capture_on_commit_callbacks(execute=True):
        job = requested()
        assert sent == []
    assert sent == [(job.pk, settings.LIGHT_QUEUE)]


def test_a_job_that_failed_for_a_known_reason_has_it_as_its_error(register):
    def fail(context):
        raise JobFailed("The list is empty.")

    register(fail)
    job = execute(requested())
    assert (job.state, job.error, job.attempt) == (JobState.FAILED, "The list is empty.", 1)


def test_an_unexpected_error_does_not_show_its_message(register):
    def fail(context):
        raise ValueError("secret")

    register(fail)
    job = execute(requested())
    assert job.state == JobState.FAILED and "ValueError" in job.error and "secret" not in job.error


def test_an_interrupted_job_waits_between_its_attempts(register, sent):
    def fail(context):
        raise JobInterrupted("the service does not answer")

    register(fail, max_attempts=2, pause=lambda attempt: timedelta(minutes=attempt))
    job = execute(requested())
    assert (job.state, job.error) == (JobState.WAITING, "the service does not answer")
    assert timedelta(seconds=50) < job.due_at - timezone.now() <= timedelta(minutes=1)
    sweep_jobs()
    assert sent == []
    Job.objects.update(due_at=timezone.now())
    sweep_jobs()
    assert [number for number, _ in sent] == [job.pk]
    assert execute(job).state == JobState.FAILED and job.attempt == 2


def test_an_attempt_that_lost_its_job_writes_nothing(register):
    def lose(context):
        Job.objects.update(claim="another", attempt=2)
        with pytest.raises(JobLost):
            context.confirm_claim()
        context.confirm_claim()

    register(lose)
    job = execute(requested())
    assert (job.state, job.claim) == (JobState.RUNNING, "another")


def test_a_finished_job_can_be_started_again(register, sent):
    register(lambda context: JobResult({"attempt": context.job.attempt}))
    job = requested()
    assert not restart_job(job)
    execute(job)
    assert restart_job(job) and not restart_job(job)
    assert execute(job).state == JobState.DONE and job.attempt == 1
    assert restart_job(job) and cancel_job(job)
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED and restart_job(job)


def test_a_job_of_another_version_fails_with_a_message():
    job = execute(request_job(Job(type="of-a-later-version")))
    assert job.state == JobState.FAILED and "has no jobs of the type of-a-later-version" in job.error
