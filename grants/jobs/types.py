"""The registry of the types of jobs, and what the function of a type returns or raises."""

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import timedelta
from typing import Any

from django.conf import settings

from entities.frozen import frozen
from grants.models.jobs import Job


class JobFailed(Exception):
    """The job failed for a known reason: the message is its error, and no other attempt follows."""


class JobRefused(JobFailed):
    """The request was refused. Its page shows the reason, and the requester can correct it.

    The console works, so the job is not a finding. Its summary has the member REFUSED. Use it only for jobs with a
    requester who sees the answer. Scheduled jobs raise JobFailed, because nobody watches them.
    """


REFUSED = "refused"


class JobInterrupted(Exception):
    """The attempt ended for a reason that may pass: another one follows.

    The message is the error of the job after the last attempt.
    """


@frozen
class JobResult:
    """The result of a job, stored in the columns of its row with these names.

    store: writes other rows of the job, in the transaction that closes it.
    """

    summary: Mapping[str, Any] = field(default_factory=dict)
    revision: int | None = None
    result_path: str = ""
    result_hash: str = ""
    store: Callable[[], None] = lambda: None


# its argument is a `grants.jobs.execution.JobContext`
JobFunction = Callable[[Any], JobResult | None]


@frozen
class JobType:
    """How jobs of one type are executed.

    queue: `settings.RUN_QUEUE`, whose worker executes one job at a time, or `settings.LIGHT_QUEUE` for short
    jobs.
    time_limit: in seconds; by default RUN_TIMEOUT_SECONDS. max_attempts: by default RUN_ATTEMPTS_MOST.
    pause: between an attempt with this number that was interrupted and the next one.
    timeout_hint: a sentence to add to the error of a job that took too long.
    """

    run: JobFunction
    queue: str
    time_limit: int | None = None
    max_attempts: int | None = None
    pause: Callable[[int], timedelta] = lambda attempt: timedelta(0)
    timeout_hint: Callable[[], str] = str

    @property
    def limit(self) -> timedelta:
        return timedelta(seconds=settings.RUN_TIMEOUT_SECONDS if self.time_limit is None else self.time_limit)

    @property
    def attempts(self) -> int:
        return self.max_attempts or settings.RUN_ATTEMPTS_MOST


JOB_TYPES: dict[str, JobType] = {}


def job_type(
    *names: str, queue: str = settings.RUN_QUEUE, **options: Any
) -> Callable[[JobFunction], JobFunction]:
    """Register the decorated function for jobs of these types. options: of JobType.

    Apps register their types in a module `job_types`, which `GrantsConfig` imports.
    """

    def register(run: JobFunction) -> JobFunction:
        JOB_TYPES.update(dict.fromkeys(names, JobType(run, queue, **options)))
        return run

    return register


def type_of(job: Job) -> JobType:
    """Return the type of a job; for a job of an unknown type, for example of another version, one that fails."""
    return JOB_TYPES.get(job.type) or JobType(_fail_as_unknown, settings.RUN_QUEUE)


def _fail_as_unknown(context: Any) -> None:
    raise JobFailed(f"This version of the console has no jobs of the type {context.job.type}.")
