"""Reading a page of a report with thousands of files opens only the index and the files with the rows of the
page.
"""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSystemHandler, LocalFileSystem, PyFileSystem

from analytics.arrow import arrow_schema
from analytics.models import AnalysisRun
from analytics.results.index import INDEX_NAME, IndexedFile, write_index
from analytics.results.query import ResultFilter
from analytics.results.read import result_batches, result_page, row_counts
from analytics.storage import Place
from analytics.tables import READINESS
from grants.models import JobState

FILES, ROWS_PER_FILE = 5_120, 60


class RecordingFileSystem(FileSystemHandler):
    """A local file system that records the files opened for reading."""

    def __init__(self):
        self.local, self.opened = LocalFileSystem(), []

    def open_input_file(self, path):
        self.opened.append(path.rpartition("/")[2])
        return self.local.open_input_file(path)

    def open_input_stream(self, path):
        return self.open_input_file(path)

    def get_file_info(self, paths):
        return self.local.get_file_info(paths)

    def get_file_info_selector(self, selector):
        return self.local.get_file_info(selector)

    def open_output_stream(self, path, metadata):
        return self.local.open_output_stream(path, metadata=metadata)

    def get_type_name(self):
        return "counted"

    def normalize_path(self, path):
        return path

    def _refuse(self, *_):
        raise NotImplementedError

    copy_file = create_dir = delete_dir = delete_dir_contents = delete_file = delete_root_dir_contents = (
        move
    ) = _refuse
    open_append_stream = _refuse


def rows_of(number):
    """Return the rows of one file: each file has one user, and the names ascend with the file number."""
    return [
        {
            "namespace": f"ns{number:05}",
            "user": f"user {row:02}",
            "required": number,
            "held": row,
            "missing": number - row,
            "ready": False,
        }
        for row in range(ROWS_PER_FILE)
    ]


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """Write a report of 5,120 files, like the workers of a cluster. Return the folder of the storage."""
    folder = tmp_path_factory.mktemp("many") / "results" / "rows"
    folder.mkdir(parents=True)
    schema = arrow_schema(READINESS)
    for number in range(FILES):
        pq.write_table(
            pa.Table.from_pylist(rows_of(number), schema),
            folder / f"part-{number:05}.parquet",
            compression="none",
        )
    return folder.parents[1]


@pytest.fixture
def opened_names(storage, settings, monkeypatch):
    """Return the list of the names of the files opened from now on."""
    settings.SNAPSHOT_URI = str(storage)
    handler = RecordingFileSystem()
    for module in ("read", "files"):
        monkeypatch.setattr(
            f"analytics.results.{module}.storage_root", lambda: (PyFileSystem(handler), str(storage))
        )
    return handler.opened


@pytest.fixture
def run():
    return AnalysisRun(pk=1, type="delete-readiness", state=JobState.DONE, result_path="results")


@pytest.fixture
def index(storage, opened_names):
    write_index(READINESS, Place(LocalFileSystem(), f"{storage}/results/rows", ""))
    opened_names.clear()
    yield storage / "results" / "rows" / INDEX_NAME
    (storage / "results" / "rows" / INDEX_NAME).unlink()


@pytest.mark.parametrize("first_row", [0, 55, 150_000, FILES * ROWS_PER_FILE - 50, FILES * ROWS_PER_FILE])
def test_a_page_opens_at_most_three_files(run, index, opened_names, first_row):
    page = result_page(run, first_row=first_row)
    expected = [
        row
        for number in range(first_row // ROWS_PER_FILE, min(FILES, first_row // ROWS_PER_FILE + 2))
        for row in rows_of(number)
    ]
    assert page.rows == expected[first_row % ROWS_PER_FILE :][:50]
    assert page.total_rows == FILES * ROWS_PER_FILE
    assert INDEX_NAME in opened_names and len(opened_names) <= 3


def test_a_page_of_one_namespace_opens_at_most_three_files(run, index, opened_names):
    page = result_page(run, where=ResultFilter(equal={"namespace": "ns00007"}), max_rows=100)
    assert page.rows == rows_of(7) and page.total_rows == ROWS_PER_FILE
    assert set(opened_names) == {INDEX_NAME, "part-00007.parquet"}


def test_rows_of_some_namespaces_are_read_from_their_files_only(run, index, opened_names):
    two_namespaces = ResultFilter(among={"namespace": ["ns00007", "ns01234"]})
    assert row_counts(run, "rows", by="namespace", where=two_namespaces) == {
        "ns00007": ROWS_PER_FILE,
        "ns01234": ROWS_PER_FILE,
    }
    assert (
        sum(batch.num_rows for batch in result_batches(READINESS, "results", where=two_namespaces))
        == 2 * ROWS_PER_FILE
    )
    assert set(opened_names) == {INDEX_NAME, "part-00007.parquet", "part-01234.parquet"}


def test_a_namespace_in_no_file_has_no_rows(run, index, opened_names):
    page = result_page(run, where=ResultFilter(equal={"namespace": "ns99999"}))
    assert (page.rows, page.total_rows) == ([], 0)
    assert len(set(opened_names)) <= 3


def test_a_report_without_an_index_gives_the_same_page(run, opened_names):
    page = result_page(run, first_row=150_000)
    assert page.rows == rows_of(2_500)[:50] and page.total_rows == FILES * ROWS_PER_FILE
    assert INDEX_NAME not in opened_names and set(opened_names) == {
        f"part-{number:05}.parquet" for number in range(FILES)
    }


def test_a_file_with_an_unknown_range_can_contain_any_value():
    assert IndexedFile("f", 3).may_contain(["x"]) and not IndexedFile("f", 0).may_contain(["x"])
    assert IndexedFile("f", 3, "b", "d").may_contain(["a", "c"]) and not IndexedFile(
        "f", 3, "b", "d"
    ).may_contain(["a", "e"])
