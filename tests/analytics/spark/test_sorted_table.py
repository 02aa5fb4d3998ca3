"""Tables that Python workers write themselves: whole, in order and the same as through Spark, or nothing that anybody reads."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from analytics.results.index import IndexedFile, read_file_index
from analytics.spark.schemas import read_table, write_table
from analytics.spark.sorted_table import SortedTable, is_shared
from analytics.tables import VISIBILITY_NAMESPACES as TABLE


def made(spark, *, rows=12, fails=False):
    """So many rows of whole numbers as text, in three partitions, the middle one of which may fail."""
    def texts(batches):
        for batch in batches:
            numbers = batch.column("id").to_pylist()
            if fails and 5 in numbers:
                raise RuntimeError("the fifth is missing")
            yield pa.record_batch({
                "user": pa.array([f"user {number:02}" for number in numbers]).dictionary_encode(),
                "namespace": pa.array(["" if number % 2 else "sales" for number in numbers]).dictionary_encode(),
                "visible": pa.array(numbers, pa.int64())})

    return SortedTable(TABLE, spark.range(rows, numPartitions=3), texts)


def read(folder):
    """Of each file by name."""
    return [pq.read_table(path).to_pylist() for path in sorted(folder.glob("*.parquet"))]


def test_each_partition_is_a_file_and_the_names_follow_the_order(spark, tmp_path):
    write_table(made(spark), TABLE, f"file://{tmp_path}/table")
    found = read(tmp_path / "table")
    assert [len(rows) for rows in found] == [4, 4, 4]
    assert [row["visible"] for rows in found for row in rows] == list(range(12))
    assert found[0][1] == {"user": "user 01", "namespace": "", "visible": 1}


def test_what_is_read_back_is_what_goes_through_spark(spark, tmp_path):
    write_table(made(spark), TABLE, str(tmp_path / "table"))
    assert sorted(read_table(spark, TABLE, str(tmp_path / "table")).collect()) == sorted(made(spark).frame.collect())


def test_text_is_kept_as_text_for_every_reader(spark, tmp_path):
    write_table(made(spark), TABLE, str(tmp_path / "table"))
    schema = pq.read_schema(tmp_path / "table" / "part-00000.parquet")
    assert [str(schema.field(column.name).type) for column in TABLE.columns] == ["string", "string", "int64"]


def test_a_table_without_rows_is_a_file_without_rows(spark, tmp_path):
    write_table(made(spark, rows=0), TABLE, str(tmp_path / "table"))
    assert read(tmp_path / "table") == [[]]


def test_the_workers_write_what_the_index_says(spark, tmp_path):
    write_table(made(spark), TABLE, str(tmp_path / "table"))
    assert read_file_index(LocalFileSystem(), str(tmp_path / "table")) == [
        IndexedFile("part-00000.parquet", 4, "user 00", "user 03"), IndexedFile("part-00001.parquet", 4, "user 04", "user 07"),
        IndexedFile("part-00002.parquet", 4, "user 08", "user 11")]
    write_table(made(spark, rows=0), TABLE, str(tmp_path / "table"))
    assert read_file_index(LocalFileSystem(), str(tmp_path / "table")) == [IndexedFile("part-00000.parquet", 0)]


def test_what_was_there_before_is_gone(spark, tmp_path):
    write_table(made(spark), TABLE, str(tmp_path / "table"))
    write_table(made(spark, rows=1), TABLE, str(tmp_path / "table"))
    assert sum(map(len, read(tmp_path / "table"))) == 1


def test_a_table_of_which_a_part_fails_has_no_file_that_anybody_reads(spark, tmp_path):
    with pytest.raises(Exception, match="the fifth is missing"):
        write_table(made(spark, fails=True), TABLE, str(tmp_path / "table"))
    assert read(tmp_path / "table") == []


@pytest.mark.parametrize(("uri", "shared"), [
    ("/var/results", True), ("file:///var/results", True), ("s3a://bucket/results", False), ("hdfs://name/results", False),
])
def test_workers_write_themselves_only_where_they_share_a_folder(uri, shared):
    assert is_shared(uri) == shared
