"""`python -m analytics.job` on a snapshot that `manage.py snapshot` wrote, without Django."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pyarrow.parquet as pq
import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from pyspark.sql import functions as F

from analytics import check, computation, job
from analytics.analyses import ANALYSES
from analytics.manifests import MANIFEST_NAME, manifest_body, manifest_bytes, unverified_contents
from analytics.settings import use_settings
from analytics.spark import set_form
from analytics.storage import place_of
from authzconsole.ops import ROOT
from tests.analytics.test_drift_agrees import begin, check_lines, expected_drift
from tests.support.analyses import tenant_with_custom_kinds
from tests.support.notebooks import printed_texts, stored_texts
from tests.support.pipeline import PipelineEnvironment
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = pytest.mark.django_db(transaction=True)

OPTIONS = {"policy-impact": ["--generation", "existing", "--to-generation", "final"]}
# run each line of standard input as the arguments of a job, in one process with one session of Spark
RUN_ALL = """
import json, sys
sys.modules["django"] = None
from analytics import job
for line in sys.stdin:
    assert job.main(json.loads(line)) == 0, line
"""


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path / "console")
    yield tmp_path
    use_settings(django_settings)


@pytest.fixture
def snapshot(tmp_path):
    store_tenant(random_tenant(5))
    call_command("snapshot", str(tmp_path / "snapshot"))
    return tmp_path / "snapshot"


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return PipelineEnvironment(tmp_path_factory.mktemp("pipeline"))


def rows_of(folder):
    """Return the rows of a table that a job wrote, in the order of its files."""
    paths = sorted(path for path in folder.iterdir() if path.name.endswith(".parquet"))
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def rows_of_console(folder, analysis, *options):
    """Return the rows and the detail rows of `manage.py analyze`; None for an analysis without detail."""
    files = {"--output": folder / "rows.jsonl"}
    if ANALYSES[analysis].detail:
        files["--detail"] = folder / "detail.jsonl"
    call_command("analyze", analysis, *options, *(str(text) for item in files.items() for text in item))
    tables = [[json.loads(line) for line in path.read_text().splitlines()] for path in files.values()]
    return (*tables, None)[:2]


def test_the_wheel_has_the_modules_of_the_job_and_none_that_imports_django(pipeline):
    assert {
        "analytics/job.py",
        "analytics/spark/engine/entry.py",
        "grants/policies/catalogue/final.py",
    } <= set(pipeline.module_names)
    assert not {"analytics/models.py", "grants/models.py", "analytics/runs/execution.py"} & set(
        pipeline.module_names
    )
    for command in ("import django", "import analytics.models"):
        done = subprocess.run(
            [pipeline.python, "-c", command], env=pipeline.variables(), capture_output=True, text=True
        )
        assert "ModuleNotFoundError" in done.stderr


def test_the_file_of_the_job_starts_from_any_folder(tmp_path):
    """spark-submit gets its path, and adds only its folder to the path of modules."""
    command = [sys.executable, str(ROOT / "analytics" / "job.py"), "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "--snapshot" in done.stdout


@pytest.mark.spark
@pytest.mark.slow
def test_each_analysis_gives_the_rows_of_manage_py_analyze_without_django(
    spark, monkeypatch, tmp_path, snapshot, pipeline
):
    monkeypatch.setattr("analytics.runs.execution.stop_spark", lambda: None)
    jobs = {}
    for name, analysis in ANALYSES.items():
        folder = tmp_path / name
        folder.mkdir()
        jobs[name] = [
            name,
            "--snapshot",
            str(snapshot),
            "--output",
            str(folder / "output"),
            *OPTIONS.get(name, ()),
        ]
        jobs[name] += ["--tables", str(folder / "tables")]
        jobs[name] += ["--detail", str(folder / "detail")] if analysis.detail else []
    done = subprocess.run(
        [pipeline.python, "-c", RUN_ALL],
        input="".join(f"{json.dumps(arguments)}\n" for arguments in jobs.values()),
        env=pipeline.variables(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    for name, analysis in ANALYSES.items():
        rows, detail = rows_of_console(tmp_path / name, name, *OPTIONS.get(name, ()))
        assert rows_of(tmp_path / name / "output") == rows, name
        assert detail is None or rows_of(tmp_path / name / "detail") == detail, name
        others = {output.table.name for output in analysis.outputs} - {"rows"}
        assert {path.name for path in (tmp_path / name / "tables").iterdir()} == others
        assert check.main([str(path.parent) for path in (tmp_path / name).rglob(MANIFEST_NAME)]) == 0


def test_the_python_blocks_of_the_guide_import_what_they_use():
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/guides/standalone-jobs.md").read_text(), re.DOTALL
    )
    assert blocks
    for block in blocks:
        command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "-"]
        done = subprocess.run(command, input=block, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def run(*arguments):
    return job.main([str(argument) for argument in arguments])


def damaged(snapshot, damage):
    place = place_of(str(snapshot), "")
    contents = unverified_contents(place.filesystem, place.path)
    match damage:
        case "missing":
            shutil.rmtree(snapshot)
        case "half written":
            (snapshot / MANIFEST_NAME).unlink()
        case "other schema":
            contents["schema"] = "1-old"
            (snapshot / MANIFEST_NAME).write_text("{}\n" + json.dumps(contents))
        case "no files in it":
            del contents["files"]
            (snapshot / MANIFEST_NAME).write_text("{}\n" + json.dumps(contents))
        case "no manifest":
            (snapshot / MANIFEST_NAME).write_text("nothing")
        case "file removed":
            (snapshot / "memberships" / "part-00000.parquet").unlink()


@pytest.mark.parametrize(
    "members",
    [
        {"files": None},
        {"files": ["part-0.parquet"]},
        {"rows": "many"},
        # a line that the check could have printed
        {"table": "rows\n/data/other: the table rows"},
        {"table": "\x1b[2Krows"},
    ],
)
def test_a_forged_manifest_is_named_and_the_other_results_are_checked(tmp_path, capsys, members):
    (tmp_path / "bad").mkdir()
    contents = {"table": "rows", "analysis": "visibility", "rows": 0, "revision": 1, "files": [], **members}
    (tmp_path / "bad" / MANIFEST_NAME).write_bytes(manifest_bytes({}, manifest_body(contents)))
    assert check.main([str(tmp_path / "bad"), str(tmp_path / "missing")]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and "its manifest is damaged" in printed.err and "missing" in printed.err


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("missing", "There is no snapshot at"),
        ("half written", "is not complete, because it has no manifest"),
        ("other schema", "it has the schema version 1-old, and this version of the pipeline reads"),
        ("no files in it", "its manifest is damaged"),
        ("no manifest", "its manifest is damaged"),
        ("file removed", "memberships/part-00000.parquet is missing"),
    ],
)
def test_a_snapshot_that_is_not_complete_and_intact_is_refused(snapshot, tmp_path, capsys, damage, message):
    damaged(snapshot, damage)
    assert run("visibility", "--snapshot", snapshot, "--output", tmp_path / "out") == 1
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()
    assert check.main([str(snapshot)]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["visibilty"], "`visibilty` is not an analysis; the analyses are delete-readiness"),
        (["visibility", "--since", "5"], "visibility takes no since; it takes generation"),
        (["policy-impact", "--to-generation", "newest"], "`newest` is not a generation of rules"),
        (
            ["delete-readiness", "--namespace", "nowhere"],
            "namespace:nowhere is not registered; the live namespaces are ns",
        ),
        (["unused", "--since", "5"], "no use is recorded"),
        (["ghost-grants", "--detail", "{folder}/detail"], "ghost-grants has no detail table"),
        (
            ["visibility", "--detail", "{folder}/snapshot/detail"],
            "--detail and --snapshot are in one another",
        ),
        (["visibility", "--detail", "{folder}/new/detail"], "--detail and --output are in one another"),
        (["visibility", "--detail", "{folder}/existing"], "exists already: choose a new folder"),
        (["visibility", "--detail", "{folder}/detail.csv"], "a job writes a folder of Parquet files"),
        (["visibility", "--detail", "/proc/out"], "--detail /proc/out cannot be written"),
        (["stranded", "--sets", "{folder}/sets"], "stranded has no sets"),
        (["visibility", "--detail", "nothing://there"], "--detail is nothing://there, which cannot be used"),
    ],
)
def test_wrong_arguments_are_refused_before_spark_starts(
    monkeypatch, snapshot, tmp_path, capsys, arguments, message
):
    monkeypatch.setattr(job, "submitted_session", lambda: pytest.fail("Spark was started"))
    (tmp_path / "existing").mkdir()
    arguments = [argument.format(folder=tmp_path) for argument in arguments]
    assert run(*arguments, "--snapshot", snapshot, "--output", tmp_path / "new") == 1
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["existing", "snapshot"]


@pytest.mark.parametrize("empty", ["snapshot", "output"])
def test_an_empty_folder_is_refused(snapshot, tmp_path, capsys, empty):
    folders = {"snapshot": snapshot, "output": tmp_path / "new"} | {empty: ""}
    assert run("visibility", "--snapshot", folders["snapshot"], "--output", folders["output"]) == 1
    assert f"--{empty} is empty: enter a path or a URI" in capsys.readouterr().err


@pytest.mark.spark
def test_the_drift_of_a_job_is_that_of_the_console_and_of_the_plain_computation(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("analytics.runs.execution.stop_spark", lambda: None)
    newest = begin(2)
    call_command("snapshot", str(tmp_path / "snapshot"))
    options = ["--from-revision", str(newest // 3), "--to-revision", str(newest - 5)]
    folders = ["--output", tmp_path / "out", "--tables", tmp_path / "tables"]
    assert run("drift", "--snapshot", tmp_path / "snapshot", *options, *folders) == 0
    rows = rows_of(tmp_path / "out")
    assert [tuple(row.values()) for row in rows] == expected_drift(newest // 3, newest - 5) != []
    assert rows_of_console(tmp_path, "drift", *options)[0] == rows
    lines = [tuple(row.values()) for row in rows_of(tmp_path / "tables" / "lines")]
    assert lines
    check_lines(lines, expected_drift(newest // 3, newest - 5), newest // 3, newest - 5)


def test_a_job_with_other_rules_than_the_console_is_refused(snapshot, tmp_path, capsys):
    place = place_of(str(snapshot), "")
    contents = unverified_contents(place.filesystem, place.path)
    contents["rules"]["core"] = "of another version"
    (snapshot / MANIFEST_NAME).write_text("{}\n" + json.dumps(contents))
    arguments = ["visibility", "--generation", "core", "--snapshot", snapshot, "--output", tmp_path / "out"]
    assert run(*arguments) == 1
    assert "the rules of `core` in this version of the pipeline differ" in capsys.readouterr().err
    contents["generation"] = "of another version"
    (snapshot / MANIFEST_NAME).write_text("{}\n" + json.dumps(contents))
    assert run("visibility", "--snapshot", snapshot, "--output", tmp_path / "out") == 1
    assert "the rules of `of another version` in this version" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_knows_the_kinds_and_the_instance_of_the_console(spark, own_kinds, tmp_path, monkeypatch):
    """The kinds are those of the process that wrote the snapshot; the process of the job starts without them."""
    monkeypatch.setattr("analytics.runs.execution.stop_spark", lambda: None)
    tenant_with_custom_kinds(3)
    call_command("snapshot", str(tmp_path / "snapshot"))
    expected, _ = rows_of_console(tmp_path, "visibility", "--generation", "final")
    command = [sys.executable, "-m", "analytics.job", "visibility", "--generation", "final"]
    command += ["--snapshot", tmp_path / "snapshot", "--output", tmp_path / "out"]
    variables = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3_000:]
    assert rows_of(tmp_path / "out") == expected
    assert {row["kind"] for row in expected} & {"record", "widget", "probe"}


def test_a_snapshot_is_not_written_over_something(snapshot):
    with pytest.raises(CommandError, match="There is something at .* already"):
        call_command("snapshot", str(snapshot))
    assert (snapshot / MANIFEST_NAME).exists()


def test_without_a_uri_the_snapshot_of_the_console_is_named(snapshot, capsys):
    call_command("snapshot")
    path = Path(capsys.readouterr().out.strip())
    assert path.is_relative_to(django_settings.SNAPSHOT_URI) and check.main([str(path)]) == 0


@pytest.mark.spark
def test_a_detail_table_above_the_limit_is_refused_unless_it_is_forced(
    spark, monkeypatch, snapshot, tmp_path, capsys
):
    monkeypatch.setattr(computation, "DETAIL_ROWS_MOST", 10)
    arguments = [
        "visibility",
        "--snapshot",
        snapshot,
        "--output",
        tmp_path / "out",
        "--detail",
        tmp_path / "detail",
    ]
    before = sorted(tmp_path.iterdir())
    assert run(*arguments) == 1
    assert "rows, which is more than 10: leave --detail out" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
    assert run(*arguments, "--force") == 0
    assert len(rows_of(tmp_path / "detail")) == sum(row["visible"] for row in rows_of(tmp_path / "out")) > 10
    monkeypatch.setattr("analytics.runs.execution.stop_spark", lambda: None)
    with pytest.raises(CommandError, match="leave --detail out"):
        call_command("analyze", "visibility", "--detail", str(tmp_path / "detail.csv"))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("seed", "generation"), [(5, "existing"), (6, "final"), (7, "core"), (8, "proposed")]
)
def test_the_sets_give_exactly_the_pairs(spark, tmp_path, capsys, seed, generation):
    store_tenant(random_tenant(seed))
    call_command("snapshot", str(tmp_path / "snapshot"))
    folders = {name: tmp_path / name for name in ("output", "detail", "sets")}
    arguments = [text for name, folder in folders.items() for text in (f"--{name}", folder)]
    assert run("visibility", "--generation", generation, "--snapshot", tmp_path / "snapshot", *arguments) == 0
    entities = {}
    for row in rows_of(folders["sets"] / "entities"):
        entities.setdefault(row["set"], []).append(row["entity"])
    given = [
        (row["principal"].removeprefix("user:"), entity)
        for row in rows_of(folders["sets"] / "principals")
        for entity in entities[row["set"]]
    ]
    pairs = [(row["user"], row["entity"]) for row in rows_of(folders["detail"])]
    assert sorted(given) == sorted(pairs) != []
    users = {entity: frozenset(user for user, seen in pairs if seen == entity) for _, entity in pairs}
    assert len(entities) == len(set(users.values()))
    rows = len(rows_of(folders["sets"] / "principals")) + len(users)
    assert (
        f"{len(entities)} sets in {rows} rows instead of {len(pairs)} pairs: ratio "
        in capsys.readouterr().err
    )
    place = place_of(str(folders["sets"] / "entities"), "")
    sizes = unverified_contents(place.filesystem, place.path)["summary"]["sets"]
    assert sizes["ratio"] == round(rows / len(pairs), 4)
    assert check.main([str(folders["sets"] / name) for name in ("principals", "entities")]) == 0


@pytest.mark.spark
@pytest.mark.parametrize(
    "fault", ["a user is missing", "a user is in a wrong set", "an entity is in two sets"]
)
def test_sets_that_differ_from_the_pairs_are_not_published(
    spark, monkeypatch, snapshot, tmp_path, capsys, fault
):
    entities, principals = set_form.sets_of_entities, set_form.principals_of_sets

    def wrong_principals(pairs, sets):
        rows = principals(pairs, sets)
        first = rows.orderBy("principal", "set").limit(1)
        if fault == "a user is missing":
            return rows.join(first, on=["principal", "set"], how="left_anti")
        return rows.union(first.select(F.lit("user:nobody"), "set")) if "wrong" in fault else rows

    def wrong_entities(pairs):
        rows = entities(pairs).select("set", "entity")
        first, last = rows.orderBy("set").limit(1), rows.orderBy(F.desc("set")).limit(1)
        return (
            rows.union(first.crossJoin(last.select(F.col("entity").alias("other"))).select("set", "other"))
            if "two" in fault
            else rows
        )

    monkeypatch.setattr(set_form, "principals_of_sets", wrong_principals)
    monkeypatch.setattr(set_form, "sets_of_entities", wrong_entities)
    before = sorted(tmp_path.iterdir())
    arguments = ["--snapshot", snapshot, "--output", tmp_path / "out", "--sets", tmp_path / "sets"]
    assert run("visibility", *arguments) == 1
    assert "The set form is not equal to the detail table" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.spark
def test_the_files_state_their_order_and_the_meaning_of_each_column(spark, snapshot, tmp_path):
    arguments = ["--snapshot", snapshot, "--output", tmp_path / "out", "--detail", tmp_path / "detail"]
    assert run("visibility", *arguments) == 0
    meaning = "the name of the user"
    path = next((tmp_path / "detail").glob("*.parquet"))
    schema = pq.read_schema(path)
    assert (
        schema.field("user").metadata == {b"comment": meaning.encode()}
        and schema.field("user").type == "string"
    )
    group = pq.ParquetFile(path).metadata.row_group(0)
    assert [column.column_index for column in group.sorting_columns] == [0, 1]
    assert group.column(0).statistics.min <= group.column(0).statistics.max
    for folder in ("out", "detail"):
        columns = spark.read.parquet(str(tmp_path / folder)).schema
        assert columns["user"].metadata["comment"] == meaning


@pytest.mark.spark
def test_a_result_that_was_changed_does_not_match_its_manifest(spark, snapshot, tmp_path, capsys):
    folder = tmp_path / "out"
    assert run("ghost-grants", "--snapshot", snapshot, "--output", folder) == 0
    assert check.main([str(folder)]) == 0
    assert "the table rows of ghost-grants" in capsys.readouterr().out
    part = next(folder.glob("*.parquet"))
    shutil.copyfile(part, folder / "part-99999.parquet")
    assert check.main([str(folder)]) == 1
    assert "part-99999.parquet was added" in capsys.readouterr().err
    (folder / "part-99999.parquet").unlink()
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    assert check.main([str(folder)]) == 1
    assert f"{part.name} has different content" in capsys.readouterr().err
    (folder / MANIFEST_NAME).unlink()
    assert check.main([str(folder)]) == 1
    assert "it has no manifest" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.slow
def test_the_notebook_prints_what_it_shows(tmp_path, pipeline):
    call_command("import_tenant", str(ROOT / "authzconsole/demo/tenant.jsonl"), verbosity=0)
    call_command("snapshot", str(tmp_path / "snapshot"))
    notebook = json.loads((ROOT / "docs/examples/blast-radius.ipynb").read_text())
    texts = printed_texts(notebook, tmp_path, pipeline.python, pipeline.variables())
    assert texts == stored_texts(notebook) and all(texts)


class Anything:
    """Stands for every module, class and value of Airflow, and records the arguments of the operators."""

    calls: ClassVar[list] = []

    def __getattr__(self, name):
        return self

    def __call__(self, *arguments, **options):
        Anything.calls.append(options)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __rshift__(self, other):
        return other


def test_the_airflow_example_calls_the_commands_with_arguments_that_they_accept(monkeypatch):
    for name in (
        "pendulum",
        "airflow",
        "airflow.operators.bash",
        "airflow.providers.apache.spark.operators.spark_submit",
        "airflow.providers.ssh.operators.ssh",
    ):
        monkeypatch.setitem(sys.modules, name, Anything())
    runpy.run_path(str(ROOT / "docs/examples/airflow_dag.py"))
    tasks = {call["task_id"]: call for call in Anything.calls if "task_id" in call}
    given = job.argument_parser().parse_args(tasks["visibility"]["application_args"])
    assert given.name == "visibility" and tasks["snapshot"]["command"].endswith(f"snapshot {given.snapshot}")
    assert tasks["visibility"]["application"].endswith("analytics/job.py")
    assert f"{given.sets}/principals" in tasks["check"]["bash_command"]


@pytest.mark.spark
@pytest.mark.slow
def test_workers_without_pyarrow_are_named(snapshot, tmp_path):
    (tmp_path / "pyarrow").mkdir()
    (tmp_path / "pyarrow" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'pyarrow'\")"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    command = [
        sys.executable,
        "-m",
        "analytics.job",
        "visibility",
        "--snapshot",
        snapshot,
        "--output",
        tmp_path / "out",
    ]
    variables = os.environ | {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.returncode == 1
    assert "A Python process of Spark has no pyarrow: install pyarrow" in done.stderr
    assert not (tmp_path / "out").exists()
