"""The figures of runs: stored once, bounded, in series, and kept when reports are removed. Spark is replaced."""

from datetime import timedelta

import pytest
from django.utils import timezone

from analytics.analyses import ANALYSES
from analytics.models import AnalysisRun, Figure
from analytics.results import database
from analytics.results.database import figures_by_namespace
from analytics.runs import execution
from analytics.runs.figures import (
    daily_figures,
    daily_figures_by_subject,
    delete_old_figures,
    record_figures,
    work_of_run,
)
from analytics.runs.retention import clean_results
from analytics.storage import storage
from grants.jobs import run_job
from grants.jobs.lifecycle import requeue_job
from tests.support.reports import create_report
from tests.support.runs import create_waiting_run, reload_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("storage_folder")]
FINAL = {"generation": "final", "namespace": ""}
READINESS = "delete-readiness"
BLOCKED = "namespaces_nobody_can_delete"


def add_figure(days=0, value=1, *, hours=0, options=FINAL, subject="", analysis=READINESS, name=BLOCKED):
    return Figure.objects.create(
        analysis=analysis,
        options=options,
        finished_at=timezone.now() - timedelta(days=days, hours=hours),
        name=name,
        subject=subject,
        value=value,
    )


def values(rows):
    return [row.value for row in rows]


def test_a_run_stores_its_figures_and_what_it_took(replace_computation):
    replace_computation()
    run = create_waiting_run()
    run_job(run.pk)
    run = reload_run(run)
    stored = dict(Figure.objects.filter(run_id=run.pk).values_list("name", "value"))
    assert stored["pairs"] == 1 and stored["tasks"] == 0
    assert stored["computing_milliseconds"] >= 0
    assert stored["python_peak_bytes"] > 1_000_000
    assert "pairs" not in work_of_run(run) and "tasks" in work_of_run(run)
    row = Figure.objects.filter(run_id=run.pk).first()
    assert (row.analysis, row.options) == (run.type, run.options)
    assert timedelta(0) <= run.finished_at - row.finished_at < timedelta(seconds=10)


def test_another_attempt_replaces_the_figures(replace_computation, monkeypatch):
    replace_computation()
    run = create_waiting_run()
    record_figures(run, {("pairs", ""): 9})
    run_job(run.pk)
    assert Figure.objects.get(run_id=run.pk, name="pairs").value == 1


def test_an_attempt_that_lost_its_claim_stores_no_figures(replace_computation, monkeypatch):
    replace_computation()
    run = create_waiting_run()
    original = execution.write_report_manifest

    def lose_claim(*arguments, **options):
        requeue_job(reload_run(run))
        return original(*arguments, **options)

    monkeypatch.setattr(execution, "write_report_manifest", lose_claim)
    run_job(run.pk)
    assert not Figure.objects.exists()


def test_figures_remain_when_the_report_is_removed(storage_folder, settings):
    settings.RESULTS_KEPT, settings.RESULTS_KEPT_DAYS = 1, 30
    for days in (60, 50, 0):
        create_report(
            storage_folder,
            {"rows": [], "namespaces": []},
            summary={BLOCKED: days},
            finished_at=timezone.now() - timedelta(days=days),
        )
    clean_results()
    assert AnalysisRun.objects.filter(result_removed_at=None).count() == 1
    assert values(daily_figures({READINESS: [BLOCKED]}, days=90)) == [60, 50, 0]
    AnalysisRun.objects.all().delete()
    assert values(daily_figures({READINESS: [BLOCKED]}, days=90)) == [60, 50, 0]


def test_figures_older_than_figures_kept_days_are_deleted(settings):
    settings.FIGURES_KEPT_DAYS = 30
    add_figure(days=31), add_figure(days=29, value=2)
    clean_results()
    assert values(Figure.objects.all()) == [2]
    assert delete_old_figures() == 0


def test_a_day_has_its_last_figure_and_other_options_are_another_series():
    noon = timezone.now().replace(hour=12)
    for days, hours, value, options in (
        (2, 3, 1, FINAL),
        (2, 1, 2, FINAL),
        (2, 0, 7, FINAL | {"generation": "core"}),
        (2, 0, 8, FINAL | {"namespace": "sales"}),
        (1, 0, 3, FINAL),
    ):
        row = add_figure(value=value, options=options)
        Figure.objects.filter(pk=row.pk).update(finished_at=noon - timedelta(days=days, hours=hours))
    assert values(daily_figures({READINESS: [BLOCKED]}, days=90)) == [2, 3]
    assert values(daily_figures({READINESS: [BLOCKED]}, days=1)) in ([3], [])


def test_the_namespaces_with_the_largest_figures_are_read(django_assert_max_num_queries):
    figure = {"analysis": "blast-radius", "name": "users_who_can_change_something"}
    for number in range(12):
        for days in (1, 0):
            add_figure(days, number, subject=f"ns{number}", options={"generation": "final"}, **figure)
    with django_assert_max_num_queries(2):
        rows = daily_figures_by_subject(*figure.values(), days=90, subjects=3)
    assert {row.subject for row in rows} == {"ns9", "ns10", "ns11"} and len(rows) == 6


def test_a_figure_by_namespace_is_stored_for_a_bounded_number_of_namespaces(storage_folder, monkeypatch):
    monkeypatch.setattr(database, "MAX_SUBJECTS", 2)
    users = {"sales": 3, "hr": 2, "ops": 1, "": 5}
    rows = [(f"u{n}", name, 4, 1) for name, count in users.items() for n in range(count)]
    rows.append(("reader", "ops", 4, 0))
    run = create_report(
        storage_folder,
        {"namespaces": sorted(rows)},
        analysis="blast-radius",
        options={"generation": "final"},
    )
    places = {"namespaces": storage().child(run.result_path).child("namespaces")}
    assert figures_by_namespace(ANALYSES["blast-radius"], places) == {
        ("users_who_can_change_something", "sales"): 3,
        ("users_who_can_change_something", "hr"): 2,
    }
