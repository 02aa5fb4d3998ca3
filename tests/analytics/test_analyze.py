"""Test `manage.py analyze`, which runs an analysis in the foreground."""

import csv

import pytest
from django.core.management import CommandError, call_command

from entities.models import Entity
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path / "snapshots")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["visibilty"], "`visibilty` is not an analysis; the analyses are delete-readiness"),
        (
            ["policy-impact", "--generation", "core", "--to-generation", "newest"],
            "`newest` is not a generation of rules",
        ),
        (["visibility", "--namespace", "sales"], "visibility takes no namespace; it takes generation"),
        (["ghost-grants", "--detail", "out.csv"], "ghost-grants has no detail table: use --output"),
        (["delete-readiness", "--output", "out.txt"], "must be one of .csv, .parquet, .jsonl"),
        (
            ["delete-readiness", "--output", "out.csv", "--detail", "./out.csv"],
            "--output and --detail are the same file, out.csv",
        ),
        (["delete-readiness", "--output", "tests/../out.csv", "--detail", "out.csv"], "are the same file"),
        (["delete-readiness", "--detail", "absent/out.csv"], "there is no folder absent"),
        (["delete-readiness", "--output", "/proc/out.csv"], "/proc/out.csv cannot be written"),
    ],
)
def test_invalid_arguments_are_refused_with_the_valid_ones_before_spark_starts(
    monkeypatch, arguments, message
):
    monkeypatch.setattr("analytics.runs.execution.compute_report", lambda **_: pytest.fail("it was computed"))
    Entity.objects.create(kind="namespace", key="sales")
    with pytest.raises(CommandError) as raised:
        call_command("analyze", *arguments)
    assert message in str(raised.value)


def test_a_failed_analysis_prints_a_message(monkeypatch, tmp_path):
    monkeypatch.setattr("analytics.runs.execution.stop_spark", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(CommandError, match="where there is no bin/java"):
        call_command("analyze", "delete-readiness")


@pytest.mark.spark
def test_analyze_writes_files_or_prints_the_overview_and_leaves_no_results(
    spark, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr("analytics.runs.execution.stop_spark", lambda: None)
    store_tenant(random_tenant(3))
    call_command(
        "analyze",
        "delete-readiness",
        "--generation",
        "core",
        "--output",
        str(tmp_path / "rows.csv"),
        "--detail",
        str(tmp_path / "detail.csv"),
    )
    output = capsys.readouterr()
    assert output.out == "" and "Taking a snapshot" in output.err
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    with (tmp_path / "detail.csv").open() as file:
        detail = list(csv.DictReader(file))
    assert {row["required"] for row in rows} == {"1"} and {row["ready"] for row in rows} == {"true", "false"}
    assert len(detail) == sum(int(row["missing"]) for row in rows) > 0
    call_command("analyze", "delete-readiness", "--generation", "core", "--namespace", rows[0]["namespace"])
    lines = capsys.readouterr().out.splitlines()
    assert (
        len(lines) == 2
        and lines[0].split()[:2] == ["namespace", "required"]
        and lines[1].startswith(rows[0]["namespace"])
    )
    assert not list((tmp_path / "snapshots" / "results").glob("*/command-*"))
