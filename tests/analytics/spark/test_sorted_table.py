"""Tables that Python workers write: complete, sorted and equal to those that Spark writes; no files after a
failure.
"""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from analytics.results.index import IndexedFile, files_from_footers
from analytics.spark.schemas import read_table, write_table
from analytics.spark.sorted_table import SortedTable, is_shared
from analytics.tables import VISIBILITY_NAMESPACES as TABLE


def numbers_table(spark, *, rows=12, fails=False):
    """Return a table of numbers and texts in three partitions. fails: the middle partition raises an error."""

    def build_rows(batches):
        for batch in batches:
            numbers = batch.column("id").to_pylist()
            if fails and 5 in numbers:
                raise RuntimeError("the fifth is missing")
            yield pa.record_batch(
                {
                    "user": pa.array([f"user {number:02}" for number in numbers]).dictionary_encode(),
                    "namespace": pa.array(
                        ["" if number % 2 else "sales" for number in numbers]
                    ).dictionary_encode(),
                    "visible": pa.array(numbers, pa.int64()),
                }
            )

    return SortedTable(TABLE, spark.range(rows, numPartitions=3), build_rows)


def read_files(folder):
    """Return the rows of each file, in the order of file names."""
    return [pq.read_table(path).to_pylist() for path in sorted(folder.glob("*.parquet"))]


def test_each_partition_is_a_file_and_the_file_names_have_the_order_of_the_partitions(spark, tmp_path):
    write_table(numbers_table(spark), TABLE, f"file://{tmp_path}/table")
    rows_by_file = read_files(tmp_path / "table")
    assert [len(rows) for rows in rows_by_file] == [4, 4, 4]
    assert [row["visible"] for rows in rows_by_file for row in rows] == list(range(12))
    assert rows_by_file[0][1] == {"user": "user 01", "namespace": "", "visible": 1}


def test_the_written_rows_equal_those_of_the_spark_frame(spark, tmp_path):
    write_table(numbers_table(spark), TABLE, str(tmp_path / "table"))
    assert sorted(read_table(spark, TABLE, str(tmp_path / "table")).collect()) == sorted(
        numbers_table(spark).frame.collect()
    )


def test_texts_are_stored_as_plain_strings(spark, tmp_path):
    write_table(numbers_table(spark), TABLE, str(tmp_path / "table"))
    schema = pq.read_schema(tmp_path / "table" / "part-00000.parquet")
    assert [str(schema.field(column.name).type) for column in TABLE.columns] == ["string", "string", "int64"]


def test_a_table_without_rows_has_one_file_without_rows(spark, tmp_path):
    write_table(numbers_table(spark, rows=0), TABLE, str(tmp_path / "table"))
    assert read_files(tmp_path / "table") == [[]]


def test_the_footers_contain_the_range_of_the_first_key_column(spark, tmp_path):
    write_table(numbers_table(spark), TABLE, str(tmp_path / "table"))
    paths = sorted(map(str, (tmp_path / "table").iterdir()))
    assert files_from_footers(LocalFileSystem(), paths, TABLE.key[0]) == [
        IndexedFile("part-00000.parquet", 4, "user 00", "user 03"),
        IndexedFile("part-00001.parquet", 4, "user 04", "user 07"),
        IndexedFile("part-00002.parquet", 4, "user 08", "user 11"),
    ]


def test_writing_replaces_an_existing_table(spark, tmp_path):
    write_table(numbers_table(spark), TABLE, str(tmp_path / "table"))
    write_table(numbers_table(spark, rows=1), TABLE, str(tmp_path / "table"))
    assert sum(map(len, read_files(tmp_path / "table"))) == 1


def test_if_a_partition_fails_the_folder_has_no_readable_file(spark, tmp_path):
    with pytest.raises(Exception, match="the fifth is missing"):
        write_table(numbers_table(spark, fails=True), TABLE, str(tmp_path / "table"))
    assert read_files(tmp_path / "table") == []


@pytest.mark.parametrize(
    ("uri", "shared"),
    [
        ("/var/results", True),
        ("file:///var/results", True),
        ("s3a://bucket/results", False),
        ("hdfs://name/results", False),
    ],
)
def test_only_local_paths_are_shared_with_the_workers(uri, shared):
    assert is_shared(uri) == shared
