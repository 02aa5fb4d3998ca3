"""Apply a plan with many changes as a job, with the checks, the author and the reason of `apply_plan`.

INVARIANT: the changes are made in the transaction that closes the job. A job that fails or is cancelled changes nothing, and
one that is repeated after its worker died applies its plan once.
"""

from dataclasses import asdict

from django.conf import settings
from django.db import connection

from entities.errors import Refusal
from grants.authority.transactions import administrator_transaction, check_administrator
from grants.change_set import ChangeSet
from grants.changes import Shown
from grants.derived import matched_count
from grants.guardrails.check import AddedViolations
from grants.jobs import JobContext, JobFailed, JobRefused, JobResult, cancel_job, request_job
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import Job, Plan, User
from grants.plan_items import pattern_changes, proposed_plan
from grants.plans.apply import apply_plan, check_plan, plan_violations
from grants.progress import progress_to

APPLICATION_JOB = "plan-application"


def large_change_count(changes: Plan | ChangeSet) -> int:
    """Return the number of changes if only a job makes them on a page; otherwise 0.

    A grant on a pattern also counts once for each registered address that it matches. Runs one query for each pattern, and
    two for a plan.
    """
    if isinstance(changes, Plan):
        count = changes.items.count() + matched_count(pattern_changes(changes))
    else:
        count = len(changes) + matched_count(changes)
    return count if count > settings.APPLY_MAX_CHANGES else 0


def previewed_violations(plan: Plan) -> AddedViolations | None:
    """Return the violations of guardrails that a proposed plan would add; None for a large plan, because all of its changes
    would be made under the lock of the journal. The job that applies it checks them.
    """
    return None if large_change_count(plan) else plan_violations(plan)


def newest_application(plan: Plan) -> Job | None:
    """Return the newest job that applies the plan. Runs one query."""
    jobs = Job.objects.filter(type=APPLICATION_JOB, options__plan=plan.pk)
    return jobs.select_related("requested_by").order_by("-pk").first()


def request_application(*, author: Author, plan_id: int, shown: Shown) -> Job:
    """Request the job that applies a plan. Return the one that is waiting or running already, if any.

    The checks of the job are made now too, so that it is not refused for a known reason. Raise the errors of `check_plan`,
    NotAdministrator.
    """
    with administrator_transaction(author) as head:
        plan = proposed_plan(plan_id)
        job = newest_application(plan)
        if job is not None and not job.is_finished:
            return job
        check_plan(head, author, plan, shown)
        options = {"plan": plan_id, "author": asdict(author), "shown": asdict(shown)}
        requested_by = User.objects.filter(pk=author.user_id).first()
        job = request_job(Job(type=APPLICATION_JOB, options=options, requested_by=requested_by))
        append_to_journal(head, [JournalEntry("run-start", detail=_detail(job))], author=author)
    return job


def cancel_application(plan: Plan, *, author: Author) -> bool:
    """Cancel the job that applies a plan. Return False if it has finished. Raise NotAdministrator."""
    check_administrator(author)
    job = newest_application(plan)
    # before the journal is locked, because a running job holds this lock until it is cancelled
    if job is None or not cancel_job(job):
        return False
    with administrator_transaction(author) as head:
        append_to_journal(head, [JournalEntry("run-cancel", detail=_detail(job))], author=author)
    return True


def run_application(context: JobContext) -> JobResult:
    """Apply the plan that a job names, when its result is stored."""
    options = context.job.options
    plan = Plan.objects.get(pk=options["plan"])
    done, total = 0, large_change_count(plan)
    context.show_progress(0, total)

    def report(count: int) -> None:
        nonlocal done
        done += count
        if connection.vendor == "postgresql":
            # otherwise the commit would check all rows, which takes as long and has no progress
            connection.check_constraints()
        context.show_progress(min(done, total), total)
        context.check()

    def make_changes() -> None:
        nonlocal done
        done = 0
        try:
            with progress_to(report):
                author, shown = Author(**options["author"]), Shown(**options["shown"])
                apply_plan(author=author, plan_id=plan.pk, shown=shown)
                context.check()
        except Refusal as error:
            # an error of the console, such as a journal that cannot be signed, is no refusal
            raise (JobRefused if error.status < 500 else JobFailed)(str(error)) from error

    return JobResult(store=make_changes)


def _detail(job: Job) -> str:
    return f"run {job.pk}: {job.type}, plan: {job.options['plan']}"
