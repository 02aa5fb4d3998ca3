"""A result advances by the areas that changed, and equals a full one."""

import random
from datetime import timedelta
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from django.conf import settings
from django.utils import timezone

from analytics.analyses import ANALYSES
from analytics.computation import BaseResult, Progress, compute_tables
from analytics.models import AnalysisRun
from analytics.results.changed_areas import changed_areas
from analytics.snapshots.snapshot import lease_snapshot
from analytics.storage import place_of
from grants.jobs import run_job
from grants.models import JobState
from grants.validity import at_time
from tests.support.analyses import LARGE, lower_limits
from tests.support.changes import add_user, change_grants, remove_group, rename_user
from tests.support.random_histories import begin_history, change_at_random

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

OPTIONS = {
    "visibility": {"generation": "final"},
    "delete-readiness": {"generation": "existing", "namespace": ""},
}


@pytest.fixture(autouse=True)
def storage(settings, tmp_path, monkeypatch):
    settings.SNAPSHOT_URI = str(tmp_path / "snapshots")
    monkeypatch.setattr("analytics.computation.SMALL_SNAPSHOT_BYTES", LARGE)
    lower_limits(monkeypatch)
    return tmp_path


def places_in(folder, analysis):
    return {
        output.table.name: place_of(str(folder / output.table.name), "folder")
        for output in analysis.written_outputs
    }


def compute(spark, name, snapshot, folder, base=None):
    analysis = ANALYSES[name]
    places = places_in(folder, analysis)
    summary = compute_tables(
        analysis,
        OPTIONS[name],
        snapshot,
        spark,
        places=places,
        writes_detail=lambda rows: False,
        progress=Progress(),
        base=base,
    )
    return places, summary


def rows(place):
    return ds.dataset(place.path, format="parquet").to_table().to_pylist()


def inodes(places):
    return {path.stat().st_ino for place in places.values() for path in Path(place.path).glob("*.parquet")}


@pytest.mark.parametrize(("name", "seed"), [*((name, 5) for name in OPTIONS), ("delete-readiness", 6)])
def test_after_random_changes_an_advanced_result_equals_a_full_one(spark, name, seed, storage):
    dice = random.Random(seed)
    begin_history(dice)
    with lease_snapshot() as snapshot:
        base, _ = compute(spark, name, snapshot, storage / "base")
    before, advanced = snapshot, 0
    for number in range(4):
        for _ in range(dice.randrange(3)):
            change_at_random(dice)
        with at_time(timezone.now() + timedelta(minutes=15 * number)), lease_snapshot() as snapshot:
            full, summary = compute(spark, name, snapshot, storage / f"full{number}")
            areas = changed_areas(before.revision, before.at, snapshot.revision, snapshot.at)
            if areas is not None:
                base, advanced_summary = compute(
                    spark, name, snapshot, storage / f"advanced{number}", BaseResult(base, areas)
                )
                advanced += 1
                assert advanced_summary == summary
                for output in ANALYSES[name].outputs:
                    table = output.table.name
                    assert rows(base[table]) == rows(full[table]), (number, table, areas)
            else:
                base = full
        before = snapshot
    assert advanced >= 2


def finished_run(name="visibility"):
    run = AnalysisRun.objects.create(type=name, options=OPTIONS[name])
    run_job(run.pk)
    run.refresh_from_db()
    assert run.state == JobState.DONE, run.error
    return run, places_in(Path(settings.SNAPSHOT_URI, run.result_path), ANALYSES[name])


def check_equals_full(spark, places, folder, name="visibility"):
    with lease_snapshot() as snapshot:
        full, _ = compute(spark, name, snapshot, folder)
    for output in ANALYSES[name].outputs:
        assert rows(places[output.table.name]) == rows(full[output.table.name])


@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_advances_the_report_of_the_previous_run(spark, storage, name):
    begin_history(random.Random(3))
    _, first = finished_run(name)
    add_user("ned")
    _, same = finished_run(name)
    tables = {name: place for name, place in first.items() if name != "detail"}
    assert inodes(tables) <= inodes(same), "a user without access changes no row"
    change_grants(grant=[("user:user 1", "dataset:a.one", "READ"), ("user:user 1", "dataset:a.one", "ADMIN")])
    run, second = finished_run(name)
    assert run.summary["changes"]["added"] + run.summary["changes"]["changed"] > 0
    check_equals_full(spark, second, storage / "full", name)


def test_a_damaged_report_is_not_advanced(spark, storage):
    begin_history(random.Random(3))
    _, first = finished_run()
    next(Path(first["rows"].path).glob("*.parquet")).unlink()
    change_grants(grant=[("user:user 1", "dataset:a.one", "READ")])
    run, second = finished_run()
    assert "comparison_fault" in run.summary and not inodes(first) & inodes(second)
    check_equals_full(spark, second, storage / "full")


def test_a_report_with_other_rules_is_not_advanced(spark, storage):
    begin_history(random.Random(3))
    run, first = finished_run()
    run.summary["basis"] = "other"
    run.save(update_fields=["summary"])
    _, second = finished_run()
    assert not inodes(first) & inodes(second)


NOT_LOCAL = {
    "a renamed user": lambda: rename_user(name="user 1", new_name="user 9"),
    "a removed group": lambda: remove_group("group 0", revokes_grants=True),
}


@pytest.mark.parametrize("change", NOT_LOCAL)
def test_a_change_that_is_not_about_single_users_or_namespaces_needs_a_full_result(change, storage):
    begin_history(random.Random(3))
    with lease_snapshot() as before:
        pass
    NOT_LOCAL[change]()
    with lease_snapshot() as after:
        assert changed_areas(before.revision, before.at, after.revision, after.at) is None
    assert changed_areas(after.revision, after.at, before.revision, before.at) is None, (
        "the clock was set back"
    )
