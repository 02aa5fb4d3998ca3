"""The jobs of connections. Only a worker connects to platforms, so that no request waits for one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import wraps
from typing import Any

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from authzconsole.connections import services
from authzconsole.connections.platform import ChangedSinceShown, ConnectionFault, Unsupported
from authzconsole.models import Connection
from entities.vocabulary import Privilege
from grants.authority.transactions import administrator_transaction
from grants.errors import GrantError
from grants.jobs import JobContext, JobFailed, JobRefused, JobResult, request_job
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import Job, JobState, PlanState, User
from grants.policies.times import format_time

TEST_JOB, SYNC_JOB, COMPARE_JOB, PUSH_JOB = (
    f"{services.JOB_PREFIX}{name}" for name in ("test", "sync", "compare", "push")
)
# of each list of a sync or a comparison; the commands have all rows
MAX_ROWS = 10_000
# the columns of the drift in the result of a comparison; granted_by, granted_at: on the platform, empty if it does not say
DRIFT_COLUMNS = ("principal", "entity", "privilege", "console", "platform", "granted_by", "granted_at")
# of syncs without a request; the command has this name too
AUTHOR = "connection"
PUSH_WITH_SECOND_PERSON = "FOUR_EYES is on, so a push needs a second person: use `connection push NAME --apply --second-person NAME`"


def newest_job(connection: Connection, job_type: str) -> Job | None:
    """Return the newest job of a type for a connection. Runs one query."""
    jobs = Job.objects.filter(type=job_type, options__connection=connection.name)
    return jobs.select_related("requested_by").order_by("-pk").first()


def newest_jobs() -> dict[str, Job]:
    """Return the newest job of each connection, by its name. A comparison after a sync that is not done does not hide
    the sync. Runs two queries.
    """
    jobs = Job.objects.filter(type__startswith=services.JOB_PREFIX).order_by()
    newest = jobs.values("options__connection", "type").annotate(newest=Max("pk"))
    rows = Job.objects.filter(pk__in=[row["newest"] for row in newest]).order_by("pk")
    by_connection: dict[str, Job] = {}
    for row in rows.only("type", "state", "requested_at", "options"):
        last = by_connection.get(row.options["connection"])
        has_open_sync = last is not None and last.type == SYNC_JOB and last.state != JobState.DONE
        if not (has_open_sync and row.type == COMPARE_JOB):
            by_connection[row.options["connection"]] = row
    return by_connection


def request_connection_job(
    connection: Connection,
    job_type: str,
    *,
    author: Author,
    requested_by: User | None = None,
    options: Mapping[str, str] = {},
) -> Job:
    """Request a job for a connection. Return the one that is waiting or running already, if any.

    Without `requested_by`, the schedule of the connection requests it. options: of the job, besides the connection.
    Raise NotAdministrator.
    """
    with administrator_transaction(author) as head:
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
        except ChangedSinceShown as error:
            raise JobRefused(str(error)) from error
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
            "has_policies": bool(platform.policy_kinds),
        }
        for name, read in (
            ("entity", platform.read_entities),
            ("principal", platform.read_principals),
            ("grant", platform.read_grants),
        ):
            context.check()
            found = next(iter(read()), "")
            summary[name] = found.subject if isinstance(found, Unsupported) else str(found)
    return JobResult(summary)


def _progress(context: JobContext) -> Callable[[int], None]:
    def progress(count: int) -> None:
        context.check()
        context.show_progress(count, count)

    return progress


@job_of_connection
def sync_connection(context: JobContext, connection: Connection, author: Author) -> JobResult:
    """Read the platform, and make a plan of what a sync would change; with the option `applies`, make the changes."""
    options = context.job.options
    context.begin_stage("reading")
    result = services.computed_sync(
        connection, accepts_shrunken="accepts_shrunken" in options, progress=_progress(context)
    )
    context.begin_stage("writing")
    plan = None
    if "applies" in options:
        services.sync(connection, result, author=author)
    else:
        plan = services.prepare_sync(connection, result, author=author, confirm=context.confirm_claim)
    summary = result.counts | {"plan": plan and plan.pk} | _unsupported_summary(result.unsupported)
    return JobResult(summary, result.revision)


def _unsupported_summary(rows: Sequence[Unsupported]) -> dict[str, Any]:
    """Return what one side cannot express, for the summary of a job, which each look at the connection reads."""
    return {"unsupported_count": len(rows), "unsupported": [list(row) for row in rows[:MAX_ROWS]]}


@job_of_connection
def compare_grants(context: JobContext, connection: Connection, author: Author) -> JobResult:
    """Compare the grants of the platform with those of the console."""
    return _comparison_result(services.compare_connection(connection, _progress(context)))


@job_of_connection
def push_grants(context: JobContext, connection: Connection, author: Author) -> JobResult:
    """Make the grants of the platform those of the console. The options name the comparison that was shown."""
    if settings.FOUR_EYES:
        raise ConnectionFault(PUSH_WITH_SECOND_PERSON)
    comparison = services.push(connection, author=author, shown=context.job.options["shown"])
    requested_by = context.job.requested_by
    request_connection_job(connection, COMPARE_JOB, author=author, requested_by=requested_by)
    return JobResult({"changes": len(comparison.changes)})


def drift_row(row: Sequence) -> dict[str, Any]:
    """Return a row of the drift by column. Results of older versions lack the last two columns."""
    return dict.fromkeys(DRIFT_COLUMNS, "") | dict(zip(DRIFT_COLUMNS, row, strict=False))


def drifting_connections() -> Iterator[tuple[str, int]]:
    """Yield each connection with drift in its newest comparison, and the number of privileges. Runs two queries."""
    compared = Job.objects.filter(type=COMPARE_JOB, state=JobState.DONE).order_by()
    newest = compared.values("options__connection").annotate(newest=Max("pk")).values("newest")
    rows = Job.objects.filter(pk__in=list(newest.values_list("newest", flat=True)), summary__count__gt=0)
    yield from rows.order_by("pk").values_list("options__connection", "summary__count")


def _comparison_result(comparison: services.Comparison) -> JobResult:
    rows = []
    for grant, console, platform in comparison.drift:
        made = comparison.state.made_by.get(grant.key)
        origin = [made.grantor, format_time(made.at)] if made else ["", ""]
        rows.append([grant.principal, str(grant.address), str(grant.privilege), console, platform, *origin])
    changes = [change._asdict() | {"entity": str(change.entity or "")} for change in comparison.changes]
    return JobResult(
        {
            "count": len(rows),
            "rows": rows[:MAX_ROWS],
            "change_count": len(changes),
            "changes": changes[:MAX_ROWS],
            **_unsupported_summary(comparison.unsupported),
            "digest": comparison.digest,
        }
    )


def request_push(connection: Connection, *, author: Author, shown: str, requested_by: User) -> Job:
    """Request a push of the comparison with this digest. Raise ConnectionFault if it is not the newest one, or if the
    reason is missing or a second person is needed.
    """
    if settings.FOUR_EYES:
        raise ConnectionFault(PUSH_WITH_SECOND_PERSON)
    if not author.reason.strip():
        raise ConnectionFault("the reason is missing: the journal stores it", field="reason")
    job = newest_job(connection, COMPARE_JOB)
    if job is None or job.state != JobState.DONE or job.summary.get("digest") != shown:
        raise ConnectionFault(f"compare {connection.name} again: the shown changes are not the newest ones")
    return request_connection_job(
        connection, PUSH_JOB, author=author, requested_by=requested_by, options={"shown": shown}
    )


def request_due_syncs() -> None:
    """Request a sync and a comparison of each connection that is due: its interval has passed since the last sync.

    Runs a query for each of them.
    """
    for connection in Connection.objects.select_related("plan").order_by("pk"):
        if connection.plan is not None and connection.plan.state == PlanState.APPLIED:
            # the drift that the plan removed is no longer found
            services.settle(connection)
            if newest_job(connection, COMPARE_JOB) is not None:
                request_connection_job(connection, COMPARE_JOB, author=Author(AUTHOR))
        if not connection.interval_hours:
            continue
        job = newest_job(connection, SYNC_JOB)
        if job is None or job.requested_at < timezone.now() - timedelta(hours=connection.interval_hours):
            author = Author(AUTHOR, reason=f"sync of {connection.name}")
            is_applied = connection.applies_syncs and not settings.FOUR_EYES
            options = {"applies": "yes"} if is_applied else {}
            request_connection_job(connection, SYNC_JOB, author=author, options=options)
            if services.platform_type(connection.type).capabilities:
                request_connection_job(connection, COMPARE_JOB, author=author)
