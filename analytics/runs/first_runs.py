"""Run each analysis once automatically, so that a new console has reports."""

import logging
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction

from analytics.analyses import ANALYSES, Analysis
from analytics.models import AnalysisRun, RunState
from analytics.runs.services import request_run
from entities.models import Entity
from grants.active_generation import active_generation
from grants.errors import JournalReadOnly
from grants.journal import lock_journal
from grants.policies.catalogue import GENERATIONS

logger = logging.getLogger(__name__)
UNFINISHED = (RunState.WAITING, RunState.RUNNING)


@dataclass(frozen=True, slots=True)
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
    requested = set(AnalysisRun.objects.order_by().values_list("analysis", flat=True).distinct())
    return [analysis for name, analysis in ANALYSES.items() if name not in requested]


def first_runs_progress() -> FirstRuns | None:
    """Return the progress of the first runs; None if every analysis that will run had a run.

    Runs one query.
    """
    rows = set(AnalysisRun.objects.order_by().values_list("analysis", "state").distinct())
    finished = {analysis for analysis, state in rows if state not in UNFINISHED} & ANALYSES.keys()
    unfinished = {analysis for analysis, state in rows if state in UNFINISHED} & ANALYSES.keys()
    expected = ANALYSES.keys() if settings.FIRST_ANALYSES else finished | unfinished
    return FirstRuns(len(finished), len(expected)) if expected - finished else None
