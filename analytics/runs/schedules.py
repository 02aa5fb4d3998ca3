"""Run analyses every night. Each schedule is off until an administrator switches it on.

The table of django-celery-beat is kept in line with the schedules. `analytics.runs.beat` sends a message at
the scheduled time, and `request_scheduled_run` decides whether that moment still needs a run. So a repeated
message or a late scheduler causes only one run.
"""

import logging
from collections.abc import Mapping
from datetime import datetime, time, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from analytics.analyses import ANALYSES, AnalysisError, analysis_by_name
from analytics.models import AnalysisRun, RunState, Schedule
from analytics.runs.first_runs import default_options
from analytics.runs.options import validated_options
from analytics.runs.services import request_run
from grants.changes.authority import administrator_transaction
from grants.changes.outcomes import Outcome
from grants.errors import JournalReadOnly
from grants.journal import Author, Change, append_to_journal, lock_journal
from grants.roles.capabilities import Capability

logger = logging.getLogger(__name__)

TASK = "analytics.schedule_run"
# in the journal lines of scheduled runs; `grants.author_names` reserves it
SCHEDULE_AUTHOR = "schedule_run"
# the largest expected difference between the clocks of two machines
CLOCK_SLACK = timedelta(minutes=1)


def change_schedule(
    *, author: Author, analysis: str, is_on: bool, at: time, options: Mapping[str, str]
) -> Outcome:
    """Switch the nightly run on or off, or change its time or options. at: the time in UTC, to the minute.

    A missing option gets its default every night: the generation that is active at that time.
    Raise AnalysisError for an unknown analysis or invalid options, GrantError if the author may not write.
    """
    known_analysis, at = analysis_by_name(analysis), at.replace(second=0, microsecond=0, tzinfo=None)
    non_empty_options = {name: value for name, value in options.items() if value}
    # a schedule that is switched off keeps its options even if they are no longer valid
    if is_on:
        validated_options(known_analysis, non_empty_options)
    with administrator_transaction(author, capability=Capability.RUN_ANALYSES) as head:
        schedule = Schedule.objects.filter(analysis=known_analysis.name).first() or Schedule(
            analysis=known_analysis.name
        )
        before = (schedule.is_on, schedule.at, schedule.options)
        if schedule.pk and before == (is_on, at, non_empty_options):
            return Outcome(False, f"{_sentence(schedule)} already: nothing changed", head.revision)
        schedule.is_on, schedule.at, schedule.options = is_on, at, non_empty_options
        # the next moment is the first; moments that passed while the schedule was off are not run
        schedule.last_moment = _newest_moment(at)
        schedule.save()
        write_periodic_task(schedule)
        detail = f"{known_analysis.name}, nightly at {at:%H:%M} UTC{_options_text(non_empty_options)}"
        verb = ("schedule-off", "schedule-on")[is_on] if before[0] != is_on else "schedule-change"
        revision = append_to_journal(head, [Change(verb, detail=detail)], author=author)
    return Outcome(True, _sentence(schedule), revision)


def switch_all_schedules(*, author: Author, is_on: bool) -> list[Outcome]:
    """Switch the nightly runs of all analyses on or off, in one transaction. Return the outcomes of those
    that changed.

    A schedule keeps its time and its options. Analyses that need options get those of `default_options`.
    """
    with administrator_transaction(author, capability=Capability.RUN_ANALYSES):
        changed = [schedule for schedule in all_schedules() if schedule.is_on != is_on]
        return [
            change_schedule(
                author=author,
                analysis=schedule.analysis,
                is_on=is_on,
                at=schedule.at,
                options=default_options(ANALYSES[schedule.analysis]) | schedule.options,
            )
            for schedule in changed
        ]


def request_scheduled_run(*, analysis: str) -> AnalysisRun | None:
    """Request the run of the newest moment, unless it has one. A schedule with invalid options causes a
    failed run.

    While the console is read-only, the moment is not claimed, because the journal could not contain the start
    of the run.
    """
    if not Schedule.objects.filter(analysis=analysis, is_on=True).exists():
        return None
    try:
        with transaction.atomic():
            # before the row of the schedule, as `change_schedule` does
            lock_journal()
            return _request_newest_moment(analysis)
    except JournalReadOnly as error:
        logger.warning("The nightly run of %s was not started: %s", analysis, error)
        return None


def _request_newest_moment(analysis: str) -> AnalysisRun | None:
    schedule = Schedule.objects.filter(analysis=analysis, is_on=True).first()
    if schedule is None or not _claim_moment(schedule):
        return None
    waiting = AnalysisRun.objects.filter(analysis=analysis, is_scheduled=True, state=RunState.WAITING).first()
    if waiting is not None:
        logger.info("%s is still waiting; it also counts for this night", waiting)
        return None
    return _request_or_record_failure(schedule)


def _request_or_record_failure(schedule: Schedule) -> AnalysisRun:
    try:
        return request_run(
            analysis=schedule.analysis,
            options=schedule.options,
            requested_by=None,
            is_scheduled=True,
            author=Author(SCHEDULE_AUTHOR, reason="nightly run"),
        )
    except AnalysisError as error:
        return AnalysisRun.objects.create(
            analysis=schedule.analysis,
            options=schedule.options,
            is_scheduled=True,
            finished_at=timezone.now(),
            state=RunState.FAILED,
            error=f"The scheduled run could not be started: {error}.",
        )


def run_missed_schedules() -> None:
    """Request the runs that were missed while no scheduler was running."""
    for analysis in Schedule.objects.filter(is_on=True).order_by("pk").values_list("analysis", flat=True):
        request_scheduled_run(analysis=analysis)


def all_schedules() -> list[Schedule]:
    """Return a schedule for each analysis, in the order of the registry; unsaved if it was never switched on.

    Runs one query.
    """
    schedules = {schedule.analysis: schedule for schedule in Schedule.objects.filter(analysis__in=ANALYSES)}
    return [schedules.get(name) or Schedule(analysis=name) for name in ANALYSES]


def schedule_by_name(analysis: str) -> Schedule:
    """Return the schedule of an analysis; unsaved if it was never switched on.

    Raise AnalysisError for an unknown analysis.
    """
    name = analysis_by_name(analysis).name
    return Schedule.objects.filter(analysis=name).first() or Schedule(analysis=name)


def periodic_task_name(analysis: str) -> str:
    return f"nightly {analysis}"


def write_periodic_task(schedule: Schedule) -> None:
    """Write the scheduler's entry for a schedule."""
    crontab, _ = CrontabSchedule.objects.get_or_create(
        minute=str(schedule.at.minute),
        hour=str(schedule.at.hour),
        day_of_week="*",
        day_of_month="*",
        month_of_year="*",
        timezone="UTC",
    )
    PeriodicTask.objects.update_or_create(
        name=periodic_task_name(schedule.analysis),
        defaults={
            "task": TASK,
            "args": f'["{schedule.analysis}"]',
            "crontab": crontab,
            "enabled": schedule.is_on,
        },
    )


def _claim_moment(schedule: Schedule) -> bool:
    """Claim the newest scheduled moment. Return False if it was already claimed.

    Uses one statement, so only one of several parallel calls succeeds.
    """
    moment = _newest_moment(schedule.at)
    is_unclaimed = Q(last_moment=None) | Q(last_moment__lt=moment)
    return bool(
        Schedule.objects.filter(is_unclaimed, pk=schedule.pk, is_on=True, at=schedule.at).update(
            last_moment=moment
        )
    )


def _newest_moment(at: time) -> datetime:
    now = timezone.now() + CLOCK_SLACK
    today = now.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
    return today if today <= now else today - timedelta(days=1)


def _sentence(schedule: Schedule) -> str:
    if not schedule.is_on:
        return f"{schedule.analysis} is not scheduled"
    return f"{schedule.analysis} runs nightly at {schedule.at:%H:%M} UTC{_options_text(schedule.options)}"


def _options_text(options: Mapping[str, str]) -> str:
    return "".join(f", {name.replace('_', ' ')} {value}" for name, value in options.items())
