"""The status page for administrators and auditors: readiness, nightly runs, the journal and the last backup."""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from analytics.analyses import ANALYSES, Analysis
from analytics.models import AnalysisRun, Schedule
from analytics.runs.schedules import all_schedules
from analytics.runs.selectors import latest_finished_runs
from authzconsole import VERSION
from authzconsole.common.monitoring.maintenance import maintenance_records
from authzconsole.common.monitoring.readiness import readiness
from authzconsole.models import MaintenanceRecord, MaintenanceTask
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.rendering import render_page
from entities.frozen import frozen
from grants.journal import current_head
from grants.journal_keys import head_fault
from grants.models import JobState, JournalHead
from grants.principals.new_names import names_that_differ_in_case
from grants.roles.capabilities import Capability

CHECK_TITLES = {
    "database": "Database",
    "migrations": "Migrations",
    "redis": "Redis",
    "worker": "Workers",
    "scheduler": "Scheduler",
    "disk": "Disk space",
}
MAX_NAMES = 10
# the task runs more often; one missed run is no problem
LATE_AFTER = {
    MaintenanceTask.JOURNAL_VERIFICATION: timedelta(hours=48),
    MaintenanceTask.JOURNAL_ANCHOR: timedelta(minutes=30),
    MaintenanceTask.BACKUP: timedelta(days=7),
    MaintenanceTask.EXPIRY_MAIL: timedelta(minutes=30),
}
NOT_DONE_YET = {
    MaintenanceTask.JOURNAL_VERIFICATION: "not verified yet; a worker does it once a day",
    MaintenanceTask.JOURNAL_ANCHOR: "not anchored yet",
    MaintenanceTask.BACKUP: "no backup was written with `manage.py backup`",
    MaintenanceTask.EXPIRY_MAIL: "not sent yet; a worker does it twice a minute",
}
DONE = {
    MaintenanceTask.JOURNAL_VERIFICATION: "intact, and the tables contain what it says",
    MaintenanceTask.JOURNAL_ANCHOR: "written",
    MaintenanceTask.BACKUP: "written",
    MaintenanceTask.EXPIRY_MAIL: "sent",
}


@frozen
class StatusRow:
    """One line of the page. level: good, bad, or attention. record: the newest result, if the line is about a
    task.
    """

    title: str
    level: str
    text: str
    record: MaintenanceRecord | None = None
    unverified_lines: int = 0


@require_safe
@capability_required(Capability.READ_REPORTS)
def status_page(request: HttpRequest) -> HttpResponse:
    """Render the page. Runs seven queries.

    The readiness checks run further queries, in other threads and connections.
    """
    head, records = current_head(), maintenance_records()
    checks = [
        StatusRow(CHECK_TITLES.get(check.name, check.name), "good" if check.is_ok else "bad", check.text)
        for check in readiness()
    ]
    tasks = [*_task_rows(head, records), _name_row()]
    nights = list(_night_rows())
    return render_page(
        request,
        "overview/status.html",
        {
            "checks": checks,
            "tasks": tasks,
            "nights": nights,
            "head": head,
            "version": VERSION,
            "problems": sum(row.level == "bad" for row in (*checks, *tasks))
            + sum(run is not None and run.state == JobState.FAILED for _, _, run in nights),
            "warnings": sum(row.level == "attention" for row in (*checks, *tasks)),
        },
    )


def _task_rows(head: JournalHead, records: dict[str, MaintenanceRecord]) -> Iterator[StatusRow]:
    fault = head_fault(head)
    yield StatusRow(
        "Changes", "bad" if fault else "good", f"The console is read-only: {fault}" if fault else "possible"
    )
    for task in MaintenanceTask:
        if task == MaintenanceTask.JOURNAL_ANCHOR and not settings.JOURNAL_ANCHOR:
            yield StatusRow(task.label, "", "off: JOURNAL_ANCHOR names no place outside the database")
        elif task == MaintenanceTask.EXPIRY_MAIL and not settings.EMAIL_HOST:
            yield StatusRow(task.label, "", "off: EMAIL_HOST names no mail server")
        else:
            yield _task_row(task, records.get(task), head)


def _task_row(task: MaintenanceTask, record: MaintenanceRecord | None, head: JournalHead) -> StatusRow:
    if record is None:
        return StatusRow(task.label, "attention", NOT_DONE_YET[task])
    later_lines = max(0, head.revision - record.revision)
    if not record.is_ok:
        return StatusRow(task.label, "bad", record.text, record, later_lines)
    is_late = timezone.now() - record.at > LATE_AFTER[task]
    text = (record.text or DONE[task]) + (", but long ago" if is_late else "")
    return StatusRow(task.label, "attention" if is_late else "good", text, record, later_lines)


def _name_row() -> StatusRow:
    """Return the row about names that differ only in case. New names are refused; existing ones keep working.
    Runs two queries."""
    names = names_that_differ_in_case(MAX_NAMES + 1)
    if not names:
        return StatusRow("Names", "good", "no two users or groups have names that differ only in case")
    more = ", and others" if len(names) > MAX_NAMES else ""
    listed = f"{', '.join(names[:MAX_NAMES])}{more}"
    return StatusRow("Names", "attention", f"differ only in case: {listed}; rename all but one of each")


def _night_rows() -> Iterator[tuple[Analysis, Schedule, AnalysisRun | None]]:
    """Yield each analysis with its schedule and its newest finished run. Runs two queries."""
    schedules = {schedule.analysis: schedule for schedule in all_schedules()}
    runs = {run.type: run for run in latest_finished_runs()}
    for name, analysis in ANALYSES.items():
        yield analysis, schedules[name], runs.get(name)
