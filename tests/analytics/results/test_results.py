"""Reading a report by pages and writing it to a file, without Spark."""

import csv
import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analytics.analyses import AnalysisError
from analytics.arrow import arrow_schema
from analytics.models import AnalysisRun
from analytics.results.export import EXPORT_FORMATS, check_export_path, export_chunks, export_table
from analytics.results.files import ResultsGone
from analytics.results.query import EVERYTHING, ResultFilter
from analytics.results.read import (
    TableLeftOut,
    first_rows,
    result_batches,
    result_page,
    result_stream,
    row_counts,
)
from analytics.storage import StorageError
from analytics.tables import READINESS, READINESS_NAMESPACES, STRANDED
from grants.models import JobState

ROWS = [
    {"namespace": "eng", "user": "Zoe", "required": 3, "held": 1, "missing": 2, "ready": False},
    {"namespace": "eng", "user": "ada, the first", "required": 3, "held": 3, "missing": 0, "ready": True},
    {"namespace": "sales", "user": "ada, the first", "required": 9, "held": 4, "missing": 5, "ready": False},
    {"namespace": "sales", "user": 'q"o', "required": 9, "held": 9, "missing": 0, "ready": True},
]


@pytest.fixture
def run(settings, tmp_path):
    """Create a finished run with rows in two files."""
    settings.SNAPSHOT_URI = str(tmp_path)
    folder = tmp_path / "results" / "rows"
    folder.mkdir(parents=True)
    for number, part in enumerate((ROWS[:1], ROWS[1:])):
        pq.write_table(
            pa.Table.from_pylist(part, arrow_schema(READINESS)), folder / f"part-{number:05}.parquet"
        )
    (folder / "_SUCCESS").touch()
    return AnalysisRun(pk=1, type="delete-readiness", state=JobState.DONE, result_path="results")


def users(page):
    return [(row["namespace"], row["user"]) for row in page.rows]


@pytest.mark.parametrize("first_row", range(6))
@pytest.mark.parametrize("max_rows", [1, 2, 5])
def test_a_page_can_begin_and_end_in_any_file_and_row_group(first_row, max_rows, run, tmp_path):
    part = tmp_path / "results" / "rows" / "part-00001.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS[1:], arrow_schema(READINESS)), part, row_group_size=2)
    page = result_page(run, first_row=first_row, max_rows=max_rows)
    assert page.rows == ROWS[first_row : first_row + max_rows] and page.total_rows == 4


def test_any_column_sorts_in_both_directions_and_the_key_breaks_ties(run):
    assert users(result_page(run, sort="missing")) == [users_of(1), users_of(3), users_of(0), users_of(2)]
    assert users(result_page(run, sort="missing", descending=True)) == [
        users_of(2),
        users_of(0),
        users_of(1),
        users_of(3),
    ]


def test_rows_are_counted_by_the_values_of_a_column(run):
    assert row_counts(run, "rows", by="user") == {"Zoe": 1, "ada, the first": 2, 'q"o': 1}
    assert row_counts(run, "rows", by="namespace", where=ResultFilter(equal={"ready": True})) == {
        "eng": 1,
        "sales": 1,
    }
    assert row_counts(run, "rows", by="namespace", where=ResultFilter(among={"namespace": ["hr"]})) == {}
    with pytest.raises(AnalysisError, match="missing"):
        row_counts(run, "rows", by="missing")


def users_of(number):
    return ROWS[number]["namespace"], ROWS[number]["user"]


def test_filters_narrow_rows_and_count(run):
    page = result_page(run, where=ResultFilter(equal={"namespace": "sales", "ready": True}))
    assert page.rows == [ROWS[3]] and page.total_rows == 1
    assert result_page(run, where=ResultFilter(containing={"user": "ADA"})).total_rows == 2
    assert result_page(run, where=ResultFilter(containing={"user": "%"})).total_rows == 0


def test_the_first_rows_of_a_namespace_are_those_of_no_other_with_a_similar_name(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    folder = tmp_path / "results" / "rows"
    folder.mkdir(parents=True)
    others = [f"application:ns20.app{number:04}" for number in range(1_000)]
    inside = [f"dataset:ns2.d{number:04}" for number in range(1_000)]
    outside = ["instance:cdap", "kerberosprincipal:etl"]
    for number, part in enumerate((others, inside, [*outside, "namespace:ns2", "namespace:ns20"])):
        rows = [{"entity": entity, "admins": 0, "admin": ""} for entity in part]
        table = pa.Table.from_pylist(rows, arrow_schema(STRANDED))
        pq.write_table(table, folder / f"part-{number:05}.parquet", row_group_size=100)
    (folder / "_SUCCESS").touch()
    run = AnalysisRun(pk=1, type="stranded", state=JobState.DONE, result_path="results")

    def entities(namespace, max_rows):
        return [row["entity"] for row in first_rows(run, "rows", ResultFilter(namespace=namespace), max_rows)]

    assert entities("ns2", 30) == inside[:30]
    assert entities("ns2", 2_000) == [*inside, "namespace:ns2"]
    assert entities("ns", 10) == []
    assert entities("", 10) == outside


@pytest.mark.parametrize(
    "query",
    [
        {"sort": "name"},
        {"sort": 'user" --'},
        {"where": ResultFilter(equal={"x": 1})},
        {"where": ResultFilter(containing={"missing": "1"})},
        {"table_name": "nothing"},
    ],
)
def test_an_unknown_column_or_table_is_refused_by_name(run, query):
    with pytest.raises(AnalysisError, match="the possible columns are|its tables are"):
        result_page(run, **query)


def test_a_run_without_a_report_is_refused(run):
    run.state = JobState.FAILED
    with pytest.raises(AnalysisError, match="run 1 is failed: it has no report"):
        result_page(run)


DAMAGES = {
    "cut off": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "no Parquet": lambda content: b"not found",
    # the header and the footer are valid, the rows between them are not
    "scrambled": lambda content: content[:4] + b"\xff" * 300 + content[304:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_raises_an_error_with_a_remedy(run, tmp_path, damage):
    path = tmp_path / "results" / "rows" / "part-00001.parquet"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(
        StorageError, match=r"damaged or unavailable \(.+\); run the analysis again$"
    ) as raised:
        result_page(run)
    assert "\n" not in str(raised.value)
    with pytest.raises(StorageError, match="run the analysis again"):
        list(result_batches(READINESS, "results"))


def test_csv_has_a_header_minimal_quotes_and_lower_case_booleans(run, tmp_path):
    assert export_table(READINESS, "results", tmp_path / "out.csv") == 4
    assert (tmp_path / "out.csv").read_text() == (
        "namespace,user,required,held,missing,ready\n"
        "eng,Zoe,3,1,2,false\n"
        'eng,"ada, the first",3,3,0,true\n'
        'sales,"ada, the first",9,4,5,false\n'
        'sales,"q""o",9,9,0,true\n'
    )


@pytest.mark.parametrize("extension", EXPORT_FORMATS)
def test_the_chunks_of_a_stream_equal_the_file(run, tmp_path, extension):
    chunks = list(export_chunks(READINESS, result_stream(run, "rows"), EXPORT_FORMATS[extension]))
    export_table(READINESS, "results", tmp_path / f"out{extension}")
    assert b"".join(chunks) == (tmp_path / f"out{extension}").read_bytes() and len(chunks) > 2


def test_a_line_break_in_a_value_stays_in_its_field(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    rows = [ROWS[0] | {"user": name} for name in ("a\rb", "a\nb", "a\r\nb")]
    (tmp_path / "r" / "rows").mkdir(parents=True)
    pq.write_table(
        pa.Table.from_pylist(rows, arrow_schema(READINESS)), tmp_path / "r" / "rows" / "part-0.parquet"
    )
    export_table(READINESS, "r", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [row["user"] for row in csv.DictReader(file)] == ["a\rb", "a\nb", "a\r\nb"]


def test_a_stream_contains_the_filtered_rows_sorted_by_key(run):
    batches = result_stream(run, "rows", where=ResultFilter(equal={"ready": True}, containing={"user": "O"}))
    assert [row for batch in batches for row in batch.to_pylist()] == [ROWS[3]]


@pytest.mark.parametrize("where", [EVERYTHING, ResultFilter(equal={"ready": True})])
def test_a_stream_of_missing_files_is_refused_before_the_first_chunk(run, where):
    run.result_path = "elsewhere"
    with pytest.raises(ResultsGone, match="run the analysis again"):
        result_stream(run, "rows", where=where)


def test_a_table_with_missing_files_is_not_exported_as_empty(run, tmp_path):
    with pytest.raises(ResultsGone, match="run the analysis again"):
        export_table(READINESS_NAMESPACES, "results", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_a_removed_report_names_its_date_and_an_omitted_table_its_reason(run):
    run.summary = {"detail_is_written": False, "detail_rows": 6_000_000}
    with pytest.raises(TableLeftOut, match="6,000,000 rows are more than the console keeps"):
        result_page(run, "detail")
    run.result_removed_at = datetime(2026, 3, 1, tzinfo=UTC)
    with pytest.raises(ResultsGone, match="run 1 was removed on 01 March 2026"):
        result_page(run)


def test_json_lines_and_parquet_contain_the_same_rows_in_the_same_order(run, tmp_path):
    export_table(READINESS, "results", tmp_path / "out.jsonl")
    export_table(READINESS, "results", tmp_path / "out.parquet")
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == ROWS
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.to_pylist() == ROWS and table.schema == arrow_schema(READINESS)


def test_a_failed_export_keeps_the_existing_file(run, tmp_path, monkeypatch):
    (tmp_path / "out.csv").write_text("before")
    monkeypatch.setattr("analytics.results.export.result_batches", lambda *_, **__: iter([1 / 1, None]))
    with pytest.raises(AttributeError):
        export_table(READINESS, "results", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "before"
    assert not list(tmp_path.glob(".out*"))


def test_a_table_without_rows_is_exported_as_a_header(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    (tmp_path / "r" / "namespaces").mkdir(parents=True)
    pq.write_table(
        arrow_schema(READINESS_NAMESPACES).empty_table(), tmp_path / "r" / "namespaces" / "part-0.parquet"
    )
    assert export_table(READINESS_NAMESPACES, "r", tmp_path / "out.csv") == 0
    assert (tmp_path / "out.csv").read_text() == ",".join(READINESS_NAMESPACES.column_names) + "\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("out.xls", "it must be one of .csv, .parquet, .jsonl"),
        ("out", "it must be one of .csv, .parquet, .jsonl"),
        ("absent/out.csv", "there is no folder"),
        ("folder.csv", "is a folder"),
        (f"{'n' * 250}.csv", "File name too long.*choose another file or folder"),
        ("/proc/out.csv", "cannot be written.*choose another file or folder"),
    ],
)
def test_an_unwritable_file_is_refused_before_the_computation(tmp_path, name, message):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(AnalysisError, match=message):
        check_export_path(tmp_path / name)
