"""Background work: one model, one lifecycle, and a registry of the types of jobs.

A new type of job is a function with the decorator `job_type` in the module `job_types` of an app:

    @job_type("report-mail", queue=settings.LIGHT_QUEUE)
    def send_report(context: JobContext) -> JobResult:
        ...

`request_job(Job(type="report-mail", options={...}))` stores a job and sends it to the worker when the
transaction commits. The worker calls the function once for each attempt. The function calls `context.check`
between its steps, which ends it after a cancellation, and it may be executed again from the beginning after
its worker died.

A job moves from waiting to running, and from there to done, failed or cancelled. It moves back to waiting if
its worker died, if the function raises `JobInterrupted`, or with `repeat_job`.
INVARIANT: every move is one UPDATE with a condition on the old state and, for a running job, on the claim of
the executing process. So a message that arrives twice changes nothing, and a process that has lost its job
changes nothing.
"""

from grants.jobs.database_retry import retry_database
from grants.jobs.execution import JobCancelled, JobContext, JobLost, JobTimedOut, run_job
from grants.jobs.lifecycle import RUN_TASK, cancel_job, repeat_job, request_job
from grants.jobs.queue import (
    announce_scheduler,
    is_scheduler_present,
    is_worker_present,
    queue_lengths,
    redis_problem,
)
from grants.jobs.sweep import sweep_jobs
from grants.jobs.types import REFUSED, JobFailed, JobInterrupted, JobRefused, JobResult, job_type
