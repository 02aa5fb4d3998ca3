"""The jobs of connections. Only a worker connects to platforms, so that no request waits for one."""

from collections.abc import Callable
from dataclasses import asdict
from functools import wraps

from authzconsole.connections import services
from authzconsole.connections.platform import ConnectionFault
from authzconsole.models import Connection
from entities.vocabulary import Privilege
from grants.authority.transactions import administrator_transaction
from grants.errors import GrantError
from grants.jobs import JobContext, JobFailed, JobResult, request_job
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import Job, User
from grants.roles.capabilities import Capability

TEST_JOB = f"{services.JOB_PREFIX}test"


def newest_job(connection: Connection, job_type: str) -> Job | None:
    """Return the newest job of a type for a connection. Runs one query."""
    jobs = Job.objects.filter(type=job_type, options__connection=connection.name)
    return jobs.select_related("requested_by").order_by("-pk").first()


def request_connection_job(
    connection: Connection,
    job_type: str,
    *,
    author: Author,
    requested_by: User | None = None,
    capability: Capability = Capability.CHANGE_GRANTS,
    **options: str,
) -> Job:
    """Request a job for a connection. Return the one that is waiting or running already, if any.

    Without `requested_by`, the schedule of the connection requests it. options: of the job, besides the connection.
    Raise NotAdministrator.
    """
    with administrator_transaction(author, capability=capability) as head:
        job = newest_job(connection, job_type)
        if job is not None and not job.is_finished:
            return job
        job = Job(
            type=job_type,
            options={"connection": connection.name, "author": asdict(author), **options},
            requested_by=requested_by,
            is_scheduled=requested_by is None,
        )
        job = request_job(job)
        detail = f"run {job.pk}: {job_type}, connection: {connection.name}"
        append_to_journal(head, [JournalEntry("run-start", detail=detail)], author=author)
    return job


JobOfConnection = Callable[[JobContext, Connection, Author], JobResult]


def job_of_connection(run: JobOfConnection) -> Callable[[JobContext], JobResult]:
    """Make a function the one of a job: its author is the one who requested it, and its refusals are the error."""

    @wraps(run)
    def run_job(context: JobContext) -> JobResult:
        options = context.job.options
        try:
            connection = services.connection_by_name(options["connection"])
            return run(context, connection, Author(**options["author"]))
        except GrantError as error:
            raise JobFailed(str(error)) from error

    return run_job


@job_of_connection
def test_connection(context: JobContext, connection: Connection, author: Author) -> JobResult:
    """Connect to the platform, and read the first of everything that it shows."""
    with services.open_platform(connection) as platform:
        summary = {
            "version": platform.version,
            "privileges": [str(one) for one in Privilege if one in platform.capabilities],
        }
        for name, read in (
            ("entity", platform.read_entities),
            ("principal", platform.read_principals),
            ("grant", platform.read_grants),
        ):
            context.check()
            found = next(iter(read()), "")
            summary[name] = found.subject if isinstance(found, services.Unsupported) else str(found)
    return JobResult(summary)


__all__ = ["TEST_JOB", "ConnectionFault", "newest_job", "request_connection_job", "test_connection"]
