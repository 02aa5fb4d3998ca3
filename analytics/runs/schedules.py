"""Analyses that run every night, each once a night; off until an administrator switches one on.

The table of django-celery-beat follows the schedules. `analytics.runs.beat` sends the message, and `request_scheduled_run`
decides whether the moment still needs a run. So a repeated message, or a scheduler that starts late, causes one run.
"""

import logging
from collections.abc import Mapping
from datetime import datetime, time, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from analytics.analyses import ANALYSES, AnalysisError, analysis_named
from analytics.models import AnalysisRun, RunState, Schedule
from analytics.runs.options import validated_options
from analytics.runs.services import request_run
from grants.changes.authority import administrator_transaction
from grants.changes.outcomes import Outcome
from grants.journal import Author, Change, append_to_journal

logger = logging.getLogger(__name__)

TASK = "analytics.schedule_run"
# by which the clocks of two machines may differ
CLOCK_SLACK = timedelta(minutes=1)


def change_schedule(*, author: Author, analysis: str, is_on: bool, at: time, options: Mapping[str, str]) -> Outcome:
    """Switch the nightly run on or off, or change when and with what it runs. at: in UTC, to the minute.

    An option that is left out gets its default each night anew: the generation that is active then. Raises AnalysisError,
    GrantError.
    """
    chosen, at = analysis_named(analysis), at.replace(second=0, microsecond=0, tzinfo=None)
    given = {name: value for name, value in options.items() if value}
    # one that is switched off keeps what it has, also where it could not run with it any more
    if is_on:
        validated_options(chosen, given)
    with administrator_transaction(author) as head:
        schedule = Schedule.objects.filter(analysis=chosen.name).first() or Schedule(analysis=chosen.name)
        before = (schedule.is_on, schedule.at, schedule.options)
        if schedule.pk and before == (is_on, at, given):
            return Outcome(False, f"{_sentence(schedule)} already: nothing changed", head.revision)
        schedule.is_on, schedule.at, schedule.options = is_on, at, given
        # tonight's first, and not the one that was missed while it was off
        schedule.last_moment = _newest_moment(at)
        schedule.save()
        write_periodic_task(schedule)
        detail = f"{chosen.name}, nightly at {at:%H:%M} UTC{_options_words(given)}"
        verb = ("schedule-off", "schedule-on")[is_on] if before[0] != is_on else "schedule-change"
        revision = append_to_journal(head, [Change(verb, detail=detail)], author=author)
    return Outcome(True, _sentence(schedule), revision)


def request_scheduled_run(*, analysis: str) -> AnalysisRun | None:
    """The run of the newest moment, unless that moment had one. What cannot be run is kept as a run that failed."""
    with transaction.atomic():
        schedule = Schedule.objects.filter(analysis=analysis, is_on=True).first()
        if schedule is None or not _moment_taken(schedule):
            return None
        waiting = AnalysisRun.objects.filter(analysis=analysis, is_scheduled=True, state=RunState.WAITING).first()
        if waiting is not None:
            logger.info("%s waits still; it will answer for this night too", waiting)
            return None
        return _requested(schedule)


def _requested(schedule: Schedule) -> AnalysisRun:
    try:
        return request_run(analysis=schedule.analysis, options=schedule.options, requested_by=None, is_scheduled=True)
    except AnalysisError as error:
        return AnalysisRun.objects.create(
            analysis=schedule.analysis, options=schedule.options, is_scheduled=True, finished_at=timezone.now(),
            state=RunState.FAILED, error=f"The scheduled run could not be started: {error}.")


def run_missed_schedules() -> None:
    """Run what was missed while nothing was there to send a message."""
    for analysis in Schedule.objects.filter(is_on=True).order_by("pk").values_list("analysis", flat=True):
        request_scheduled_run(analysis=analysis)


def all_schedules() -> list[Schedule]:
    """One for each analysis, in their order; those that were never switched on are not in the database. One query."""
    known = {schedule.analysis: schedule for schedule in Schedule.objects.filter(analysis__in=ANALYSES)}
    return [known.get(name) or Schedule(analysis=name) for name in ANALYSES]


def schedule_named(analysis: str) -> Schedule:
    """Raises AnalysisError where there is no such analysis."""
    name = analysis_named(analysis).name
    return Schedule.objects.filter(analysis=name).first() or Schedule(analysis=name)


def periodic_task_name(analysis: str) -> str:
    return f"nightly {analysis}"


def write_periodic_task(schedule: Schedule) -> None:
    """What the scheduler is to do about it."""
    crontab, _ = CrontabSchedule.objects.get_or_create(
        minute=str(schedule.at.minute), hour=str(schedule.at.hour), day_of_week="*", day_of_month="*", month_of_year="*",
        timezone="UTC")
    PeriodicTask.objects.update_or_create(name=periodic_task_name(schedule.analysis), defaults={
        "task": TASK, "args": f'["{schedule.analysis}"]', "crontab": crontab, "enabled": schedule.is_on})


def _moment_taken(schedule: Schedule) -> bool:
    """Whether it was this call that took the newest moment. One statement, so of two calls at once one does."""
    moment = _newest_moment(schedule.at)
    free = Q(last_moment=None) | Q(last_moment__lt=moment)
    return bool(Schedule.objects.filter(free, pk=schedule.pk, is_on=True, at=schedule.at).update(last_moment=moment))


def _newest_moment(at: time) -> datetime:
    now = timezone.now() + CLOCK_SLACK
    today = now.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
    return today if today <= now else today - timedelta(days=1)


def _sentence(schedule: Schedule) -> str:
    if not schedule.is_on:
        return f"{schedule.analysis} does not run by itself"
    return f"{schedule.analysis} runs nightly at {schedule.at:%H:%M} UTC{_options_words(schedule.options)}"


def _options_words(options: Mapping[str, str]) -> str:
    return "".join(f", {name.replace('_', ' ')} {value}" for name, value in options.items())
