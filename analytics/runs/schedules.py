"""Run analyses without a request: every night, and once in a new console.

Each nightly schedule is off until an administrator switches it on.

A periodic task requests the runs of all moments that have passed. A moment is stored with its run, under the lock
of the journal, so a repeated message or a late scheduler causes only one run.
"""

import logging
from collections.abc import Mapping
from datetime import datetime, time, timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from analytics.analyses import ANALYSES, Analysis, AnalysisError, analysis_by_name
from analytics.models import AnalysisRun, Schedule
from analytics.runs.services import request_run, validated_options
from entities.frozen import frozen
from entities.models import Entity
from grants.active_generation import active_generation
from grants.authority.transactions import administrator_transaction
from grants.errors import JournalReadOnly
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import UNFINISHED_STATES, JobState
from grants.outcomes import Outcome
from grants.policies.catalogue import GENERATIONS
from grants.roles.capabilities import Capability

logger = logging.getLogger(__name__)

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
        detail = f"{known_analysis.name}, nightly at {at:%H:%M} UTC{_options_text(non_empty_options)}"
        verb = ("schedule-off", "schedule-on")[is_on] if before[0] != is_on else "schedule-change"
        revision = append_to_journal(head, [JournalEntry(verb, detail=detail)], author=author)
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


def request_scheduled_runs() -> list[AnalysisRun]:
    """Request the runs of all moments that have passed and have no run. Return the new runs; a schedule with
    invalid options causes a failed one.

    While the console is read-only, no moment is stored, because the journal could not contain the start of
    the run. Runs one query if there is nothing to do.
    """
    if not _due_schedules():
        return []
    try:
        with transaction.atomic():
            # before the rows of the schedules, as `change_schedule` does
            lock_journal()
            return [run for schedule in _due_schedules() if (run := _request_newest_moment(schedule))]
    except JournalReadOnly as error:
        logger.warning("The nightly runs were not started: %s", error)
        return []


def _due_schedules() -> list[Schedule]:
    """Return the schedules that need a run for their newest moment."""
    return [
        schedule
        for schedule in Schedule.objects.filter(is_on=True).order_by("pk")
        if schedule.last_moment is None or schedule.last_moment < _newest_moment(schedule.at)
    ]


def _request_newest_moment(schedule: Schedule) -> AnalysisRun | None:
    schedule.last_moment = _newest_moment(schedule.at)
    schedule.save(update_fields=["last_moment"])
    waiting = AnalysisRun.objects.filter(
        type=schedule.analysis, is_scheduled=True, state=JobState.WAITING
    ).first()
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
            type=schedule.analysis,
            options=schedule.options,
            is_scheduled=True,
            finished_at=timezone.now(),
            state=JobState.FAILED,
            error=f"The scheduled run could not be started: {error}.",
        )


def all_schedules() -> list[Schedule]:
    """Return a schedule for each analysis, in the order of the registry; unsaved if it was never switched on.

    Runs one query.
    """
    schedules = {schedule.analysis: schedule for schedule in Schedule.objects.filter(analysis__in=ANALYSES)}
    return [schedules.get(name) or Schedule(analysis=name) for name in ANALYSES]


def next_night() -> datetime | None:
    """Return the time of the next scheduled run; None if no schedule is on. Runs one query."""
    moments = [_newest_moment(schedule.at) for schedule in Schedule.objects.filter(is_on=True)]
    return min(moments) + timedelta(days=1) if moments else None


def schedule_by_name(analysis: str) -> Schedule:
    """Return the schedule of an analysis; unsaved if it was never switched on.

    Raise AnalysisError for an unknown analysis.
    """
    name = analysis_by_name(analysis).name
    return Schedule.objects.filter(analysis=name).first() or Schedule(analysis=name)


def _newest_moment(at: time) -> datetime:
    now = timezone.now() + CLOCK_SLACK
    today = now.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
    return today if today <= now else today - timedelta(days=1)


def _sentence(schedule: Schedule) -> str:
    if not schedule.is_on:
        return f"the analysis {schedule.analysis} is not scheduled"
    return f"the analysis {schedule.analysis} runs nightly at {schedule.at:%H:%M} UTC{_options_text(schedule.options)}"


def _options_text(options: Mapping[str, str]) -> str:
    return "".join(f", {name.replace('_', ' ')} {value}" for name, value in options.items())


@frozen
class FirstRuns:
    """The progress of the first run of each analysis."""

    finished: int
    total: int


def default_options(analysis: Analysis) -> dict[str, str]:
    """Return the options that the analysis needs but has no default for.

    The active generation is compared with the next one, which is usually activated next; the newest one with
    the previous one.
    """
    if "to_generation" not in analysis.options:
        return {}
    names = list(GENERATIONS)
    position = names.index(active_generation().name)
    return {"to_generation": names[position + 1] if position + 1 < len(names) else names[position - 1]}


def request_first_runs() -> list[AnalysisRun]:
    """Request a run of each analysis that was never requested. Return the new runs.

    Requests nothing while there are no entities, if FIRST_ANALYSES is off, or while the console is read-only.
    The lock of the journal prevents two schedulers from requesting the same runs. Runs two queries if there
    is nothing to do.
    """
    if not settings.FIRST_ANALYSES or not _analyses_without_run() or not Entity.objects.exists():
        return []
    try:
        with transaction.atomic():
            lock_journal()
            runs = [
                request_run(analysis=analysis.name, options=default_options(analysis), requested_by=None)
                for analysis in _analyses_without_run()
            ]
    except JournalReadOnly:
        return []
    logger.info("requested the first run of %d analyses", len(runs))
    return runs


def _analyses_without_run() -> list[Analysis]:
    requested = set(AnalysisRun.objects.order_by().values_list("type", flat=True).distinct())
    return [analysis for name, analysis in ANALYSES.items() if name not in requested]


def first_runs_progress() -> FirstRuns | None:
    """Return the progress of the first runs; None if every analysis that will run had a run.

    Runs one query.
    """
    rows = set(AnalysisRun.objects.order_by().values_list("type", "state").distinct())
    finished = {analysis for analysis, state in rows if state not in UNFINISHED_STATES} & ANALYSES.keys()
    unfinished = {analysis for analysis, state in rows if state in UNFINISHED_STATES} & ANALYSES.keys()
    expected = ANALYSES.keys() if settings.FIRST_ANALYSES else finished | unfinished
    return FirstRuns(len(finished), len(expected)) if expected - finished else None
