"""Each analysis runs once automatically, as soon as there are entities."""

from itertools import pairwise

import celery
import pytest

from analytics.analyses import ANALYSES
from analytics.models import AnalysisRun
from analytics.runs.schedules import FirstRuns, default_options, first_runs_progress, request_first_runs
from analytics.tasks import request_scheduled_runs
from entities.models import Entity
from grants.models import JobState, JournalHead
from grants.policies.catalogue import GENERATIONS
from tests.support.changes import activate_generation

pytestmark = pytest.mark.django_db
IMPACT = ANALYSES["policy-impact"]


@pytest.fixture(autouse=True)
def new_console(settings, monkeypatch):
    settings.FIRST_ANALYSES = True
    monkeypatch.setattr("grants.jobs.queue.redis_problem", lambda: "")
    monkeypatch.setattr(celery.current_app, "send_task", lambda *args, **options: None)
    Entity.objects.create(kind="instance", key="cdap")


def test_each_analysis_is_requested_once():
    assert [run.type for run in request_first_runs()] == list(ANALYSES)
    assert request_first_runs() == []
    assert not AnalysisRun.objects.exclude(
        state=JobState.WAITING, requested_by=None, is_scheduled=False
    ).exists()


def test_an_analysis_that_was_requested_before_is_left_out():
    AnalysisRun.objects.create(type="stranded", state=JobState.CANCELLED)
    assert {run.type for run in request_first_runs()} == ANALYSES.keys() - {"stranded"}


@pytest.mark.parametrize("case", ["off", "no entities", "read-only"])
def test_nothing_is_requested(case, settings):
    if case == "off":
        settings.FIRST_ANALYSES = False
    elif case == "no entities":
        Entity.objects.all().delete()
    else:
        JournalHead.objects.create(pk=1, revision=3, hash="0" * 64)
    assert request_first_runs() == [] and not AnalysisRun.objects.exists()


def test_finding_nothing_to_do_takes_one_query(django_assert_num_queries):
    request_first_runs()
    with django_assert_num_queries(1):
        request_first_runs()


@pytest.mark.parametrize(
    ("active", "other"), [*pairwise(GENERATIONS), tuple(reversed(list(GENERATIONS)[-2:]))]
)
def test_the_active_generation_is_compared_with_the_next_one(active, other):
    activate_generation(active)
    assert default_options(IMPACT) == {"to_generation": other}
    assert default_options(ANALYSES["stranded"]) == {}


def test_the_progress_ends_when_each_analysis_had_a_run(settings):
    assert first_runs_progress() == FirstRuns(0, len(ANALYSES))
    request_first_runs()
    AnalysisRun.objects.filter(type="stranded").update(state=JobState.DONE)
    assert first_runs_progress() == FirstRuns(1, len(ANALYSES))
    AnalysisRun.objects.exclude(type="stranded").update(state=JobState.FAILED)
    assert first_runs_progress() is None
    settings.FIRST_ANALYSES = False
    AnalysisRun.objects.all().delete()
    assert first_runs_progress() is None
    AnalysisRun.objects.create(type="stranded", state=JobState.RUNNING)
    assert first_runs_progress() == FirstRuns(0, 1)


def test_the_periodic_task_requests_them():
    request_scheduled_runs()
    assert AnalysisRun.objects.count() == len(ANALYSES)
