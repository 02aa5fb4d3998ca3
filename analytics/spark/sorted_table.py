"""Tables with rows that Python workers build in the order of the key.

If the workers and this process share a folder, the workers write the Parquet files themselves. Otherwise they
return the rows to Spark, which converts each row to its own format and back; that is most of the cost of a
large table.
"""

import base64
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame

from analytics.arrow import arrow_schema
from analytics.spark.batches import BATCH_ROWS, BatchFunction
from analytics.tables import Table
from entities.frozen import frozen

# The columns that a worker returns for each file that it wrote.
FILES = "part int, name string"
LOCAL_SCHEME = "file://"
# The size limit of the dictionary of one column in one row group. Beyond it, each row contains its text.
DICTIONARY_BYTES = 64 << 20


@frozen
class SortedTable:
    """A table that can be written without sorting it.

    source: a DataFrame with partitions in the order of the table's key.
    rows: a function that builds the sorted rows of a partition of `source`; texts may be dictionaries.
    """

    table: Table
    source: DataFrame
    rows: BatchFunction

    @property
    def frame(self) -> DataFrame:
        """Return the rows as a Spark DataFrame."""
        columns = ", ".join(f"{column.name} {column.type.value}" for column in self.table.columns)
        return self.source.mapInArrow(_without_dictionaries(self.rows), columns)


def is_shared(uri: str) -> bool:
    """Return whether Python workers and this process reach a path or URI as the same folder."""
    return "://" not in uri or uri.startswith(LOCAL_SCHEME)


def write_files(sorted_table: SortedTable, uri: str, metadata: Mapping[str, str]) -> None:
    """Write the table in the workers. Replace an existing table. uri: a URI for which
    `is_shared` is true. metadata: further metadata of each file.

    If a worker fails, the folder has no file that a reader would read.
    """
    folder = Path(uri.removeprefix(LOCAL_SCHEME))
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    table = sorted_table.table
    # readers see the types and comments of the table, not the dictionaries that the workers write
    schema = base64.b64encode(arrow_schema(table).serialize().to_pybytes()).decode()
    write = _write_partition(
        sorted_table.rows,
        str(folder),
        [table.column_names.index(name) for name in table.key],
        {"ARROW:schema": schema, **metadata},
    )
    # One row for each file. A partition writes at most one file.
    written = sorted_table.source.mapInArrow(write, FILES).collect()
    for file in written:
        (folder / file.name).rename(folder / f"part-{file.part:05}.parquet")
    # Delete the files of failed attempts.
    for leftover in folder.glob(".*"):
        leftover.unlink()
    if not written:
        pq.write_table(arrow_schema(sorted_table.table).empty_table(), folder / "part-00000.parquet")


def _write_partition(
    rows: BatchFunction, folder: str, key: Sequence[int], metadata: Mapping[str, str]
) -> BatchFunction:
    """Return a function that writes the rows of a partition and returns FILES; it does nothing if there are
    no rows.

    key: the positions of the columns by which the rows are sorted, which the files state. Only the first one has
    statistics: within a file, the others are not sorted, so their statistics would not help a reader, and they would
    double the time of writing.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        # A hidden file is not read, and no other attempt has the same name.
        name, writer = f".{task.partitionId():05}-{task.taskAttemptId()}", None
        path = os.path.join(folder, name)
        for batch in rows(batches):
            try:
                writer = writer or result_writer(path, batch.schema, key)
                writer.write_batch(batch, row_group_size=max(1, batch.num_rows))
            except OSError as error:
                # The error message for an open file does not contain its path.
                raise OSError(f"{path}: {error}") from error
        if writer:
            writer.add_key_value_metadata(metadata)
            writer.close()
            yield pa.record_batch({"part": pa.array([task.partitionId()], pa.int32()), "name": [name]})

    return write


def result_writer(path: str, schema: pa.Schema, key: Sequence[int]) -> pq.ParquetWriter:
    """Open a file of a result table. key: the positions of the columns by which the rows are sorted."""
    return pq.ParquetWriter(
        path,
        schema,
        store_schema=False,
        write_statistics=[schema.names[key[0]]],
        sorting_columns=[pq.SortingColumn(position) for position in key],
        dictionary_pagesize_limit=DICTIONARY_BYTES,
    )


def _without_dictionaries(rows: BatchFunction) -> BatchFunction:
    """Return a function that builds the same rows without dictionary-encoded columns, in batches of
    BATCH_ROWS for Spark.
    """

    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows(batches):
            for first in range(0, batch.num_rows, BATCH_ROWS):
                columns = batch.slice(first, BATCH_ROWS).columns
                yield pa.record_batch(
                    [
                        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
                        for column in columns
                    ],
                    names=batch.schema.names,
                )

    return build
